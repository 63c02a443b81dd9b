"""What DPFR counts by port (DpfrOutcome of p4src/modules/dpfr/state.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "rerouted": "rerouted",
    "no_way": "without a way left",
    "went_down": "times found dead",
    "came_up": "times found alive again",
    "masked": "faults heard of",
    "unmasked": "faults taken back",
    "old": "old news",
    "told": "news told",
    "gaps": "heartbeats behind lost packets",
    "lossy": "times found to lose packets on the way in",
    "degraded": "times avoided, as they were lost on the way out",
    "mended": "times used again",
    "lost_carrier": "times without carrier",
    "unplugged": "packets for a host behind it while it had none",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 4 | number: outcome for number, outcome in enumerate(OUTCOMES)}


DPFR = PortCounter(
    "dpfr",
    "dpfr",
    "rerouted",
    cells,
    "rerouted",
    OUTCOMES,
    "What fast reroute did because of the port, by outcome: packets and notifications.",
)
