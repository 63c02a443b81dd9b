"""What became of packets that met a long queue (FastCnpOutcome of p4src/modules/fast_cnp.p4)."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import PortCounter

OUTCOMES: Mapping[str, str] = {
    "sent": "sent",
    "interval": "within the interval",
    "already_told": "already notified",
    "port_limit": "over the port's limit",
    "collision": "without a free cell",
    "nobody": "of unknown sources",
    "unknown_qp": "of unknown queue pairs",
    "ambiguous_qp": "of ambiguous queue pairs",
}
"""In the order of the P4 enum, with how a count of each reads: '340 within the interval'."""


def cells(port: int) -> dict[int, str]:
    """Return a port's cells of the counter: index -> outcome."""
    return {port << 3 | number: outcome for number, outcome in enumerate(OUTCOMES)}


FAST_CNPS = PortCounter(
    "fast_cnps",
    "fast_cnps",
    "fast CNPs",
    cells,
    "sent",
    OUTCOMES,
    "Packets that met a long queue at the port, by outcome: a fast CNP was sent, or why not.",
)
