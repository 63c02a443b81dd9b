"""The names of a run's parts: which messages are a job, a phase, a collective, and their ideals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from workloads.dag import Numbers
from workloads.ideal import Bounds
from workloads.model import Span, SpanKind

Ideal = Callable[[Bounds], int]


class Spans:
    """Spans as they are planned; ideals are computed at the end, when all paths are known."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._ideals: list[Ideal] = []

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, span: Span, ideal: Ideal) -> int:
        """Add a span, whose ideal time `ideal` will give. Returns its number."""
        self._spans.append(span)
        self._ideals.append(ideal)
        return len(self._spans) - 1

    def set_range(self, number: int, first: int, stop: int) -> None:
        """Say which messages a span has, where that was not known before."""
        self._spans[number] = replace(self._spans[number], first=first, stop=stop)

    def range_of(self, number: int) -> tuple[int, int]:
        """Return the first message of a span and the one behind its last."""
        return self._spans[number].first, self._spans[number].stop

    def set_ideal(self, number: int, ideal: Ideal) -> None:
        """Say how a span's ideal time is found, where that was not known before."""
        self._ideals[number] = ideal

    def ideal_of(self, number: int) -> Ideal:
        """Return how a span's ideal time is found."""
        return self._ideals[number]

    def traffic(
        self, name: str, messages: Numbers, algorithm: str, *, endless: bool = False
    ) -> None:
        """Add messages of `traffic`; what is endless has no ideal time."""
        first, stop = (int(messages[0]), int(messages[-1]) + 1) if len(messages) else (0, 0)
        span = Span(SpanKind.TRAFFIC, name, first, stop, 0, algorithm=algorithm)
        self.add(span, lambda bound: 0 if endless else bound.ideal_ps(first, stop))

    def finished(self, bound: Bounds) -> Iterator[Span]:
        """Yield all spans with their ideal times."""
        for span, ideal in zip(self._spans, self._ideals, strict=True):
            yield replace(span, ideal_ps=ideal(bound))
