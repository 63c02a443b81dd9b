"""What items are judged with: the learner's header, random values, and stories that ran once."""

from __future__ import annotations

from dataclasses import dataclass, field

from labs.own_header import HeaderBench

from . import runs
from .network import Story


@dataclass
class Bench(HeaderBench):
    """The learner's header, and the stories that it was in."""

    stories: dict[str, Story] = field(default_factory=dict)

    def story(self, tale: runs.Tale) -> Story:
        """Run a story once."""
        if tale.name not in self.stories:
            self.stories[tale.name] = tale.play(self.built, seed=self.seed)
        return self.stories[tale.name]
