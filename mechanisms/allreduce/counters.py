"""What AllReduce counts by port: the one that a packet came by (docs/allreduce.md)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "contributed": "contributions added",
    "duplicate": "duplicates",
    "late": "late duplicates",
    "stale": "of an old epoch",
    "summed": "sums complete",
    "result": "results from above",
    "answered": "answered with the result",
    "repeated": "sums sent again",
    "refused": "refused",
    "overflowed": "overflowed",
    "moved": "moves",
    "block": "blocks",
    "unexpected": "results that nobody waits for",
    "congested": "with CE",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 4 | number: outcome for number, outcome in enumerate(OUTCOMES)}


ALLREDUCE = PortCounter(
    "allreduce",
    "allreduce",
    "summed",
    cells,
    "summed",
    OUTCOMES,
    "What became of packets of AllReduce that came by the port, by outcome.",
)
