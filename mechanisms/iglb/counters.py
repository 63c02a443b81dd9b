"""What iGLB counts by ports of arrival (PlanOutcome of p4src/modules/iglb/follow.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "pinned": "packets that took the plan's port",
    "unplanned": "of flows that no job has declared",
    "port_down": "whose port was down",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 2 | number: outcome for number, outcome in enumerate(OUTCOMES)}


IGLB = PortCounter(
    "iglb",
    "iglb",
    "planned",
    cells,
    "pinned",
    OUTCOMES,
    "RoCE packets that came by the port and had several ways to go on, by what the plan had.",
)
