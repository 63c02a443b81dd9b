"""The learner's header: read, checked, built."""

from __future__ import annotations

from pathlib import Path

from hostagent import own_algorithm
from hostagent.own_algorithm import Built, OwnAlgorithmError
from labs import own_header

NAME = "fast_cnp"
"""Whose place it takes: what sends by that rule anywhere then sends by the learner's."""
FIELDS = ("line_rate", "min_rate", "validity_unit_ns", "rate_unit_q16")
"""Of its parameters: who makes sources gives them these."""


def built(path: Path) -> Built:
    """Read a learner's header. Raises OwnAlgorithmError, OSError."""
    made = own_header.built_named(path, NAME)
    there = own_algorithm.Alone(made).ffi.typeof(f"struct {NAME}_params").fields
    if tuple(name for name, _ in there) != FIELDS:
        line = own_algorithm.read(path).line_of(f"struct {NAME}_params {{")
        wrong = f"struct {NAME}_params has other fields than the starter's"
        right = f"it has {', '.join(FIELDS)}, which the card fills in"
        raise OwnAlgorithmError(path, line, wrong, right)
    return made


def built_from(text: str) -> Built:
    """Do the same with a text. Raises OwnAlgorithmError."""
    return own_header.built_from(text, NAME, built)
