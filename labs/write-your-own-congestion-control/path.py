"""A path of one sender as a fluid: the header alone on a link of which others take a part.

    header --(half a round trip)--> link: its queue, its records --(half a round trip)--> header

Eight acknowledgements a round trip. Everything that a header may hear is there: bytes, round
trips, records of each hop, CNPs while the queue is long, fast CNPs with the rate that is left. What
the sender does changes the link, as in a network, so that headers of any design come to rest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hostagent.own_algorithm import Alone
from hostagent.own_algorithm.alone import Slot

CNP, ACKED, NOTIFIED = 0, 1, 3
"""enum cc_event_kind."""
WRAPS = 1 << 24
SENT_BYTES, QUEUE_BYTES = 64, 512
SECOND = 10**9
STEPS = 8
"""Acknowledgements a round trip."""
PACKET = 4096
MARKED_BYTES = 100_000
CNP_NS = 4000
"""CNPs come no closer than that, in ns of the fabric."""
VALIDITY_UNIT_NS, RATE_UNIT_BPS = 256, 1 << 16
"""What fast CNPs count in, in the fabric (docs/wire-formats.md)."""
MOST_HOPS = 5
BUSY = 0.9
"""Of its line, from which on a switch says what is left of it."""


def rate_word(bps: int) -> int:
    """Return a rate as records have it: 12 bits and an exponent, in 2^16 bits/s."""
    units = bps // RATE_UNIT_BPS
    exponent = max(units.bit_length() - 12, 0)
    return exponent << 12 | units >> exponent


@dataclass(frozen=True)
class Record:
    """What one hop says: rates in bits/s, times in ns of the fabric, bytes."""

    hop: int
    rate: int
    at: int
    sent: int
    queue: int

    def packed(self) -> bytes:
        """Return it as it stands on the wire."""
        at, sent = self.at % WRAPS, self.sent // SENT_BYTES % WRAPS
        queue = min(self.queue // QUEUE_BYTES, 0xFFFF)
        head = struct.pack(">HH", self.hop, rate_word(self.rate))
        return head + at.to_bytes(3) + sent.to_bytes(3) + struct.pack(">H", queue)


def telemetry(records: list[Record]) -> dict[str, Any]:
    """Return the fields of struct cc_telemetry; the last switch's record comes first."""
    data = b"".join(each.packed() for each in records)
    return {"bytes": len(data), "format": 1, "hops": len(records), "data": list(data)}


@dataclass(frozen=True)
class Shape:
    """A path, as it is drawn: the line in bits/s and the round trip in ns, of the fabric.

    `taken`: the part of the line that others take; `full`: which hop, of `hops`, that line is;
    `scale`: ns of the run for one of the fabric.
    """

    line: int
    trip: int
    taken: float
    hops: int
    full: int
    scale: int = 1

    @classmethod
    def drawn(cls, random: Random, **given: Any) -> Shape:
        """Draw one; `given` stands."""
        hops = random.randrange(1, MOST_HOPS + 1)
        line = random.choice((25, 100, 200, 400)) * SECOND
        shape = cls(line, random.randrange(4000, 16000), 0.5, hops, random.randrange(hops))
        return replace(shape, **given)

    def fields(self) -> Mapping[str, int]:
        """Return the header's parameters on it, as they run."""
        return {
            "line_rate": self.line // self.scale,
            "min_rate": max(self.line // 4000 // self.scale, 1),
            "base_rtt_ns": self.trip * self.scale,
            "time_scale": self.scale,
        }


@dataclass
class Path:
    """A header on a path; times are ns of the fabric, rates bits/s of it.

    `at_from`, `sent_from`: where hops' clocks and counters begin; `numbers`: of their ports.
    """

    alone: Alone
    shape: Shape
    hears: int = 0
    at_from: int = 0
    sent_from: int = 0
    first_number: int = 7
    now: int = 10**9
    slot: Slot = field(init=False)

    def __post_init__(self) -> None:
        """Begin with an empty path."""
        self.slot = self.alone.slot(self.shape.fields(), self.now * self.shape.scale)
        self.step_ns = self.shape.trip // STEPS
        self.queue = self.sent = self.own = 0.0
        self.cnp_at = 0
        self.flight: list[tuple[int, float, float, float, float]] = []
        self.taken = self.shape.taken
        self.leaves: list[float] = []

    @property
    def clock(self) -> int:
        """Return the time as the header has it."""
        return self.now * self.shape.scale

    def rate(self) -> float:
        """Return what the header says, as a part of the line."""
        return self.slot.rate(self.clock) * self.shape.scale / self.shape.line

    def paced(self) -> float:
        """Return how fast bytes leave the sender, in bits/s: its rate, or less by its window."""
        window = max(self.slot.window(self.clock), PACKET)
        trip = self.shape.trip + self.queue * 8 * SECOND / self.shape.line
        return min(self.rate() * self.shape.line, window * 8 * SECOND / trip)

    def records(self, at: int, sent: float, own: float, queue: float) -> list[Record]:
        """Return what all hops say; the full one has the queue, others are four times as fast."""
        said = []
        for i in range(self.shape.hops):
            is_full = i == self.shape.full
            said.append(Record(
                self.first_number + i,
                self.shape.line * (1 if is_full else 4),
                self.at_from + at + 100 * (self.shape.hops - i),
                self.sent_from + int(sent if is_full else own),
                int(queue) if is_full else 0,
            ))  # fmt: skip
        return said

    def pass_time(self) -> None:
        """Let a step's time pass: the link carries what came half a round trip ago."""
        self.now += self.step_ns
        self.leaves.append(self.paced())
        arrives = self.leaves[-STEPS // 2] if len(self.leaves) >= STEPS // 2 else 0.0
        seconds = self.step_ns / SECOND
        comes = (arrives + self.taken * self.shape.line) / 8 * seconds
        most = self.shape.line / 8 * seconds
        gone = min(most, self.queue + comes)
        self.queue += comes - gone
        self.sent += gone
        self.own += arrives / 8 * seconds
        self.flight.append((self.now, self.sent, self.own, self.queue, arrives))

    def latest(self) -> tuple[list[Record], int, int] | None:
        """Return what comes back now: records, the round trip in ns, and how many bytes."""
        if len(self.flight) < STEPS // 2:
            return None
        at, sent, own, queue, arrives = self.flight[-STEPS // 2]
        trip = self.shape.trip + int(queue * 8 * SECOND / self.shape.line)
        size = max(int(arrives / 8 * self.step_ns / SECOND), 1)
        return self.records(at, sent, own, queue), trip, size

    def acknowledge(self, records: list[Record], trip: int, size: int) -> None:
        """Let an acknowledgement come."""
        self.slot.event(self.clock, telemetry(records), kind=ACKED, bytes=size,
                        rtt_ns=trip * self.shape.scale)  # fmt: skip

    def step(self) -> None:
        """Let a step pass, and everything come that belongs to it."""
        self.pass_time()
        back = self.latest()
        if back is None:
            return
        self.acknowledge(*back)
        queue = self.flight[-STEPS // 2][3]
        if self.hears >> CNP & 1 and queue > MARKED_BYTES and self.now >= self.cnp_at + CNP_NS:
            self.cnp_at = self.now
            self.slot.event(self.clock, kind=CNP)
        busy = self.flight[-STEPS // 2][4] / self.shape.line + self.taken
        if self.hears >> NOTIFIED & 1 and (queue > 0 or busy > BUSY):
            left = max(int((1 - self.taken) * 0.95 * self.shape.line) // RATE_UNIT_BPS, 1)
            validity = (2 * self.shape.trip // VALIDITY_UNIT_NS).bit_length()
            self.slot.event(self.clock, kind=NOTIFIED, number=1 << 16 | self.shape.full, rate=left,
                            validity=validity)  # fmt: skip

    def pause(self, ns: int, others: float) -> None:
        """Let nothing be sent for so long, while others take so much of the line.

        What was on its way is gone: the next packet is one that is sent then.
        """
        self.now += ns
        self.queue = 0.0
        self.sent += others * self.shape.line / 8 * ns / SECOND
        self.flight, self.leaves = [], []

    def run(self, trips: int) -> Path:
        """Let so many round trips pass."""
        for _ in range(trips * STEPS):
            self.step()
        return self
