"""What items are judged with: the learner's header, random values, and runs that ran once."""

from __future__ import annotations

from dataclasses import dataclass, field

from labs.own_header import HeaderBench

from . import controls
from .cases import Case, Seen


@dataclass
class Bench(HeaderBench):
    """The learner's header, and the networks that it was in."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def run(self, case: Case) -> Seen:
        """Run a case once."""
        if case.name not in self.seen:
            self.seen[case.name] = case.play(controls.yours(self.built), self.seed)
        return self.seen[case.name]
