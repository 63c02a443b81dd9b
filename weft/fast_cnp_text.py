"""What became of packets that met a long queue, in words: of counts by FAST_CNP_OUTCOMES."""

from __future__ import annotations

from collections.abc import Mapping

OUTCOME_TEXTS: Mapping[str, str] = {
    "sent": "sent",
    "interval": "within the interval",
    "already_told": "told already",
    "port_limit": "over the port's limit",
    "collision": "without a free cell",
    "nobody": "of unknown sources",
    "unknown_qp": "of unknown queue pairs",
    "ambiguous_qp": "of ambiguous queue pairs",
}
"""How a count of each outcome reads: '340 within the interval'."""


def counts_text(counts: Mapping[str, int]) -> str:
    """Return the outcomes that occurred, how many fast CNPs were sent first."""
    told = [
        f"{counts.get(outcome, 0)} {text}"
        for outcome, text in OUTCOME_TEXTS.items()
        if counts.get(outcome) or outcome == "sent"
    ]
    return ", ".join(told)
