"""Cards on a wire in virtual time: frames are lost, doubled, overtaken, damaged and paused on it.

    +--------+  line_rate   +------------------+   +--------+
    | card A |------------->|  delay + faults  |-->| card B |
    +--------+<-------------|  (both ways)     |<--+--------+
                            +------------------+
Each card sends one frame at a time, at the line's rate. Times are integer picoseconds.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import NEVER, CardConfig, Event, Packet, QueuePairConfig

SANITIZE = os.environ.get("WEFT_RNIC_SANITIZE") == "1"

US = 1_000_000
ETHERNET = 14
FRAME_GAP = 24


def card_config(number: int, **changes: object) -> CardConfig:
    """Return the configuration of host n: 10.0.1.n with its gateway 10.0.1.254."""
    ip = 0x0A000100 + number
    values: dict[str, object] = {
        "mac": 0x0200 << 32 | ip,
        "gateway_mac": 0x020100000001,
        "ip": ip,
    }
    return CardConfig(**{**values, **changes})  # type: ignore[arg-type]


def make_card(number: int, **changes: object) -> Card:
    """Make host n's card, from the sanitized build where the environment asks for it."""
    return Card(card_config(number, **changes), sanitize=SANITIZE)


def join(a: Card, b: Card, config: QueuePairConfig, other: QueuePairConfig | None = None) -> None:
    """Make a queue pair at both ends and connect it."""
    other = other or config
    a.add_queue_pair(config)
    b.add_queue_pair(other)
    a.connect(config.qpn, b.config.ip, peer_qpn=other.qpn, peer_psn=other.first_psn)
    b.connect(other.qpn, a.config.ip, peer_qpn=config.qpn, peer_psn=config.first_psn)


@dataclass(frozen=True)
class Faults:
    """What happens to frames: shares of all of them, and how late one that is held back may be."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0
    reorder_by: int = 16
    """frames that may overtake one that is held back"""


@dataclass(frozen=True)
class Passed:
    """A frame that was put on the wire, whatever became of it."""

    at: int
    sender: Card
    packet: Packet


class VirtualWire:
    """Joins cards by their addresses and moves time."""

    def __init__(
        self,
        *cards: Card,
        faults: Faults | None = None,
        seed: int = 0,
        delay_ps: int = US,
        line_rate_bps: int = 100_000_000_000,
    ) -> None:
        self.cards = {card.config.ip: card for card in cards}
        self.faults = faults or Faults()
        self.random = Random(seed)
        self.delay_ps = delay_ps
        self.line_rate_bps = line_rate_bps
        self.now = 0
        self.passed: list[Passed] = []
        self.events: dict[Card, list[Event]] = {card: [] for card in cards}
        self.unplugged: set[Card] = set()
        """what they send and are sent is lost"""
        self.drop: Callable[[Packet], bool] = lambda packet: False
        """a test's own choice of what is lost"""
        self.mark: Callable[[Packet], bool] = lambda packet: False
        """which packets a switch marks with CE"""
        self._busy = dict.fromkeys(cards, 0)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._order += 1
        heapq.heappush(self._queue, (time, self._order, action))

    def _damaged(self, frame: bytes) -> bytes:
        copy = bytearray(frame)
        copy[self.random.randrange(ETHERNET, len(copy))] ^= 1 << self.random.randrange(8)
        return bytes(copy)

    def _deliver(self, frame: bytes, tail: int, to: Card) -> None:
        if to not in self.unplugged:
            to.receive(frame, self.now, tail)

    def _send(self, sender: Card, packet: Packet) -> None:
        bits = 8 * (len(packet.frame) + packet.tail + FRAME_GAP)
        time = bits * 10**12 // self.line_rate_bps
        self._busy[sender] = self.now + time
        self.passed.append(Passed(self.now, sender, packet))
        to = self.cards.get(int.from_bytes(packet.frame[30:34]))
        faults, random = self.faults, self.random
        if to is None or sender in self.unplugged or self.drop(packet):
            return
        frame = packet.frame
        if self.mark(packet):
            frame = marked(frame)
        for _copy in range(2 if random.random() < faults.duplication else 1):
            if random.random() < faults.loss:
                continue
            late = 0
            if random.random() < faults.reordering:
                late = random.randrange(1, faults.reorder_by + 1) * time
            if random.random() < faults.corruption:
                frame = self._damaged(frame)
            arrival = self.now + time + self.delay_ps + late
            self.at(arrival, lambda frame=frame: self._deliver(frame, packet.tail, to))

    def _wake(self, card: Card) -> int:
        due = card.next_event()
        if due == NEVER:
            return NEVER
        # Before its line is free a card can only note time-outs; nothing is lost if that waits.
        return max(due, self.now, self._busy[card])

    def step(self, until: int = NEVER) -> bool:
        """Move to the next thing that happens up to `until`; False: nothing does."""
        times = {card: self._wake(card) for card in self.cards.values()}
        first = min([*times.values(), self._queue[0][0] if self._queue else NEVER])
        if first > until or first == NEVER:
            return False
        self.now = max(self.now, first)
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()
        for card, due in times.items():
            if due <= self.now:
                card.advance(self.now)
                packet = card.transmit(self.now)
                if packet:
                    self._send(card, packet)
            found = card.events()
            if found:
                self.events[card] += found
        return True

    def run(self, until: int = NEVER, steps: int = 1_000_000) -> None:
        """Until nothing happens any more. A wire that never gets quiet is an AssertionError."""
        while self.step(until):
            steps -= 1
            assert steps, "the cards never come to rest"

    def frames_of(self, card: Card) -> list[bytes]:
        """Return the frames that a card has sent."""
        return [row.packet.frame for row in self.passed if row.sender is card]


def marked(frame: bytes) -> bytes:
    """Return the frame as a congested switch passes it on: CE, and the checksum adapted (RFC
    1624).
    """
    copy = bytearray(frame)
    old = int.from_bytes(copy[14:16])
    copy[15] |= 3
    total = (~int.from_bytes(copy[24:26]) & 0xFFFF) + (~old & 0xFFFF) + int.from_bytes(copy[14:16])
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    copy[24:26] = (~total & 0xFFFF).to_bytes(2)
    return bytes(copy)
