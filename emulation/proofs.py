"""What a run shows: that the fabric carries real traffic, and that its counters say the same.

Each proof is one function that returns a `Row`. What a proof claims is measured on the network
that runs, never taken from what was installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.leaf_routes import Routes
from emulation import ping, rdma, roce, tcp
from emulation.errors import TrafficError
from emulation.live_host import LiveHost
from emulation.port_counts import PortCount, port_counts
from emulation.session import Session
from emulation.switch_node import Target
from topologies import Role, Topology
from topologies.model import Endpoint, Interface
from workloads.senders import senders, titles

COUNTERS_DEADLINE_S = 15.0
POLL_S = 0.02
MAX_PINGED_PAIRS = 2000  # of interfaces; beyond, only those of one rail or plane

ROCE_COUNTER = "roce_rx"


Counters = Mapping[str, Mapping[int, PortCount]]


@dataclass(frozen=True)
class Row:
    """One line of the results: what was tried, what came of it, and whether that is good."""

    what: str
    result: str
    ok: bool


def _rate(bits_per_second: float) -> str:
    for unit, factor in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if bits_per_second >= factor:
            return f"{bits_per_second / factor:.3g} {unit}"
    return f"{bits_per_second:.0f} b/s"


def _duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def reply_timeout_s(topology: Topology) -> float:
    """Return how long a round trip may take: the links' delays, and what a busy machine needs."""
    longest_ps = max((topology.there_and_back_ps(link) for link in topology.links), default=0)
    longest_ns = topology.real_duration_ns(longest_ps) / 2
    hops = 2 * 6  # there and back, up to three switches deep on each side
    return 5.0 + 2 * hops * longest_ns / 1e9


def round_trip_s(topology: Topology, source: Interface, target: Interface) -> float:
    """Return the real propagation delay there and back, on a shortest way, in seconds."""
    links = [topology.link_at(end.host, end.number) for end in (source, target)]
    latency_ps = topology.latency_ps(source.switch)
    routes = Routes.of(topology)
    here = source.switch
    while here != target.switch:
        port = routes.towards(here, target.switch)[0]
        links.append(topology.link_at(here, port))
        here = topology.peer(here, port).node
        latency_ps += topology.latency_ps(here)
    way_ps = latency_ps + sum(link.delay_ps for link in links)
    return 2e-9 * topology.real_duration_ns(way_ps)


def all_pairs_ping(session: Session) -> Row:
    """Ping between all pairs of hosts; the very first packets count."""
    interfaces = session.network.live_interfaces()
    islands = session.network.reach.islands
    many = len(interfaces) ** 2 > MAX_PINGED_PAIRS

    def tried(source: LiveHost, destination: LiveHost) -> bool:
        """Say whether the fabric joins two hosts.

        Where pairs are many, only those of one rail count.
        """
        host, _, number = source.name.partition(":")
        other, _, its_number = destination.name.partition(":")
        joined = islands[source.switch] == islands[destination.switch]
        return joined and host != other and (number == its_number or not many)

    report = ping.ping_all(interfaces, between=tried, timeout_s=reply_timeout_s(session.topology))
    return Row("all-pairs ping", describe_ping(report, session.topology), report.ok)


def describe_ping(report: ping.PingReport, topology: Topology) -> str:
    """Say how a ping of all pairs went, in one line."""
    percent = 100 * report.lost / report.sent if report.sent else 100.0
    text = f"{len(report.pairs)} pairs, {percent:.3g} % lost"
    if report.lost == 0:
        text += ", the first packets included"
    elif report.first_lost:
        text += f", {report.first_lost} of the first packets"
    times = report.round_trip()
    if times is not None:
        text += f"; round trip {_duration(times[0])} ({_scaled_time(times[0], topology)})"
    return text


def _scaled_time(seconds: float, topology: Topology) -> str:
    return f"fabric {_duration(seconds / topology.time_scale)}"


def far_pair(session: Session) -> tuple[LiveHost, LiveHost]:
    """Return the first host, and the first of those interfaces of others that are farthest."""
    first, *_ = session.network.live_hosts()
    distance = session.network.reach.distances(first.switch)
    others = [
        other
        for other in session.network.live_interfaces()
        if other.namespace != first.namespace and other.switch in distance
    ]
    if not others:
        raise TrafficError(f"{first.name} can reach no other host", "weft topo check")
    return first, max(others, key=lambda other: distance[other.switch])


def tcp_transfer(
    session: Session, seconds: int = tcp.SECONDS, pair: tuple[LiveHost, LiveHost] | None = None
) -> Row:
    """Run a TCP transfer of `seconds`, by default between the hosts that are farthest apart."""
    source, destination = pair or far_pair(session)
    report = tcp.transfer(
        source,
        destination,
        seconds=seconds,
        started=lambda pid, role: session.run.started_processes([(pid, role)]),
    )
    what = f"TCP {source.name} -> {destination.name}"
    if report.error:
        return Row(what, report.error, False)
    rate = report.bits_per_second
    scaled = _rate(rate * session.topology.time_scale)
    text = f"{_rate(rate)} for {report.seconds:.3g} s, slow start included (fabric {scaled}); "
    return Row(what, text + f"{report.retransmits} packets sent again", report.ok)


RDMA_BYTES = 16384
RDMA_DEPTH = 32  # and what the path holds
RDMA_MS = 1000
LONG_WAY = 0.05  # of the time measured: reported from there on


def rdma_write(session: Session, milliseconds: int = RDMA_MS) -> Row:
    """Run RDMA WRITEs between the hosts that are farthest apart, under the default control.

    The endpoints post them for so long, as many at a time as keep the path full, and wait for all
    that
    were posted: a round trip is part of the time measured.
    """
    source, destination = far_pair(session)
    topology = session.topology
    ends = [topology.interface(_endpoint(host)) for host in (source, destination)]
    places = session.endpoints.places([source, destination])
    line = topology.real_rate_bps(topology.link_at(ends[0].host, ends[0].number))
    trip_s = round_trip_s(topology, ends[0], ends[1])
    depth = RDMA_DEPTH + int(line * trip_s) // 8 // RDMA_BYTES
    count = line * milliseconds // 8000 // RDMA_BYTES + depth
    work = rdma.Work(
        "write", "bandwidth", RDMA_BYTES, count,
        depth=depth, duration_ms=milliseconds, control={},
    )  # fmt: skip
    [answer] = rdma.measure(topology, places, ends[:1], ends[1], work)
    what = f"RDMA WRITE {source.name} -> {destination.name}"
    if answer.failures or not answer.said["messages"]:
        return Row(what, "; ".join(answer.failures) or "no message arrived in time", False)
    rate = answer.said["average_bps"]
    scale = topology.time_scale
    text = f"{_rate(rate)} of {_rate(line)} (fabric {_rate(rate * scale)} of {_rate(line * scale)})"
    if trip_s > LONG_WAY * answer.said["elapsed_ns"] / 1e9:
        text += f", a round trip of {_duration(trip_s)} included"
    kind = rdma.info(places[source.name])
    by = "AF_XDP" if kind["mode"] == "af_xdp" else "AF_PACKET"
    return Row(
        what,
        f"{text}, {answer.said['messages']} of 16 kB by {by}, {titles(senders()[0].name)}",
        True,
    )


def _endpoint(host: LiveHost) -> Endpoint:
    node, _, number = host.name.partition(":")
    return Endpoint(node, int(number or 0))


def roce_over_spines(session: Session) -> Row:
    """Send RoCEv2 packets between leaves: all arrive whole, and every equal way carried some.

    Ways are distinguished by the switches next to the sender's leaf (the spines, in a leaf-spine
    fabric): what each carried is the growth of its RoCE counters, read over P4Runtime.
    """
    source, destination = far_pair(session)
    topology = session.topology
    ways = _equal_next_switches(topology, source.switch, destination.switch)
    before = {name: _roce_packets(session, name) for name in ways}
    report = roce.exchange(source, destination, timeout_s=reply_timeout_s(topology))
    text = f"{report.received} of {report.sent} packets ({report.flows} flows) with right ICRC"
    if report.bad_icrc or report.duplicates:
        text += f", {report.bad_icrc} damaged, {report.duplicates} twice"
    good = report.ok
    if ways:
        carried = _carried(session, before, report.received)
        are_spines = all(topology.switch(name).role is Role.SPINE for name in ways)
        text += "; by spine: " if are_spines else "; by next switch: "
        text += ", ".join(f"{name} {count}" for name, count in carried.items())
        good = good and all(carried.values()) and sum(carried.values()) == report.sent
    return Row(f"RoCEv2 {source.name} -> {destination.name}", text, good)


def _equal_next_switches(topology: Topology, source: str, destination: str) -> list[str]:
    """Return the switches that are next on equally short ways from one switch to another."""
    if source == destination:
        return []
    ports = Routes.of(topology).towards(source, destination)
    return list(dict.fromkeys(topology.peer(source, port).node for port in ports))


def _carried(session: Session, before: Mapping[str, int], received: int) -> dict[str, int]:
    """Return how many RoCE packets each switch has seen since `before`, once they are counted."""
    carried: dict[str, int] = {}

    def all_counted() -> bool:
        for name, packets in before.items():
            carried[name] = _roce_packets(session, name) - packets
        return sum(carried.values()) >= received

    _until(all_counted, COUNTERS_DEADLINE_S)
    return carried


def _roce_packets(session: Session, switch: str) -> int:
    cells = session.controller.read_counter(switch, ROCE_COUNTER)
    return sum(packets for packets, _bytes in cells.values())


def read_counters(session: Session) -> Counters:
    """Read the counters of every port in use of every switch.

    Over P4Runtime where the program is the fabric's; else the switch's own, which BMv2 lacks.
    """
    controller = session.controller
    counters: dict[str, dict[int, PortCount]] = {
        switch: port_counts(session, switch)
        for switch in controller.own
        if session.target is Target.SOFTSWITCH
    }
    for switch, ports in controller.read_port_counters().items():
        roce_packets = controller.read_counter(switch, ROCE_COUNTER)
        counters[switch] = {
            number: PortCount(
                count.rx_packets,
                count.rx_bytes,
                count.tx_packets,
                count.tx_bytes,
                roce_packets.get(number, (0, 0))[0],
            )
            for number, count in ports.items()
        }
    return {
        each.name: counters[each.name]
        for each in session.topology.switches
        if each.name in counters
    }


def counters_agree(session: Session) -> tuple[Row, Counters]:
    """Read all port counters: on each link between switches, one end received what the other sent.

    Returns the counters too. Packets still on their way are waited for.
    """
    latest: Counters = {}
    wrong: list[str] = []

    def agree() -> bool:
        nonlocal latest
        latest = read_counters(session)
        wrong[:] = _disagreements(session.topology, latest)
        return not wrong

    agreed = _until(agree, COUNTERS_DEADLINE_S)
    ports = sum(len(of_switch) for of_switch in latest.values())
    packets = sum(port.rx_packets for of_switch in latest.values() for port in of_switch.values())
    text = f"{ports} ports, {packets} packets received; " + (
        "both ends of each link agree" if agreed else "; ".join(wrong)
    )
    silent = packets == 0 and len(session.topology.hosts) >= 2
    return Row("port counters (P4Runtime)", text, agreed and not silent), latest


def _disagreements(topology: Topology, counters: Counters) -> list[str]:
    found = []
    for link in topology.links:
        if not (topology.is_switch(link.a.node) and topology.is_switch(link.b.node)):
            continue
        for sender, receiver in ((link.a, link.b), (link.b, link.a)):
            sent = counters[sender.node][sender.port].tx_packets
            received = counters[receiver.node][receiver.port].rx_packets
            if sent != received:
                found.append(f"{sender} sent {sent}, {receiver} received {received}")
    return found


def _until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Poll a condition until it holds or the deadline has passed; say whether it holds."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
