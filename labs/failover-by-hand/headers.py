"""The learner's header: read, checked, built."""

from __future__ import annotations

from pathlib import Path

from hostagent.own_algorithm import Built
from labs import own_header

NAME = "plane_choice"


def built(path: Path) -> Built:
    """Read a learner's header. Raises OwnAlgorithmError, OSError."""
    return own_header.built_named(path, NAME)


def built_from(text: str) -> Built:
    """Do the same with a text. Raises OwnAlgorithmError."""
    return own_header.built_from(text, NAME, built)
