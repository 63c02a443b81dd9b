"""The learner's header: read, checked, built."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hostagent import own_algorithm
from hostagent.own_algorithm import Built, OwnAlgorithmError

NAME = "plane_choice"


def built(path: Path) -> Built:
    """Read a learner's header. Raises OwnAlgorithmError, OSError."""
    own = own_algorithm.read(path)
    if own.name != NAME:
        line = own.line_of(f"CC_ALGORITHM({own.name})")
        wrong = f"the header's algorithm is called {own.name}"
        raise OwnAlgorithmError(path, line, wrong, f"this lab's is {NAME}, as in the starter")
    return own_algorithm.built(own)


def built_from(text: str) -> Built:
    """Do the same with a text. Raises OwnAlgorithmError."""
    with tempfile.TemporaryDirectory(prefix="weft-planes-") as scratch:
        path = Path(scratch, f"{NAME}.h")
        path.write_text(text, encoding="utf-8")
        return built(path)
