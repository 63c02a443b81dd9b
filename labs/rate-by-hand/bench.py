"""What items are judged with: the learner's header, random values, and runs that ran once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from hostagent.own_algorithm import Alone, Built
from labs.grade import Detail, Finding

from .cases import Case, Seen


@dataclass
class Bench:
    """The learner's header; each item draws values of its own."""

    built: Built
    seed: int
    seen: dict[str, Seen] = field(default_factory=dict)

    @cached_property
    def alone(self) -> Alone:
        """The header by itself."""
        return Alone(self.built)

    def random(self, item: str) -> Random:
        """Return random values that are the same whatever the header does."""
        return Random(f"{self.seed} {item}")

    def run(self, case: Case) -> Seen:
        """Run a case once."""
        if case.name not in self.seen:
            self.seen[case.name] = case.play(self.built, self.seed)
        return self.seen[case.name]


def found(rows: Sequence[Detail], hint: str) -> Finding:
    """Return a finding whose reason is the first row that is wrong, in a sentence."""
    wrong = next((row for row in rows if not row.right), None)
    if wrong is None:
        return Finding(1.0, details=tuple(rows))
    reason = f"{wrong.what}: {wrong.came}; right would be: {wrong.expected}"
    return Finding.nothing(reason, hint, rows)
