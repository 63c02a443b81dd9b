"""One plane as the header sees it: probes' answers come at times, and it says what may be used."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hostagent.own_algorithm import Alone
from hostagent.own_algorithm.alone import NO_PATH, SHUT

PROBED = 4  # CC_PROBED
MS = 1_000_000
US = 1000
OPEN_WORD, SHUT_WORD = "open", "shut"
WRAP = 1 << 32

Fields = Mapping[str, int]


def drawn(random: Random, **given: int) -> dict[str, int]:
    """Draw parameters that a plane may have; `given` stand as they are."""
    line = random.randrange(10, 400) * 10**9
    hold = random.randrange(2 * MS, 20 * MS)
    fields = {
        "line_rate": line,
        "min_rate": line // 1000,
        "hold_ns": hold,
        "hold_most_ns": 1000 * hold,
        "stable_ns": random.randrange(1000 * MS, 3000 * MS),
        "ramp_ns": random.randrange(50 * US, 500 * US),
        "answers": random.randrange(3, 9),
    }
    return {**fields, **given}


class Plane:
    """A state of the header, and what the card around it would say; times in ns."""

    def __init__(self, alone: Alone, fields: Fields, random: Random) -> None:
        """Begin at a time that is drawn. Raises AssertionError if parameters are refused."""
        self.fields = dict(fields)
        refused = alone.refusal(fields)
        assert refused is None, refused
        self.now = random.randrange(1 << 40)
        self.slot = alone.slot(fields, self.now)
        self.lost_at = 0
        self.number = random.randrange(1, 1 << 20)
        self._row = 0  # answers since the loss, or since a gap

    def lose(self, after: int = 0) -> None:
        """Let the card find, so long after now, that the plane is lost: the header hears later."""
        self.now += after
        self.lost_at = self.now
        self._row = 0

    def answer(self, at: int, *, skipped: int = 0, lost_at: int | None = None) -> None:
        """Answer a probe whose number is the next one, or one further on."""
        self.now = max(self.now, at)
        self.number = (self.number + 1 + skipped) % WRAP
        self._row = 1 if skipped else self._row + 1
        told = self.lost_at if lost_at is None else lost_at
        self.slot.event(self.now, kind=PROBED, number=self.number, lost_at=told, rtt_ns=10 * US)

    def answers(self, count: int, every: int = MS) -> None:
        """So many are answered in a row, the first one after such a time."""
        for _ in range(count):
            self.answer(self.now + every)

    def returns(self) -> None:
        """Wait until whatever hold is over, and answer as often as it takes, no more."""
        self.now += self.fields["hold_most_ns"]
        self.answers(self.fields["answers"] - self._row)

    @property
    def word(self) -> str:
        """Whether it may be used now, in a word."""
        path = self.slot.path(self.now)
        return {NO_PATH: OPEN_WORD, SHUT: SHUT_WORD}.get(path, f"path {path}")

    def rate(self, after: int = 0) -> int:
        """Return what it may carry so long after now, in bits/s."""
        return self.slot.rate(self.now + after)
