"""What became of packets that asked for more (BoltOutcome of p4src/modules/bolt/types.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "notified": "notified",
    "queued": "queued, notified already",
    "promised": "of ending flows",
    "taken": "granted of ending flows",
    "granted": "granted of supply",
    "refused": "refused",
    "silent": "asked for nothing",
}
"""In the order of the P4 enum, with how a count of each reads: '340 refused'."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 3 | number: outcome for number, outcome in enumerate(OUTCOMES)}


GRANTS = PortCounter(
    "bolt",
    "bolt",
    "Bolt",
    cells,
    "notified",
    OUTCOMES,
    "Data packets that carry a request for more, by outcome: the source was notified of a queue, "
    "a packet was granted, or why not.",
)
