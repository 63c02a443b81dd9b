"""What there are marks for in the plane choice, and how a header is tried.

First the header alone (header_alone.py), then in a card of two (two_cards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hostagent.own_algorithm import Alone, Built
from labs.grade import Item, Submission

from . import header_alone, headers, two_cards
from .bench import Bench

ITEM_S = 60.0
"""An item takes a fraction of a second, the first run builds the card: a few more."""


def read(path: Path) -> Built:
    """Read and check what was handed in. Raises OwnAlgorithmError, a ValueError; OSError."""
    built = headers.built(path)
    Alone(built)  # compiled here: an item's time is the header's alone
    return built


def bench(submission: Submission) -> Bench:
    """Return what items are judged with."""
    assert isinstance(submission.content, Built)
    return Bench(submission.content, submission.seed)


def items() -> Sequence[Item]:
    """Return them in the order of the README."""
    return (*header_alone.items(), *two_cards.items())
