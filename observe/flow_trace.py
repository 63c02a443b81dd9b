"""A flow's path, hop by hop, from what the switches' own programs did with packets of it.

    probes of a flow -> traces of every switch -> FlowTrace: ports, queues, where probes vanish

Nothing is recomputed: a hop is what a switch did with the packet that came, whatever its program
hashes, pins, repairs or forgets. The probes are marked in IPv4's identification, which no switch
hashes, so that the flow's own packets are not taken for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from protocols.probe_frame import ROCE_V2_PORT, probe_frame
from softswitch.tracing.records import Branch, Egress, End, Outcome, PacketTrace
from topologies.model import Endpoint, Topology

MARK = 0x5765
"""The identification of probes."""

_THE_PACKET = frozenset({"received", "replica", "resubmitted", "recirculated"})
"""Origins of branches that are the packet itself; clones are other packets made of it."""

_LEFT = frozenset({Outcome.SENT, Outcome.LOST})
"""A switch does not know what becomes of a frame on the link: that shows at the other end."""

Traces = Mapping[str, Sequence[PacketTrace]]
"""By switch, those of the probes alone."""


@dataclass(frozen=True)
class TracedFlow:
    """A RoCEv2 flow between two interfaces, by its UDP source port, and what its packets carry."""

    source: Endpoint
    target: Endpoint
    udp_port: int
    dscp: int

    def frame(self, topology: Topology) -> bytes:
        """Return a probe of it as its host sends it."""
        source, target = topology.interface(self.source), topology.interface(self.target)
        macs = topology.switch(source.switch).mac, source.mac
        addresses = source.address.ip, target.address.ip
        return probe_frame(macs, addresses, self.udp_port, self.dscp, identification=MARK)

    def filter(self, topology: Topology) -> str:
        """Return the pcap filter that takes its probes and nothing else."""
        ends = [topology.interface(end).address.ip for end in (self.source, self.target)]
        ports = f"udp src port {self.udp_port} and udp dst port {ROCE_V2_PORT}"
        return f"src host {ends[0]} and dst host {ends[1]} and {ports} and ip[4:2] = {MARK}"


@dataclass(frozen=True)
class Departure:
    """Probes that left a switch by a port, out of one queue, towards the node at its other end."""

    port: int
    queue: int
    towards: str
    packets: int


@dataclass(frozen=True)
class Hop:
    """A switch that probes came to by `port`, and what it did with them.

    `dropped`: packets by the switch's reason.
    """

    switch: str
    port: int
    came: int
    left: tuple[Departure, ...]
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class Vanished:
    """Probes that ended before the target.

    `place`: a switch, or a link's direction, as in "s9:4 to s17:1". `reason`: the switch's, if one
    knows; frames that left by one end of a link and did not come at the other have none.
    """

    place: str
    packets: int
    reason: str = ""


@dataclass(frozen=True)
class FlowTrace:
    """What became of `sent` probes of a flow. Hops are in order, those of all ways that it took."""

    flow: TracedFlow
    sent: int
    hops: tuple[Hop, ...]
    arrived: int
    vanished: tuple[Vanished, ...]

    @property
    def ports(self) -> tuple[tuple[str, int], ...]:
        """The ports that probes left switches through, in order."""
        return tuple((hop.switch, each.port) for hop in self.hops for each in hop.left)

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "from": str(self.flow.source),
            "to": str(self.flow.target),
            "udp_port": self.flow.udp_port,
            "dscp": self.flow.dscp,
            "sent": self.sent,
            "arrived": self.arrived,
            "hops": [asdict(hop) for hop in self.hops],
            "vanished": [asdict(each) for each in self.vanished],
        }


def assemble(topology: Topology, flow: TracedFlow, sent: int, traces: Traces) -> FlowTrace:
    """Join what each switch traced of `sent` probes into the flow's way."""
    entry = topology.interface(flow.source)
    came = {
        (switch, port): packets
        for switch, found in traces.items()
        for port, packets in _by_port(found).items()
    }
    hops: list[Hop] = []
    vanished: list[Vanished] = []
    arrived = 0
    first = Endpoint(entry.switch, entry.port)
    _missing(vanished, flow.source, first, sent, came)
    turn = [first]
    seen = {first}
    while turn:
        end = turn.pop(0)
        packets = came.get((end.node, end.port), ())
        if not packets:
            continue
        hop = _hop(topology, end, packets)
        hops.append(hop)
        vanished += [Vanished(hop.switch, n, why) for why, n in hop.dropped.items()]
        for leaves, number in _by_way(hop).items():
            far = topology.peer(hop.switch, leaves)
            if topology.is_switch(far.node):
                if far not in seen:
                    seen.add(far)
                    turn.append(far)
                _missing(vanished, Endpoint(hop.switch, leaves), far, number, came)
                continue
            lost = _lost_towards(packets, leaves)
            arrived += number - lost if far == flow.target else 0
            if lost:
                vanished.append(Vanished(f"{hop.switch}:{leaves} to {far}", lost))
    return FlowTrace(flow, sent, tuple(hops), arrived, tuple(vanished))


def is_settled(topology: Topology, flow: TracedFlow, sent: int, traces: Traces) -> bool:
    """Say whether every probe has arrived or is known to have been dropped by a switch."""
    if not all(trace.finished for found in traces.values() for trace in found):
        return False
    found = assemble(topology, flow, sent, traces)
    dropped = sum(n for hop in found.hops for n in hop.dropped.values())
    return found.arrived + dropped >= sent


def _by_port(traces: Iterable[PacketTrace]) -> dict[int, tuple[PacketTrace, ...]]:
    found: dict[int, tuple[PacketTrace, ...]] = {}
    for trace in traces:
        found[trace.port] = (*found.get(trace.port, ()), trace)
    return found


def _ends(packets: Iterable[PacketTrace]) -> Iterator[tuple[End, int]]:
    """Yield how the packets ended, and the queue that each was in."""
    for trace in packets:
        for branch in trace.branches:
            if branch.origin in _THE_PACKET and branch.end is not None:
                yield branch.end, _queue(branch)


def _queue(branch: Branch) -> int:
    return next((each.priority for each in reversed(branch.steps) if isinstance(each, Egress)), 0)


def _hop(topology: Topology, end: Endpoint, packets: Sequence[PacketTrace]) -> Hop:
    left: Counter[tuple[int, int]] = Counter()
    dropped: Counter[str] = Counter()
    for last, queue in _ends(packets):
        if last.outcome in _LEFT:
            left[last.port, queue] += 1
        elif last.outcome.dropped:
            dropped[": ".join(filter(None, (last.outcome.value, last.why)))] += 1
        elif last.outcome is Outcome.TO_CPU:
            dropped["sent to the controller"] += 1
    departures = (
        Departure(port, queue, str(topology.peer(end.node, port)), n)
        for (port, queue), n in sorted(left.items())
    )
    return Hop(end.node, end.port, len(packets), tuple(departures), dict(dropped))


def _by_way(hop: Hop) -> Counter[int]:
    found: Counter[int] = Counter()
    for each in hop.left:
        found[each.port] += each.packets
    return found


def _missing(
    vanished: list[Vanished],
    here: Endpoint,
    far: Endpoint,
    number: int,
    came: Mapping[tuple[str, int], Sequence[PacketTrace]],
) -> None:
    lost = number - len(came.get((far.node, far.port), ()))
    if lost > 0:
        vanished.append(Vanished(f"{_with_port(here)} to {_with_port(far)}", lost))


def _with_port(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"


def _lost_towards(packets: Iterable[PacketTrace], port: int) -> int:
    """Return what was lost on a host's link, whose other end is not traced."""
    return sum(end.port == port and end.outcome is Outcome.LOST for end, _ in _ends(packets))
