"""What DPFR counts by port (DpfrOutcome of p4src/modules/dpfr/state.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "rerouted": "rerouted",
    "no_way": "without a way left",
    "went_down": "times detected dead",
    "came_up": "times detected alive again",
    "masked": "fault notifications accepted",
    "unmasked": "recovery notifications accepted",
    "old": "outdated notifications",
    "notified": "notifications sent",
    "gaps": "heartbeats after lost packets",
    "lossy": "times lossy on the way in",
    "degraded": "times avoided, being lossy on the way out",
    "recovered": "times used again after that",
    "lost_carrier": "times without carrier",
    "unplugged": "packets for a host behind it without carrier",
    "got_carrier": "times with carrier again",
    "warned": "warnings of lossy links accepted",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 4 | number: outcome for number, outcome in enumerate(OUTCOMES)}


def state(counts: Mapping[str, int]) -> str:
    """Return what DPFR makes of a port now: dead, no carrier (of a host), avoided, or nothing."""
    opposites = (
        ("went_down", "came_up", "dead"),
        ("lost_carrier", "got_carrier", "no carrier"),
        ("degraded", "recovered", "avoided"),
    )
    return next((s for on, off, s in opposites if counts.get(on, 0) != counts.get(off, 0)), "")


DPFR = PortCounter(
    "dpfr",
    "dpfr",
    "rerouted",
    cells,
    "rerouted",
    OUTCOMES,
    "What fast reroute did because of the port, by outcome: packets and notifications.",
    state=state,
)
