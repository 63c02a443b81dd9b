"""Two cards of several interfaces in virtual time, joined by as many links.

              link 0: rate, delay, up or down
    +--------+-----------------------------+--------+
    | card A |  link 1                     | card B |
    |        |-----------------------------|        |
    +--------+  ...                        +--------+

The i-th interface of A is joined to the i-th of B. Each line sends a frame at a time at its link's
rate; what is on a link that goes down is lost. Times are integer picoseconds.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    NEVER,
    Access,
    CardConfig,
    Event,
    EventKind,
    Interface,
    Operation,
    Packet,
    PacketKind,
    QueuePairConfig,
    Repeat,
    Work,
)

SANITIZE = os.environ.get("WEFT_RNIC_SANITIZE") == "1"
GBPS = 10**9
US = 10**6
FRAME_GAP, FRAME_LEAST = 24, 84
RKEY = 7


@dataclass
class Link:
    """A link between two interfaces; `up` as it is now."""

    rate_bps: int = 100 * GBPS
    delay_ps: int = US
    up: bool = True


@dataclass(frozen=True)
class Sent:
    """A frame that left: when, whose it was and by which link."""

    at: int
    card: Card
    link: int
    packet: Packet


def address(host: int, interface: int) -> int:
    """Interface i of host n is 10.i.0.n."""
    return 0x0A000000 + (interface << 16) + host


def device(host: int, links: Sequence[Link], *, whole: bool = False) -> Card:
    """Make a host's card with an interface for each link."""
    first, *more = [
        Interface(0x0200 << 32 | address(host, i), 0x0201, address(host, i), link.rate_bps)
        for i, link in enumerate(links)
    ]
    config = CardConfig(
        mac=first.mac,
        gateway_mac=first.gateway_mac,
        ip=first.ip,
        line_rate_bps=first.line_rate_bps,
        whole=whole,
    )
    return Card(config, *more, sanitize=SANITIZE)


def tolerant(qpn: int = 1, **changes: object) -> QueuePairConfig:
    """Return a queue pair that tolerates reordered packets."""
    values: dict[str, object] = {
        "qpn": qpn,
        "mtu": 4096,
        "repeat": Repeat.SELECTIVE,
        "reorder_ps": 20 * US,
        "window_packets": 1024,
        "ack_every": 8,
        "timeout_ps": 200 * US,
        "interfaces": 2,
    }
    return QueuePairConfig(**{**values, **changes})  # type: ignore[arg-type]


class Pair:
    """Two such cards, and the links between them."""

    def __init__(
        self, links: Sequence[Link], *, whole: bool = False, seed: int = 0, loss: float = 0.0
    ) -> None:
        self.links = list(links)
        self.a, self.b = device(1, links, whole=whole), device(2, links, whole=whole)
        self.now = 0
        self.sent: list[Sent] = []
        self.events: dict[Card, list[Event]] = {self.a: [], self.b: []}
        self.random = Random(seed)
        self.loss = loss
        self.lose: Callable[[Sent], bool] = lambda sent: False
        self._busy = {(card, i): 0 for card in self.events for i in range(len(links))}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._cut = [0] * len(links)
        self._joined = False

    def join(self, config: QueuePairConfig, **parameters: object) -> None:
        """Make a queue pair at both ends; `a` has congestion control, if any is given."""
        for card, peer in ((self.a, 2), (self.b, 1)):
            card.add_queue_pair(config, parameters or None if card is self.a else None)  # type: ignore[arg-type]
            ips = [address(peer, config.interface + i) for i in range(config.interfaces)]
            card.connect_ways(config.qpn, ips, peer_qpn=config.qpn, peer_psn=config.first_psn)
            if not card.config.whole:
                card.receive_anything(config.qpn)
        if not self.a.config.whole and not self._joined:
            self._joined = True
            for card in self.events:
                card.register(RKEY, 0, 1 << 40, Access.REMOTE_WRITE | Access.REMOTE_READ)

    def post(self, size: int, operation: Operation = Operation.WRITE, *, qpn: int = 1) -> None:
        """Let `a` have a message to send, or to read."""
        self.a.post(qpn, Work(id=0, operation=operation, length=size, rkey=RKEY), self.now)

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._order += 1
        heapq.heappush(self._queue, (time, self._order, action))

    def set_link(self, number: int, up: bool) -> None:
        """Cut a link, which loses what is on it, or mend it; both cards know at once."""
        self._cut[number] += not up
        self.links[number].up = up
        for card in self.events:
            card.set_link(number, up)

    def _arrive(self, sent: Sent, to: Card, cut: int) -> None:
        if self._cut[sent.link] == cut and self.links[sent.link].up:
            to.receive(sent.packet.frame, self.now, sent.packet.tail, sent.link)

    def _send(self, card: Card, number: int, packet: Packet) -> None:
        link, sent = self.links[number], Sent(self.now, card, number, packet)
        size = max(len(packet.frame) + packet.tail + FRAME_GAP, FRAME_LEAST)
        taken = size * 8 * 10**12 // link.rate_bps
        self._busy[card, number] = self.now + taken
        card.set_busy(self.now + taken, number)
        self.sent.append(sent)
        if self.random.random() < self.loss or self.lose(sent):
            return
        to, cut = self.b if card is self.a else self.a, self._cut[number]
        self.at(self.now + taken + link.delay_ps, lambda: self._arrive(sent, to, cut))

    def step(self, until: int) -> bool:
        """Move to the next thing that happens up to `until`; False: nothing does."""
        due = {
            (card, i): NEVER if (next_ := card.next_event(i)) == NEVER else max(next_, busy)
            for (card, i), busy in self._busy.items()
        }
        first = min([*due.values(), self._queue[0][0] if self._queue else NEVER])
        if first > until or first == NEVER:
            return False
        self.now = max(self.now, first)
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()
        for card, number in due:
            card.advance(self.now)
            if self._busy[card, number] <= self.now:
                packet = card.transmit(self.now, number)
                if packet is not None:
                    self._send(card, number, packet)
        for card, events in self.events.items():
            events += card.events()
        return True

    def run(self, until: int = NEVER, steps: int = 2_000_000) -> None:
        """Until nothing happens any more. What never gets quiet is an AssertionError."""
        while self.step(until):
            steps -= 1
            assert steps, "the cards never come to rest"

    # --- what happened --------------------------------------------------------------------------

    def done_at(self, card: Card | None = None) -> int:
        """When the last message of `a` was complete."""
        done = [e.at for e in self.events[card or self.a] if e.kind is EventKind.COMPLETED]
        assert done, "no message is complete"
        return max(done)

    def data(self, card: Card | None = None) -> list[list[Packet]]:
        """Return what a card (`a`) has sent of data, by link."""
        kinds = (PacketKind.DATA, PacketKind.RESPONSE)
        of = [row for row in self.sent if row.card is (card or self.a) and row.packet.kind in kinds]
        return [
            [row.packet for row in of if row.link == number] for number in range(len(self.links))
        ]

    def shares(self, card: Card | None = None) -> list[int]:
        """How many packets of data each link has carried."""
        return [len(packets) for packets in self.data(card)]

    def used(self, until: int | None = None, card: Card | None = None) -> list[float]:
        """How much of each link's time was filled with data up to `until`, at the sender.

        Without it up to the last packet of data.
        """
        kinds = (PacketKind.DATA, PacketKind.RESPONSE)
        card = card or self.a
        if until is None:
            until = max(r.at for r in self.sent if r.card is card and r.packet.kind in kinds)
        return [
            sum(len(p.frame) + p.tail + FRAME_GAP for p in packets) * 8e12 / link.rate_bps / until
            for link, packets in zip(self.links, self.data(card), strict=True)
        ]
