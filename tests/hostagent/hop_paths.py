"""Paths for algorithms that hear what switches write: made-up hops, what a sender knows of them.

`Hop` has true times and byte counts, which never wrap; `telemetry` makes of several what an
acknowledgement brings. `Last` is what can be known of them between two acknowledgements, by the
text of docs/encc.md and from the true numbers: the headers see nothing but the wrapped ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocols.notification import RATE_UNIT_BPS, rate_of, rate_units
from protocols.path_telemetry import HOPS_MOST, QUEUE_BYTES, SENT_BYTES, WRAPS

SILENT_NS = WRAPS - (1 << 22)
LINES = (1, 10, 25, 100, 200, 400, 800, 1600)


@dataclass(frozen=True)
class Hop:
    """A port's record: its line, and what it has sent up to when; ns and wire units, no wraps."""

    number: int
    rate: int  # as the wire has it
    at: int = 0
    sent: int = 0
    queue: int = 0

    @property
    def units(self) -> int:
        """Its line, in 2^16 bits/s."""
        return rate_units(self.rate)

    def record(self) -> bytes:
        """Return what the switch writes."""
        words = ((self.number, 2), (self.rate, 2), (self.at % WRAPS, 3), (self.sent % WRAPS, 3))
        return b"".join(value.to_bytes(n, "big") for value, n in (*words, (self.queue, 2)))

    def later(self, choice: random.Random, to: int) -> Hop:
        """Return it after a while: it has sent from nothing to its line, and may have a queue."""
        share = choice.choice([0, choice.random(), 0.97, 1])
        line = self.units * RATE_UNIT_BPS
        sent = int(max(to - self.at, 0) * line / 8e9 / SENT_BYTES * share)
        queue = int(line * 13e-6 / 8 / QUEUE_BYTES * choice.choice([0, 0, choice.random(), 3, 70]))
        return replace(self, at=to, sent=self.sent + sent, queue=min(queue, 0xFFFF))


def any_hop(choice: random.Random, line_bps: int, at: int) -> Hop:
    """Return a port that is about as fast as a sender's line."""
    rate = rate_of(max(line_bps * choice.choice([1, 1, 2, 4]) // RATE_UNIT_BPS, 1))
    return Hop(choice.randrange(1, 1 << 16), rate, at, choice.randrange(1 << 30))


def telemetry(hops: Sequence[Hop]) -> dict[str, Any]:
    """Return the fields of struct cc_telemetry, the last switch's hop first."""
    data = b"".join(hop.record() for hop in hops)
    return {"bytes": len(data), "format": 1, "hops": len(hops), "data": data.ljust(64, b"\0")}


@dataclass(frozen=True)
class Between:
    """A hop between two acknowledgements; `ns` 0: it is not known what it did in between.

    `is_new`: nothing is known of what it did before, either.
    """

    hop: Hop
    ns: int
    sent: int
    queue: int
    is_new: bool = False

    @property
    def sent_share(self) -> float:
        """What it sent, as a share of its line; of a time that is known."""
        return self.sent * SENT_BYTES * 8e9 / self.ns / (self.hop.units * RATE_UNIT_BPS)

    def queue_share(self, round_trip_ns: float) -> float:
        """Return the backlog as a share of what its line carries in a round trip."""
        carries = self.hop.units * RATE_UNIT_BPS * round_trip_ns / 8e9
        return self.queue * QUEUE_BYTES / carries


class Last:
    """The last records, and when they came."""

    def __init__(self) -> None:
        self.hops: list[Hop | None] = [None] * HOPS_MOST
        self.heard: float | None = None

    def passed(self, fabric_ns: int) -> float:
        """Return how long ago the last ones came, and remember when these did."""
        before, self.heard = self.heard, fabric_ns
        return float("inf") if before is None else fabric_ns - before

    def take(self, hops: Sequence[Hop], passed: float) -> list[Between]:
        """Return what is known of each hop now."""
        found = [self._between(self.hops[i], hop, passed) for i, hop in enumerate(hops)]
        for i in range(HOPS_MOST):
            before, hop = self.hops[i], hops[i] if i < len(hops) else None
            same = before and hop and before.number == hop.number and before.at == hop.at
            if not (same and passed < SILENT_NS):  # else its bytes count when time has passed
                self.hops[i] = hop
        return found

    @staticmethod
    def _between(before: Hop | None, hop: Hop, passed: float) -> Between:
        if before is None or before.number != hop.number or passed >= SILENT_NS:
            return Between(hop, 0, 0, hop.queue, is_new=True)
        ns = hop.at - before.at
        if ns <= 0 or ns * hop.units * RATE_UNIT_BPS >= 8e9 * SENT_BYTES * WRAPS:
            return Between(hop, 0, 0, hop.queue, is_new=ns != 0)
        return Between(hop, ns, hop.sent - before.sent, min(before.queue, hop.queue))


class Walk:
    """What a sender hears: paths that change, pauses, records that go back or stand still."""

    def __init__(self, choice: random.Random, line_bps: int, time_scale: int) -> None:
        self.choice, self.line_bps, self.time_scale = choice, line_bps, time_scale
        self.now = 10**12  # ns of the fabric
        self.hops = self._any_hops()

    def _any_hops(self) -> list[Hop]:
        n = self.choice.randrange(1, HOPS_MOST + 1)
        return [any_hop(self.choice, self.line_bps, self.now - 20_000) for _ in range(n)]

    def step(self) -> list[Hop]:
        """Go on by a while; return the hops that the next acknowledgement tells of."""
        choice = self.choice
        what = choice.random()
        pause = int(choice.choice([100, 1000, 10**4, 10**5]) * choice.random()) + 1
        if what < 0.04:
            pause = choice.choice([3, 9, 14, 18, 40]) * 10**6
        self.now += pause
        if what > 0.97:
            self.hops = self._any_hops()
        elif what > 0.93:  # another switch on the way
            at = choice.randrange(len(self.hops))
            self.hops[at] = any_hop(choice, self.line_bps, self.now - 20_000)
        elif what > 0.9 and len(self.hops) > 1:
            self.hops.pop()
        if what < 0.9:
            for i, hop in enumerate(self.hops):
                to = self.now - choice.choice([1000, 5000, choice.randrange(10**5)])
                self.hops[i] = hop.later(choice, max(to, hop.at - 500))
        return list(self.hops)

    @property
    def here(self) -> int:
        """Now, in ns of the sender's clock."""
        return self.now * self.time_scale
