"""What labs have in common whose learners write an algorithm's header: read, built, judged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from experiments.grade import Detail, Finding
from hostagent import own_algorithm
from hostagent.own_algorithm import Alone, Built, OwnAlgorithmError


def built_named(path: Path, name: str) -> Built:
    """Read a learner's header of the algorithm `name`. Raises OwnAlgorithmError, OSError."""
    own = own_algorithm.read(path)
    if own.name != name:
        line = own.line_of(f"CC_ALGORITHM({own.name})")
        wrong = f"the header's algorithm is called {own.name}"
        raise OwnAlgorithmError(path, line, wrong, f"this lab's is {name}, as in the starter")
    return own_algorithm.built(own)


def built_from(text: str, name: str, built: Callable[[Path], Built]) -> Built:
    """Hand a text to `built`, as a file of that name. Raises what `built` raises."""
    with tempfile.TemporaryDirectory(prefix=f"weft-{name}-") as scratch:
        path = Path(scratch, f"{name}.h")
        path.write_text(text, encoding="utf-8")
        return built(path)


@dataclass
class HeaderBench:
    """What items are judged with: the learner's header; each item draws values of its own."""

    built: Built
    seed: int

    @cached_property
    def alone(self) -> Alone:
        """The header by itself."""
        return Alone(self.built)

    def random(self, item: str) -> Random:
        """Return random values that are the same whatever the header does."""
        return Random(f"{self.seed} {item}")


def found(rows: Sequence[Detail], hint: str) -> Finding:
    """Return a finding whose reason is the first row that is wrong, in a sentence."""
    wrong = next((row for row in rows if not row.right), None)
    if wrong is None:
        return Finding(1.0, details=tuple(rows))
    reason = f"{wrong.what}: {wrong.came}; right would be: {wrong.expected}"
    return Finding.nothing(reason, hint, rows)
