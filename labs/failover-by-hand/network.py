"""Two cards on two planes, in virtual time; the sender's plane choice is the learner's header.

              plane 0
    +--------+-------+--------+
    | sender |       |receiver|      each plane is a link of its own: nothing joins them
    +--------+-------+--------+
              plane 1: cut, mended, flapping, dead in one direction, losing packets

The cards are the endpoint's own (hostagent/rnic). What is on a link that is cut is lost. Times are
in picoseconds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    NEVER,
    Access,
    CardConfig,
    EventKind,
    Interface,
    Operation,
    Packet,
    PacketKind,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.planes import PlaneConfig, PlaneState, PlaneUse

from .headers import NAME
from .plane import Fields

US = 10**6
MS = 1000 * US
PLANES = 2
MTU = 4096
DELAY_PS = US
FRAME_GAP, FRAME_LEAST = 24, 84
MESSAGE_BYTES = 1 << 20
RKEY, QPN = 7, 1
SILENCE_PS, PROBE_PS, MISSES = 30 * US, MS, 3
"""Of planes at 10 Gb/s and more; slower ones are given more time."""

Loses = Callable[[int, bool, int], bool]
"""Whether a packet that leaves at a time, by the sender or not, by a plane, gets lost."""


@dataclass
class Story:
    """What happened. `arrived`: by plane and microsecond, new payload bytes at the receiver."""

    arrived: tuple[Counter[int], Counter[int]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    left: tuple[Counter[int], Counter[int]] = field(default_factory=lambda: (Counter(), Counter()))
    """By plane and microsecond: payload that left the sender, whatever became of it."""
    changes: list[tuple[int, bool]] = field(default_factory=list)
    """When the sender's card began to use plane 1 or ceased to: (time, used)."""
    failed: int = 0
    """Work requests that ended in an error, or whose queue pair did."""
    done: int = 0

    def bytes(self, first: int, last: int, *planes: int) -> int:
        """Return new payload that arrived by planes (all) between two times."""
        return sum(
            size
            for plane in planes or range(PLANES)
            for us, size in self.arrived[plane].items()
            if first <= us * US < last
        )

    def sent(self, first: int, last: int, plane: int = 1) -> int:
        """Return payload that left by a plane between two times."""
        return sum(size for us, size in self.left[plane].items() if first <= us * US < last)

    def gbps(self, first: int, last: int) -> float:
        """Return the goodput between two times."""
        return self.bytes(first, last) * 8 * 1000 / (last - first)

    def returned(self, after: int) -> int | None:
        """Return when plane 1 was first used again after a time."""
        return next((at for at, used in self.changes if used and at > after), None)


def _card(host: int, rate_bps: int) -> Card:
    first, *more = [
        Interface(0x0200 << 32 | host << 8 | i, 0x0201, 10 << 24 | i << 16 | host, rate_bps)
        for i in range(PLANES)
    ]
    config = CardConfig(
        mac=first.mac,
        gateway_mac=first.gateway_mac,
        ip=first.ip,
        line_rate_bps=rate_bps,
        whole=False,
    )
    return Card(config, *more)


class Network:
    """The two cards under one clock. Its cards are those that are in place: see `Built`."""

    def __init__(self, rate_bps: int, fields: Fields, *, seed: int = 1) -> None:
        """`rate_bps`: of each plane; `fields`: the header's parameters."""
        self.rate_bps = rate_bps
        self.slowness = max(1, 10**10 // rate_bps)
        self.cards = (_card(1, rate_bps), _card(2, rate_bps))
        self.loses: Loses = lambda at, is_sender, plane: False
        self.random = Random(seed)
        self.story = Story()
        self.now = 0
        self._up = [True] * PLANES
        self._cuts = [0] * PLANES
        self._busy = [[0] * PLANES, [0] * PLANES]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._seen: set[int] = set()
        self._used = True
        self._join(fields)

    def _join(self, fields: Fields) -> None:
        planes = PlaneConfig(PlaneUse.SHARED, MISSES, SILENCE_PS * self.slowness, PROBE_PS)
        config = QueuePairConfig(
            QPN,
            MTU,
            repeat=Repeat.SELECTIVE,
            reorder_ps=20 * US * self.slowness,
            window_packets=256,
            ack_every=4,
            timeout_ps=50 * MS,
            interfaces=PLANES,
            planes=planes,
        )
        for number, card in enumerate(self.cards):
            card.add_queue_pair(config, None if number else {NAME: dict(fields)})
            peer = 2 - number
            ips = [10 << 24 | i << 16 | peer for i in range(PLANES)]
            card.connect_ways(QPN, ips, peer_qpn=QPN, peer_psn=config.first_psn)
            card.receive_anything(QPN)
            card.register(RKEY, 0, 1 << 40, Access.REMOTE_WRITE | Access.REMOTE_READ)

    def close(self) -> None:
        """Free the cards."""
        for card in self.cards:
            card.close()

    # --- what happens -------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._order += 1
        heapq.heappush(self._events, (time, self._order, action))

    def cut(self, plane: int, first: int, last: int) -> None:
        """Cut a plane's link between two times; both cards know at once."""
        self.at(first, lambda: self._set(plane, False))
        self.at(last, lambda: self._set(plane, True))

    def _set(self, plane: int, up: bool) -> None:
        self._cuts[plane] += not up
        self._up[plane] = up
        for card in self.cards:
            card.set_link(plane, up)

    def play(self, until: int) -> Story:
        """Let the sender send as fast as it may until then."""
        sender = self.cards[0]
        total = until // MS * PLANES * self.rate_bps // 8000 + 1
        for number in range(total // MESSAGE_BYTES + 2):
            work = Work(id=number, operation=Operation.WRITE, length=MESSAGE_BYTES, rkey=RKEY)
            sender.post(QPN, work, 0)
        while self._step(until):
            pass
        return self.story

    def _step(self, until: int) -> bool:
        due = [
            (max(at, busy) if (at := card.next_event(i)) != NEVER else NEVER, number, i)
            for number, (card, row) in enumerate(zip(self.cards, self._busy, strict=True))
            for i, busy in enumerate(row)
        ]
        first = min(min(due)[0], self._events[0][0] if self._events else NEVER)
        if first > until or first == NEVER:
            return False
        self.now = max(self.now, first)
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        for card in self.cards:
            card.advance(self.now)
        for number, card in enumerate(self.cards):
            for plane in range(PLANES):
                if self._busy[number][plane] <= self.now:
                    packet = card.transmit(self.now, plane)
                    if packet is not None:
                        self._send(number, plane, packet)
        self._look()
        return True

    def _send(self, number: int, plane: int, packet: Packet) -> None:
        size = max(len(packet.frame) + packet.tail + FRAME_GAP, FRAME_LEAST)
        end = self.now + size * 8 * 10**12 // self.rate_bps
        self._busy[number][plane] = end
        self.cards[number].set_busy(end, plane)
        is_data = number == 0 and packet.kind is PacketKind.DATA
        if is_data:
            self.story.left[plane][self.now // US] += packet.tail - 4
        if not self._up[plane] or self.loses(self.now, number == 0, plane):
            return
        to, cuts = self.cards[1 - number], self._cuts[plane]

        def arrive() -> None:
            if self._cuts[plane] != cuts or not self._up[plane]:
                return
            if is_data and packet.psn not in self._seen:
                self._seen.add(packet.psn)
                self.story.arrived[plane][self.now // US] += packet.tail - 4
            to.receive(packet.frame, self.now, packet.tail, plane)

        self.at(end + DELAY_PS, arrive)

    def _look(self) -> None:
        story = self.story
        used = self.cards[0].plane_stats(QPN, 1).state is not PlaneState.LOST
        if used is not self._used:
            self._used = used
            story.changes.append((self.now, used))
        for event in self.cards[0].events():
            story.done += event.kind is EventKind.COMPLETED
            story.failed += event.kind is not EventKind.COMPLETED
