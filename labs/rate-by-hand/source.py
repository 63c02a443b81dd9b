"""A source as the header sees it: queues tell it rates, and it says how fast it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from hostagent.own_algorithm import Alone

NOTIFIED = 3  # CC_NOTIFIED
US = 1000
MS = 1_000_000
TWO_PACKETS_BITS = 1 << 16
PER_SECOND = 10**9
LONG = 15
"""The longest validity."""

AT_SCALE_1 = {"validity_unit_ns": 256, "rate_unit_q16": 1 << 32}
"""What words count in at time scale 1."""
UNITS = 1 << 27
"""What a notification's rate is below, in its units."""

Fields = Mapping[str, int]


def drawn(random: Random, **given: int) -> dict[str, int]:
    """Draw parameters that a source may have, at some line and time scale; `given` stand."""
    scale = random.choice((1, 10, 1000))
    line = random.randrange(25, 400) * 10**9 // scale
    fields = {
        "line_rate": line,
        "min_rate": line // 4096,
        "validity_unit_ns": AT_SCALE_1["validity_unit_ns"] * scale,
        "rate_unit_q16": AT_SCALE_1["rate_unit_q16"] // scale,
    }
    return {**fields, **given}


@dataclass(frozen=True)
class Word:
    """What a queue said, as the lab's text has it: bits/s and ns."""

    rate: int
    stands: int
    until: int


class Source:
    """A state of the header, and what switches tell it; times in ns, rates in bits/s."""

    def __init__(self, alone: Alone, fields: Fields, random: Random) -> None:
        """Begin at a time that is drawn. Raises AssertionError if parameters are refused."""
        self.fields = dict(fields)
        refused = alone.refusal(fields)
        assert refused is None, refused
        self.line, self.least = fields["line_rate"], fields["min_rate"]
        self.now = random.randrange(1 << 40)
        self.slot = alone.slot(fields, self.now)

    def told(self, queue: int, rate: int, validity: int, *, at: int | None = None) -> Word:
        """Let a queue say at most this rate, now or later. Return the word that stands from it."""
        self.now = self.now if at is None else at
        units = (rate << 16) // self.fields["rate_unit_q16"]
        assert 0 < units < UNITS, "a notification can't say this rate"
        self.slot.event(self.now, kind=NOTIFIED, number=queue, rate=units, validity=validity)
        said = units * self.fields["rate_unit_q16"] >> 16
        bounded = min(max(said, self.least), self.line)
        stands = self.stands(bounded, validity)
        return Word(bounded, stands, self.now + stands)

    def stands(self, rate: int, validity: int) -> int:
        """Return for how long a word of this rate stands."""
        packets = TWO_PACKETS_BITS * PER_SECOND // rate
        return (self.fields["validity_unit_ns"] << validity) + packets

    def says_nothing(self, queue: int) -> None:
        """Let a notification come that has no rate."""
        self.slot.event(self.now, kind=NOTIFIED, number=queue, rate=0, validity=LONG)

    def rate(self, at: int | None = None) -> int:
        """Return how fast it sends, now or later."""
        return self.slot.rate(self.now if at is None else at)
