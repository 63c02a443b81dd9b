"""What load balancing counts by port (BalanceOutcome of p4src/modules/dlb/balance.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "chosen": "times chosen",
    "kept": "packets that followed their flowlet",
    "moved": "flowlets that came from another port",
    "steered": "times chosen for what was reported of paths",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 2 | number: outcome for number, outcome in enumerate(OUTCOMES)}


DLB = PortCounter(
    "dlb",
    "dlb",
    "balanced",
    cells,
    "chosen",
    OUTCOMES,
    "What load balancing sent to the port, by outcome: flowlets, or packets of policies without.",
)
