"""What AllReduce counts by port (AllReduceOutcome of p4src/modules/allreduce/types.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "contributed": "added up",
    "duplicate": "seen before",
    "late": "behind a later chunk",
    "stale": "of an old epoch",
    "summed": "the last of their rounds",
    "result": "results from the parent",
    "answered": "answered with a stored result",
    "repeated": "whose sum went up again",
    "refused": "refused",
    "overflowed": "beyond int32",
    "moved": "moves",
    "block": "blocks",
    "unexpected": "results for which no round waited",
    "congested": "with ECN CE",
    "passed": "on to the server as they came",
    "flushed": "repeats that took a partial sum along",
}
"""In the order of the P4 enum, with how a count of each reads."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 4 | number: outcome for number, outcome in enumerate(OUTCOMES)}


ALLREDUCE = PortCounter(
    "allreduce",
    "allreduce",
    "added up",
    cells,
    "contributed",
    OUTCOMES,
    "Packets of AllReduce that came by the port, by what became of them.",
    absorbed=frozenset({"contributed", "duplicate", "late", "unexpected"}),
)
