"""What there are marks for in a congestion control of one's own, and how a header is tried.

First the header alone (header_alone.py), then at all senders of seven networks (in_runs.py), then
in the kernel, for who may load programs (in_kernel.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hostagent.own_algorithm import Built
from labs.grade import Item, Submission

from . import header_alone, headers, in_kernel, in_runs
from .bench import Bench

ITEM_S = 120.0
"""An item takes some seconds; the first run builds the simulator's engine: a quarter minute."""


def read(path: Path) -> Built:
    """Read and check what was handed in. Raises OwnAlgorithmError, a ValueError; OSError."""
    return headers.built(path)


def bench(submission: Submission) -> Bench:
    """Return what items are judged with."""
    assert isinstance(submission.content, Built)
    return Bench(submission.content, submission.seed)


def items() -> Sequence[Item]:
    """Return them in the order of the README."""
    return (*header_alone.items(), *in_runs.items(), *in_kernel.items())
