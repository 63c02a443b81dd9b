"""What items are judged with: the learner's header, random values, and stories that ran once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from hostagent.own_algorithm import Alone, Built
from labs.grade import Detail, Finding

from . import runs
from .network import Story


@dataclass
class Bench:
    """The learner's header; each item draws values of its own."""

    built: Built
    seed: int
    stories: dict[str, Story] = field(default_factory=dict)

    @cached_property
    def alone(self) -> Alone:
        """The header by itself."""
        return Alone(self.built)

    def random(self, item: str) -> Random:
        """Return random values that are the same whatever the header does."""
        return Random(f"{self.seed} {item}")

    def story(self, tale: runs.Tale) -> Story:
        """Run a story once."""
        if tale.name not in self.stories:
            self.stories[tale.name] = tale.play(self.built, seed=self.seed)
        return self.stories[tale.name]


def found(rows: Sequence[Detail], hint: str) -> Finding:
    """Return a finding whose reason is the first row that is wrong, in a sentence."""
    wrong = next((row for row in rows if not row.right), None)
    if wrong is None:
        return Finding(1.0, details=tuple(rows))
    reason = f"{wrong.what}: {wrong.came}; right would be: {wrong.expected}"
    return Finding.nothing(reason, hint, rows)
