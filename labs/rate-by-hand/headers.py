"""The learner's header: read, checked, built."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hostagent import own_algorithm
from hostagent.own_algorithm import Built, OwnAlgorithmError

NAME = "fast_cnp"
"""Whose place it takes: what sends by that rule anywhere then sends by the learner's."""
FIELDS = ("line_rate", "min_rate", "validity_unit_ns", "rate_unit_q16")
"""Of its parameters: who makes sources gives them these."""


def built(path: Path) -> Built:
    """Read a learner's header. Raises OwnAlgorithmError, OSError."""
    own = own_algorithm.read(path)
    if own.name != NAME:
        line = own.line_of(f"CC_ALGORITHM({own.name})")
        wrong = f"the header's algorithm is called {own.name}"
        raise OwnAlgorithmError(path, line, wrong, f"this lab's is {NAME}, as in the starter")
    made = own_algorithm.built(own)
    there = own_algorithm.Alone(made).ffi.typeof(f"struct {NAME}_params").fields
    if tuple(name for name, _ in there) != FIELDS:
        wrong = f"struct {NAME}_params has other fields than the starter's"
        right = f"it has {', '.join(FIELDS)}, which the card fills in"
        raise OwnAlgorithmError(path, own.line_of(f"struct {NAME}_params {{"), wrong, right)
    return made


def built_from(text: str) -> Built:
    """Do the same with a text. Raises OwnAlgorithmError."""
    with tempfile.TemporaryDirectory(prefix="weft-rate-") as scratch:
        path = Path(scratch, f"{NAME}.h")
        path.write_text(text, encoding="utf-8")
        return built(path)
