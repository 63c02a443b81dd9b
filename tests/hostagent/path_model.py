"""The choices of paths once more, from their sources' description: lists and queues, no bit tricks.

Random numbers are the same generator's (splitmix64), so that model and card can be compared packet
by packet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

GOOD, MARKED, LOST, TIMEOUT = range(4)
_WORD = (1 << 64) - 1


class SplitMix:
    """Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014)."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        return z ^ (z >> 31)

    def upper(self) -> int:
        return self.word() >> 32


class Model(ABC):
    """What all of them have."""

    def __init__(self, paths: int, seed: int) -> None:
        self.paths = paths
        self.random = SplitMix(seed)
        self.first = self.random.upper() % paths

    @abstractmethod
    def next(self) -> int: ...

    def heard(self, ev: int, feedback: int, now: int) -> None:  # noqa: B027
        pass

    def acked(self, una: int, next_: int, now: int) -> None:  # noqa: B027
        pass


class Oblivious(Model):
    """Rounds of all EVs, the i-th of a round is i XOR its number."""

    def __init__(self, paths: int, seed: int) -> None:
        super().__init__(paths, seed)
        self.order = self._rounds()

    def _rounds(self) -> Iterator[int]:
        number = self.first
        while True:
            for i in range(self.paths - 1):
                yield i ^ number
            # The last one of a round, after which the next number is drawn at once.
            last, number = (self.paths - 1) ^ number, self.random.upper() % self.paths
            yield last

    def next(self) -> int:
        return next(self.order)


class Bitmap(Oblivious):
    """The same order, but for EVs with a penalty."""

    def __init__(self, paths: int, seed: int) -> None:
        super().__init__(paths, seed)
        self.penalties = dict.fromkeys(range(paths), 0)

    def next(self) -> int:
        candidate = next(self.order)
        if not self.penalties[candidate]:
            return candidate
        self.penalties[candidate] -= 1
        for _ in range(self.paths):
            candidate = next(self.order)
            if not self.penalties[candidate]:
                break
        return candidate

    def heard(self, ev: int, feedback: int, now: int) -> None:
        self.penalties[ev] = min(15, self.penalties[ev] + (0, 1, 4, 15)[feedback])


@dataclass
class Entry:
    ev: int
    fresh: bool


class Reps(Model):
    """A list of the last eight EVs that came back unmarked, the oldest first."""

    def __init__(self, paths: int, seed: int, freeze_ns: int = 10_000_000) -> None:
        super().__init__(paths, seed)
        self.freeze_ns = freeze_ns
        self.slots: list[Entry] = []
        self.written = 0
        self.explore = 0
        self.frozen_until: int | None = None
        self.frozen_at = 0

    def fresh(self) -> int:
        return sum(entry.fresh for entry in self.slots)

    def next(self) -> int:
        if self.explore:
            self.explore -= 1
            return self.random.upper() % self.paths
        if self.frozen_until is not None and self.slots:
            entry = self.slots[self.frozen_at]
            self.frozen_at = (self.frozen_at + 1) % len(self.slots)
        elif self.frozen_until is not None or not self.fresh():
            return self.random.upper() % self.paths
        else:  # as many slots back as there are fresh ones
            entry = self.slots[(self.written - self.fresh()) % 8]
        entry.fresh = False
        return entry.ev

    def heard(self, ev: int, feedback: int, now: int) -> None:
        if feedback == TIMEOUT and self.frozen_until is None and not self.explore:
            self.frozen_until = now + self.freeze_ns
        if self.frozen_until is not None and now > self.frozen_until:
            self.slots, self.written, self.frozen_at = [], 0, 0
            self.frozen_until, self.explore = None, 16
        if feedback == GOOD:
            entry = Entry(ev, True)
            if len(self.slots) < 8:
                self.slots.append(entry)
            else:
                self.slots[self.written % 8] = entry
            self.written += 1


@dataclass
class Round:
    """The packets that the peer has told of in one round trip."""

    end: int
    marks: list[bool] = field(default_factory=list)


class Plb(Model):
    """One EV; another one after rounds of which half of the packets were marked."""

    def __init__(
        self,
        paths: int,
        seed: int,
        *,
        idle: int = 3,
        any_time: int = 12,
        suspend_ns: int = 6 * 10**10,
    ) -> None:
        super().__init__(paths, seed)
        self.ev = self.first
        self.idle, self.any_time, self.suspend_ns = idle, any_time, suspend_ns
        self.row = 0
        self.round: Round | None = None
        self.early: list[bool] = []
        self.until = 0
        self.moves = 0

    def next(self) -> int:
        return self.ev

    def _move(self) -> None:
        others = [(self.ev + 1 + i) % self.paths for i in range(self.paths - 1)]
        self.ev = others[self.random.upper() * len(others) >> 32]
        self.row = 0
        self.moves += 1

    def heard(self, ev: int, feedback: int, now: int) -> None:
        if feedback == TIMEOUT:
            self._move()
            self.until = now + self.suspend_ns + self.random.word() % self.suspend_ns
        elif feedback != LOST:
            marks = self.early if self.round is None else self.round.marks
            marks.append(feedback == MARKED)

    def acked(self, una: int, next_: int, now: int) -> None:
        if self.round is None:
            self.round = Round(next_, self.early)
            return
        if una < self.round.end:
            return
        marks = self.round.marks
        if marks:
            congested = 2 * sum(marks) >= len(marks)
            self.row = min(self.row + 1, self.any_time) if congested else 0
        due = self.row >= self.any_time or (una == next_ and self.row >= self.idle)
        if due and now >= self.until:
            self._move()
        self.round = Round(next_)
