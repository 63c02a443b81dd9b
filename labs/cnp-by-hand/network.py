"""Cards on one switch, in virtual time: two sources that write to one sink through one port.

    card 1 ---\\
               switch --- slow port --- card 3
    card 2 ---/

The cards are the endpoint's own (hostagent/rnic): RoCEv2 with ICRC, go-back-N, DCQCN. They check
the ICRC of what comes: a CNP which is not right is no CNP to them. Times are in nanoseconds.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

from hostagent.algorithms import Parameters
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import NEVER, CardConfig, Operation, QueuePairConfig, Work
from protocols.notification import RATE_UNIT_BPS, rate_of
from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.pipeline import Pipeline

from .control_plane import CELL_BYTES, Connection, Host, Setup, updates

PS = 1000
DELAY_NS = 1000
ON_THE_WIRE = 24
MESSAGE_BYTES = 1 << 20
MTU = 1024
DATA_BYTES = 14 + 20 + 8 + 12 + MTU + 4
SINK_QP = 100
SOURCE_QP = 200
DATA_QUEUE_PACKETS = 1 << 16

RATE = rate_of(5 * 10**9 // RATE_UNIT_BPS)  # the share of each of two sources
VALIDITY = 8  # for 2^8 units of 256 ns: no increase for 66 us, longer than an interval

ROUTER_MAC = 0x020100000001


def lab_setup(threshold: int, interval: int) -> Setup:
    """Return the lab's own network: 10.0.n.1 at port n, sources 1 and 2, the sink 3."""
    one, two, sink = (
        Host(10 << 24 | n << 8 | 1, 0x0200 << 32 | 10 << 24 | n << 8 | 1, n) for n in (1, 2, 3)
    )
    flows = [
        Connection(source, SOURCE_QP + source.port, sink, SINK_QP + source.port, 0xC000)
        for source in (one, two)
    ]
    return Setup(
        sources=(one, two),
        sink=sink,
        router_mac=ROUTER_MAC,
        threshold=threshold,
        interval=interval,
        switch_id=1,
        rate=RATE,
        validity=VALIDITY,
        connections=flows,
        watched=(sink.port,),
    )


@dataclass(frozen=True)
class Sample:
    """The network at a time: rates that congestion control allows, by source, and the queue."""

    at_ns: int
    rates_bps: tuple[int, ...]
    queue_bytes: int


@dataclass
class Story:
    """What happened. `crossed_at`: when the queue first reached the threshold, None: never."""

    samples: list[Sample] = field(default_factory=list)
    crossed_at: int | None = None
    first_cut_at: int | None = None
    made: list[bytes] = field(default_factory=list)
    """every frame that the switch sent to a source and the sink did not"""
    cnps_received: int = 0
    notifications: int = 0
    """CNPs of which the card read what their reserved bytes say; not among the others"""
    bad_icrc: int = 0
    delivered_bytes: int = 0
    ended_at: int = 0


class Network:
    """The cards and the switch under one clock."""

    def __init__(
        self,
        pipeline: Pipeline,
        setup: Setup,
        *,
        line_rate_bps: int,
        congestion_control: Parameters,
    ) -> None:
        """Join them all; `congestion_control` is the sources'.

        Raises UnknownName, WriteError if the program lacks a table.
        """
        self.setup = setup
        self.line_rate_bps = line_rate_bps
        self.switch = Switch(
            CoreConfig(depth_cell_bytes=CELL_BYTES, queue_packets=DATA_QUEUE_PACKETS)
        )
        self.switch.load(pipeline)
        self.switch.write(updates(self.switch.names, setup))
        for host in setup.hosts:
            self.switch.configure_port(host.port, rate_bps=line_rate_bps, delay_ns=DELAY_NS)
        self.cards = {host.port: self._card(host) for host in setup.hosts}
        self._memory = bytes(MESSAGE_BYTES)
        for flow in setup.connections:
            self._connect(flow, congestion_control)
        self._busy = dict.fromkeys(self.cards, 0)
        self._arrivals: list[tuple[int, int, int, bytes]] = []
        self._order = 0
        self._sink = setup.sink.port
        self.now = 0

    def _card(self, host: Host) -> Card:
        return Card(
            CardConfig(
                mac=host.mac,
                gateway_mac=self.setup.router_mac,
                ip=host.ip,
                line_rate_bps=self.line_rate_bps,
            )
        )

    def _connect(self, flow: Connection, control: Parameters) -> None:
        source, sink = self.cards[flow.source.port], self.cards[flow.sink.port]
        pair = QueuePairConfig(flow.source_qp, MTU, flow.udp_port, ack_every=16, queue=0)
        source.add_queue_pair(pair, control)
        sink.add_queue_pair(replace(pair, qpn=flow.sink_qp))
        source.connect(flow.source_qp, flow.sink.ip, peer_qpn=flow.sink_qp, peer_psn=0)
        sink.connect(flow.sink_qp, flow.source.ip, peer_qpn=flow.source_qp, peer_psn=0)
        sink.receive_anything(flow.sink_qp)

    def close(self) -> None:
        """Free switch and cards."""
        self.switch.close()
        for card in self.cards.values():
            card.close()

    def play(self, until_ns: int, sample_ns: int) -> Story:
        """Let both sources send as fast as they may until then."""
        story = Story()
        for flow in self.setup.connections:
            card = self.cards[flow.source.port]
            for number in range(until_ns * self.line_rate_bps // (8 * 10**9 * MESSAGE_BYTES) + 1):
                work = Work(id=number, operation=Operation.SEND, data=self._memory)
                card.post(flow.source_qp, work)
        for at_ns in range(0, until_ns + 1, sample_ns):
            while self._step(at_ns, story):
                pass
            self._sample(at_ns, story)
        self._sum_up(story)
        return story

    def _step(self, until: int, story: Story) -> bool:
        """Do what is next, up to a time; False: nothing is."""
        wakes = {port: self._wake(port) for port in self.cards}
        event = self.switch.core.next_event()
        switch = NEVER if event is None else -(-event // PS)
        first = min([*wakes.values(), switch, self._arrivals[0][0] if self._arrivals else NEVER])
        if first > until:
            return False
        self.now = max(self.now, first)
        while self._arrivals and self._arrivals[0][0] <= self.now:
            at_ns, _, port, frame = heapq.heappop(self._arrivals)
            self.switch.inject(port, frame, at_ns)
        for output in self.switch.run_until(self.now):
            card = self.cards.get(output.port)
            if card is None:
                continue
            if output.port != self._sink and output.packet[42] == 0x81:
                story.made.append(output.packet)
            card.receive(output.packet, output.at_ns * PS)
        for port, due in wakes.items():
            if due <= self.now:
                self._send(port)
        if story.crossed_at is None and self._cells() >= self.setup.threshold:
            story.crossed_at = self.now
        return True

    def _cells(self) -> int:
        """How long the queue is: only full data packets wait there."""
        return self.switch.stats(self._sink).depth_packets * -(-DATA_BYTES // CELL_BYTES)

    def _wake(self, port: int) -> int:
        due = self.cards[port].next_event()
        return NEVER if due == NEVER else max(-(-due // PS), self.now, self._busy[port])

    def _send(self, port: int) -> None:
        card = self.cards[port]
        card.advance(self.now * PS)
        packet = card.transmit(self.now * PS)
        if packet is None:
            return
        bits = 8 * (len(packet.frame) + ON_THE_WIRE)
        self._busy[port] = self.now + -(-bits * 10**9 // self.line_rate_bps)
        self._order += 1
        arrival = self._busy[port] + DELAY_NS
        heapq.heappush(self._arrivals, (arrival, self._order, port, packet.frame))

    def _sample(self, at_ns: int, story: Story) -> None:
        rates = []
        for flow in self.setup.connections:
            card = self.cards[flow.source.port]
            rate = card.queue_pair_stats(flow.source_qp, at_ns * PS).rate_bps
            rates.append(rate or self.line_rate_bps)
        queue = self.switch.stats(self._sink).depth_bytes
        story.samples.append(Sample(at_ns, tuple(rates), queue))

    def _sum_up(self, story: Story) -> None:
        story.ended_at = self.now
        cuts = []
        for flow in self.setup.connections:
            now = self.now * PS
            source = self.cards[flow.source.port].queue_pair_stats(flow.source_qp, now)
            sink = self.cards[flow.sink.port].queue_pair_stats(flow.sink_qp, now)
            story.cnps_received += source.cnps_received
            story.notifications += source.notified_received
            story.delivered_bytes += sink.received_bytes
            if source.first_cut_at >= 0:
                cuts.append(source.first_cut_at // PS)
        story.first_cut_at = min(cuts, default=None)
        story.bad_icrc = sum(card.stats().bad_icrc for card in self.cards.values())
