"""What each exercise's README promises, as a script of frames and a verdict on what comes.

    CHECKS["basic"].script(hosts)    what hosts send          .verdict(hosts)    what has to come

A check is the same in virtual and in real time. With the exercise unsolved it has to fail.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from tests.tutorials.frames import (
    ARP_TYPE,
    BROADCAST,
    IPV4,
    Hosts,
    came,
    expect,
    pings_answered,
    texts,
)
from tests.tutorials.network import MS, START_NS, Played, Script, Send, Verdict

S = 1000 * MS
GAP_NS = 20 * MS
"""Between the frames of a check that are to come one behind the other."""

TUNNEL, CALC, SOURCE_ROUTE, PROBE = 0x1212, 0x1234, 0x1234, 0x0812


@dataclass(frozen=True)
class Check:
    """An exercise: where its files are, what it promises, and how that is seen.

    Unsolved, some do not even load, which shows nothing of the check. So the entries of the table
    that the program `lacks` are left out there, or what is played is the solution `spoiled`: in a
    file, one text in the place of another.
    """

    name: str
    promise: str
    script: Callable[[Hosts], Script]
    verdict: Callable[[Hosts], Verdict]
    topology: str = "topology.json"
    program: str = ""
    controller: str | None = None
    spoiled: tuple[str, str, str] | None = None
    lacks: str = ""

    @property
    def p4(self) -> str:
        """The program of switches that the topology gives none."""
        return self.program or f"{self.name}.p4"


def _listen(hosts: Hosts, *ether_types: int) -> dict[str, list[int]]:
    return {name: list(ether_types) for name in hosts.names}


def _one_by_one(frames: list[tuple[str, bytes]], gap_ns: int = GAP_NS) -> list[Send]:
    return [
        Send(host, START_NS + i * gap_ns, bytes(frame)) for i, (host, frame) in enumerate(frames)
    ]


# ---------------------------------------------------------------- pings


def _ping_all(hosts: Hosts) -> Script:
    frames = [(a, hosts.ping(a, b, i)) for i, (a, b) in enumerate(hosts.pairs())]
    return Script(_one_by_one(frames), _listen(hosts, IPV4))


def _all_answered(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        lost = [
            f"{a} {b}"
            for i, (a, b) in enumerate(hosts.pairs())
            if i not in pings_answered(played, a, hosts.ip(b))
        ]
        expect(not lost, f"{len(lost)} pings without an answer: {', '.join(lost[:4])}")

    return verdict


# ---------------------------------------------------------------- multicast


def _ask_and_ping_all(hosts: Hosts) -> Script:
    asked = [(a, hosts.arp_request(a, b)) for a, b in hosts.pairs()]
    pings = [(a, hosts.ping(a, b, i, direct=True)) for i, (a, b) in enumerate(hosts.pairs())]
    return Script(_one_by_one([*asked, *pings]), _listen(hosts, IPV4, ARP_TYPE))


def _heard_and_answered(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        for a in hosts.names:
            others = [each for each in hosts.names if each != a]
            for b in others:
                asked = [
                    each[ARP].pdst
                    for each in came(played, b, ARP_TYPE)
                    if each[ARP].op == 1 and each[ARP].psrc == hosts.ip(a)
                ]
                heard = {hosts.ip(each) for each in others} <= set(asked)
                expect(heard, f"{b} heard {len(asked)} of {len(others)} questions of {a}")
            own = [x for x in came(played, a, ARP_TYPE) if x[Ether].src == hosts.mac(a)]
            expect(not own, f"{a} heard itself")
        _all_answered(hosts)(played)

    return verdict


# ---------------------------------------------------------------- basic_tunnel


def _tunnelled(packet: Packet, to: int) -> bytes:
    ether = packet[Ether]
    head = bytes(Ether(src=ether.src, dst=ether.dst, type=TUNNEL))
    return head + struct.pack(">HH", IPV4, to) + bytes(packet[IP])


def _tunnels(hosts: Hosts) -> Script:
    plain = bytes(hosts.udp("h1", "h2", b"plain"))
    frames = [
        plain,
        _tunnelled(hosts.udp("h1", "h2", b"to 2"), 2),
        _tunnelled(hosts.udp("h1", "h3", b"for 3, to 2"), 2),
        _tunnelled(hosts.udp("h1", "h2", b"for 2, to 3"), 3),
    ]
    sends = _one_by_one([("h1", frame) for frame in frames])
    return Script(sends, _listen(hosts, IPV4, TUNNEL))


def _tunnel_decides(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        expect(texts(played, "h2") == [b"plain"], f"h2 got plain: {texts(played, 'h2')}")
        for host, number, wanted in (
            ("h2", 2, [b"to 2", b"for 3, to 2"]),
            ("h3", 3, [b"for 2, to 3"]),
        ):
            bodies = [bytes(each[Ether].payload) for each in came(played, host, TUNNEL)]
            found = [bytes(IP(each[4:])[Raw].load) for each in bodies]
            expect(found == wanted, f"{host} got tunnelled: {found}, not {wanted}")
            numbers = {struct.unpack_from(">HH", each) for each in bodies}
            expect(numbers == {(IPV4, number)}, f"{host}: tunnel headers {numbers}")

    return verdict


# ---------------------------------------------------------------- calc

_SUMS = ((b"+", 1, 1, 2), (b"-", 9, 4, 5), (b"&", 12, 10, 8), (b"|", 12, 10, 14), (b"^", 12, 10, 6),
         (b"-", 0, 1, 0xFFFF_FFFF), (b"+", 0xFFFF_FFFF, 2, 1))  # fmt: skip
_UNSOLVED = 0xDEADBABE


def _calculate(hosts: Hosts) -> Script:
    head = bytes(Ether(src=hosts.mac("h1"), dst="00:04:00:00:00:00", type=CALC))
    frames = [
        ("h1", head + b"P4\x01" + sign + struct.pack(">III", a, b, _UNSOLVED))
        for sign, a, b, _ in _SUMS
    ]
    return Script(_one_by_one(frames), {"h1": [CALC]})


def _right_results(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        found = [
            (body[3:4], *struct.unpack_from(">III", body, 4))
            for body in (bytes(each[Ether].payload) for each in came(played, "h1", CALC))
        ]
        expect(found == list(_SUMS), f"answers {found}")

    return verdict


# ---------------------------------------------------------------- firewall

_OUT, _ANSWER, _INSIDE, _BACK, _ATTACK, _OTHER_PORT, _LAST = range(101, 108)


def _connections(hosts: Hosts) -> Script:
    frames = [
        ("h1", hosts.tcp("h1", "h3", 5001, 80, "S", _OUT)),
        ("h3", hosts.tcp("h3", "h1", 80, 5001, "SA", _ANSWER)),
        ("h1", hosts.tcp("h1", "h2", 5002, 80, "S", _INSIDE)),
        ("h2", hosts.tcp("h2", "h1", 5003, 80, "S", _BACK)),
        ("h3", hosts.tcp("h3", "h1", 5004, 80, "S", _ATTACK)),
        ("h3", hosts.tcp("h3", "h1", 80, 5005, "SA", _OTHER_PORT)),
        # Behind what may not come, on the same way: once it is there, that would have been.
        ("h3", hosts.tcp("h3", "h1", 80, 5001, "A", _LAST)),
    ]
    made = [(host, bytes(frame)) for host, frame in frames]
    return Script(_one_by_one(made, 200 * MS), _listen(hosts, IPV4))


def _only_answers_come_in(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        ours = range(_OUT, _LAST + 1)
        for host, wanted in (("h3", {_OUT}), ("h2", {_INSIDE}), ("h1", {_ANSWER, _BACK, _LAST})):
            segments = [each[TCP].seq for each in came(played, host) if TCP in each]
            found = {sequence for sequence in segments if sequence in ours}
            expect(found == wanted, f"{host} got segments {sorted(found)}, not {sorted(wanted)}")

    return verdict


# ---------------------------------------------------------------- load_balance

_FLOWS = 40


def _many_flows(hosts: Hosts) -> Script:
    frames = [
        ("h1", bytes(hosts.tcp("h1", "h2", 10_000 + i * 37, 80, "S", i, to="10.0.0.1")))
        for i in range(_FLOWS)
    ]
    return Script(_one_by_one(frames * 2, 5 * MS), _listen(hosts, IPV4))


def _both_get_some(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        got = {
            host: Counter(each[TCP].sport for each in came(played, host) if TCP in each)
            for host in ("h2", "h3")
        }
        h2, h3 = (set(got[host]) for host in ("h2", "h3"))
        expect(len(h2 | h3) == _FLOWS, f"{_FLOWS - len(h2 | h3)} of {_FLOWS} flows got lost")
        expect(not h2 & h3, f"{len(h2 & h3)} flows are split over both")
        sent_twice = all(n == 2 for each in got.values() for n in each.values())
        expect(sent_twice, "a flow's second packet is missing")
        # A fair choice gives either one less than a quarter of 40 in less than 1 of 1000 trials.
        fair = min(len(h2), len(h3)) >= _FLOWS // 4
        expect(fair, f"{len(h2)} flows to h2, {len(h3)} to h3")
        marked = {each[IP].dst for host in got for each in came(played, host) if TCP in each}
        expect(marked == {hosts.ip("h2"), hosts.ip("h3")}, f"destinations {marked}")

    return verdict


# ---------------------------------------------------------------- qos


def _two_protocols(hosts: Hosts) -> Script:
    udp = hosts.udp("h1", "h2", b"udp", tos=1)
    tcp = hosts.tcp("h1", "h2", 1234, 80, "S", 7)
    tcp[IP].tos = 1
    return Script(_one_by_one([("h1", bytes(udp)), ("h1", bytes(tcp))]), {"h2": [IPV4]})


def _classes(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        for kind, tos in ((UDP, 0xB9), (TCP, 0xB1)):
            found = [each[IP].tos for each in came(played, "h2") if kind in each]
            expect(found == [tos], f"{kind.__name__}: tos {[hex(each) for each in found]}")

    return verdict


# ---------------------------------------------------------------- source_routing

_ROUTES = (((2, 3, 2, 2, 1), 59), ((2, 1), 62), ((3, 3, 1), 61))


def _routes(hosts: Hosts) -> Script:
    frames = []
    for ports, _ in _ROUTES:
        packet = hosts.udp("h1", "h2", bytes(ports))
        head = bytes(Ether(src=hosts.mac("h1"), dst=BROADCAST, type=SOURCE_ROUTE))
        labels = b"".join(
            struct.pack(">H", port | (1 << 15 if i == len(ports) - 1 else 0))
            for i, port in enumerate(ports)
        )
        frames.append(("h1", head + labels + bytes(packet[IP])))
    return Script(_one_by_one(frames), _listen(hosts, IPV4))


def _arrived_by_route(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        got = [each for each in came(played, "h2") if UDP in each and each[UDP].dport == 4321]
        found = {tuple(each[Raw].load): each[IP].ttl for each in got}
        expect(found == dict(_ROUTES), f"h2 got, by route, TTL {found}")

    return verdict


# ---------------------------------------------------------------- ecn and mri: a queue

FLOOD_S, SLOW_EVERY_S = 4, 0.1
FLOOD_BPS = 1_050_000
"""Of UDP payload, as iperf -u sends without options; the link between s1 and s2 has 500 kb/s."""

_PAYLOAD = 1470


def flood(hosts: Hosts, start_ns: int, tos: int = 0) -> Send:
    """Return what h11 sends h22: more than the link carries."""
    every_ns = _PAYLOAD * 8 * S // FLOOD_BPS
    frame = bytes(hosts.udp("h11", "h22", bytes(_PAYLOAD), tos=tos))
    return Send("h11", start_ns, frame, FLOOD_S * S // every_ns, every_ns)


def _slow(hosts: Hosts, frame: bytes, lasts_s: float) -> Send:
    every_ns = int(SLOW_EVERY_S * S)
    return Send("h1", START_NS, frame, int(lasts_s * S) // every_ns, every_ns)


def _congested(hosts: Hosts, frame: bytes) -> Script:
    # The queue needs 4 x 0.27 more seconds after the flood than 2 x the flood itself.
    return Script([_slow(hosts, frame, 11), flood(hosts, START_NS + 1 * S)], {"h2": [IPV4]})


def _slow_and_flood(hosts: Hosts) -> Script:
    return _congested(hosts, bytes(hosts.udp("h1", "h2", b"P4 is cool", tos=1)))


def _marked_meanwhile(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        slow = [each for each in came(played, "h2") if UDP in each and each[UDP].dport == 4321]
        tos = [each[IP].tos for each in slow]
        expect(len(tos) == 110, f"{len(tos)} of 110 packets arrived")
        ends = tos[0], tos[-1]
        expect(ends == (1, 1) and set(tos) == {1, 3}, f"tos {set(tos)}, at the ends {ends}")

    return verdict


_MRI_OPTION = 31


def _slow_traced(hosts: Hosts) -> Script:
    packet = hosts.udp("h1", "h2", b"P4 is cool")
    option = struct.pack(">BBH", _MRI_OPTION, 4, 0)
    ip = bytearray(bytes(packet[IP]))
    ip[0] += 1
    ip[2:4] = struct.pack(">H", len(ip) + len(option))
    with_option = IP(bytes(ip[:20]) + option + bytes(ip[20:]))
    del with_option[IP].chksum
    return _congested(hosts, bytes(packet[Ether])[:14] + bytes(with_option))


def _traces(data: bytes) -> list[tuple[int, int]]:
    """Return (switch, queue depth) of each hop, the last one first, of a frame with MRI."""
    if data[12:14] != b"\x08\x00" or data[14] & 15 < 6 or data[34] & 31 != _MRI_OPTION:
        return []
    (count,) = struct.unpack_from(">H", data, 36)
    return [struct.unpack_from(">II", data, 38 + 8 * i) for i in range(count)]


def _traced(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        found = [each for _, data in played.records.get("h2", ()) if (each := _traces(data))]
        expect(len(found) == 110, f"{len(found)} of 110 packets have a trace")
        switches = {tuple(switch for switch, _ in each) for each in found}
        expect(switches == {(2, 1)}, f"switches in traces {switches}")
        depths = [each[1][1] for each in found]
        # What s1's port gains a second, less what the slow packets take of the link's time.
        expect(depths[0] == 0 and depths[-1] == 0, f"s1's queue at the ends: {depths[::40]}")
        expect(100 < max(depths) < 250, f"s1's queue had {max(depths)} packets at most")
        second = max(each[0][1] for each in found)
        expect(second < 10, f"s2's queue had {second} packets, which has no narrow link")

    return verdict


# ---------------------------------------------------------------- link_monitor

PROBE_PORTS = (4, 1, 4, 1, 3, 2, 3, 2, 1)
"""Where each switch sends the probe: h1, s1, s4, s2, h.., as the exercise's send.py has it."""


@dataclass(frozen=True)
class Hop:
    """What a switch wrote into a probe; times in microseconds."""

    switch: int
    port: int
    bytes_: int
    since_us: int
    now_us: int

    @property
    def mbps(self) -> float:
        """The port's utilisation since the probe before."""
        return 8 * self.bytes_ / (self.now_us - self.since_us)


def probe_frame(hosts: Hosts) -> bytes:
    """Return a probe that goes round all links and comes back to h1."""
    head = bytes(Ether(src=hosts.mac("h1"), dst=BROADCAST, type=PROBE))
    return head + b"\0" + bytes(PROBE_PORTS)


def hops_of(data: bytes) -> list[Hop]:
    """Return what a probe says, the first hop first."""
    found = []
    for i in range(data[14]):
        swid, port, count = struct.unpack_from(">BBI", data, 15 + 18 * i)
        times = [int.from_bytes(data[at : at + 6], "big") for at in (21 + 18 * i, 27 + 18 * i)]
        found.append(Hop(swid & 0x7F, port, count, *times))
    return found[::-1]


def load_of(hosts: Hosts, mbps: float, start_ns: int, lasts_ns: int, size: int = 1400) -> Send:
    """Return what h1 sends h4: frames of so many Mb/s, as a switch counts their bytes."""
    frame = bytes(hosts.udp("h1", "h4", bytes(size)))
    every_ns = round(len(frame) * 8 * 1000 / mbps)
    return Send("h1", start_ns, frame, lasts_ns // every_ns, every_ns)


_LOAD_MBPS = 5


def _probes_and_load(hosts: Hosts) -> Script:
    probes = Send("h1", START_NS, probe_frame(hosts), 40, 100 * MS)
    return Script([probes, load_of(hosts, _LOAD_MBPS, START_NS + 1 * S, 2 * S)], {"h1": [PROBE]})


def _utilisation(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        probes = [hops_of(d) for _, d in played.records.get("h1", ()) if d[12:14] == b"\x08\x12"]
        whole = [each for each in probes if len(each) == len(PROBE_PORTS)]
        expect(len(whole) >= 38, f"{len(whole)} of 40 probes came back with a hop for each link")
        ports = tuple(hop.port for hop in whole[0])
        expect(ports == PROBE_PORTS, f"ports {ports}")
        # s1's port 4 and what follows carry the load, the way back does not.
        for hop, carries in ((0, True), (1, True), (3, False), (6, False)):
            seen = [each[hop] for each in whole if each[hop].since_us]
            total = sum(each.bytes_ for each in seen)
            # Of bytes alone: between namespaces a frame may come into the interval after its own.
            load = _LOAD_MBPS * 2_000_000 // 8 if carries else 0
            told = f"{total} bytes by port {PROBE_PORTS[hop]} of hop {hop + 1}, not {load}"
            expect(load <= total + load // 50 and total <= load * 1.02 + 20_000, told)
            least, most = (fun(each.mbps for each in seen) for fun in (min, max))
            expect(least < 0.1, f"{least:.2f} Mb/s at the least without a load")
            expect(most > 0.8 * _LOAD_MBPS or not carries, f"{most:.2f} Mb/s at the most")

    return verdict


# ---------------------------------------------------------------- p4runtime


def _five_pings(hosts: Hosts) -> Script:
    sends = [Send("h1", START_NS + i * S // 2, hosts.ping("h1", "h2", i)) for i in range(5)]
    return Script(sends, _listen(hosts, IPV4))


def _tunnelled_both_ways(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        found = pings_answered(played, "h1", hosts.ip("h2"))
        expect(found == set(range(5)), f"{len(found)} of 5 pings answered")
        for counter in (
            "s1 MyIngress.ingressTunnelCounter 100",
            "s2 MyIngress.egressTunnelCounter 100",
            "s2 MyIngress.ingressTunnelCounter 200",
            "s1 MyIngress.egressTunnelCounter 200",
        ):
            line = f"{counter}: 5 packets"
            expect(line in played.log, f"the controller does not say '{line}'")

    return verdict


# ---------------------------------------------------------------- flowcache

_NEW_DSCP = 5


def _pings_and_a_pause(hosts: Hosts) -> Script:
    moments = (0.0, 1.0, 2.0, 12.0, 13.0, 14.0)
    sends = [
        Send("h1", START_NS + int(at * S), hosts.ping("h1", "h2", i))
        for i, at in enumerate(moments)
    ]
    return Script(sends, _listen(hosts, IPV4))


def _learnt_and_forgotten(hosts: Hosts) -> Verdict:
    def verdict(played: Played) -> None:
        found = pings_answered(played, "h1", hosts.ip("h2"))
        asked = [each for each in came(played, "h2") if ICMP in each and each[ICMP].type == 8]
        came_by = [(each[ICMP].seq, each[IP].tos >> 2) for each in asked]
        # The first one comes by a packet-out, which the program does not touch: neither its DSCP
        # nor its MAC is changed, so that nobody answers it.
        learnt = {seq: _NEW_DSCP * (seq not in (0, 3)) for seq in range(6)}
        expect(dict(came_by) == learnt, f"h2 got, by ping, DSCP {dict(came_by)}")
        expect(found == {1, 2, 4, 5}, f"pings {sorted(found)} were answered, not 1, 2, 4, 5")
        for said in (
            "Received PacketIn message",
            "added table entry to send packets to port 2",
            "MyEgress.egressPktInCounter 2: 1 packets",
            "Deleted flow_cache entry on s1",
            "MyEgress.egressPktInCounter 2: 2 packets",
        ):
            expect(said in played.log, f"the controller does not say '{said}'")

    return verdict


_POD = "pod-topo/topology.json"

CHECKS = {
    each.name: each
    for each in (
        Check("basic", "any two hosts can ping each other", _ping_all, _all_answered, _POD),
        Check("basic_tunnel", "dst_id, not the IP address, says who gets a packet",
              _tunnels, _tunnel_decides, lacks="MyIngress.myTunnel_exact"),
        Check("p4runtime", "the controller's tunnels carry pings; its counters count them",
              _five_pings, _tunnelled_both_ways,
              program="advanced_tunnel.p4", controller="mycontroller.py"),
        Check("flowcache", "the controller learns flows, forgets idle ones, learns them again",
              _pings_and_a_pause, _learnt_and_forgotten, controller="mycontroller.py",
              spoiled=("mycontroller.py", "= 3 * NSEC_PER_SEC", "= 300 * NSEC_PER_SEC")),
        Check("ecn", "tos goes from 1 to 3 while the queue is long, and back",
              _slow_and_flood, _marked_meanwhile),
        Check("mri", "each packet names switches 1 and 2, and s1's queue", _slow_traced, _traced),
        Check("source_routing", "ports 2 3 2 2 1 arrive with TTL 59, 2 1 with 62",
              _routes, _arrived_by_route),
        Check("calc", "the switch answers each sum", _calculate, _right_results),
        Check("load_balance", "flows are split over h2 and h3, each stays where it is",
              _many_flows, _both_get_some),
        Check("qos", "tos 0xb9 for UDP, 0xb1 for TCP", _two_protocols, _classes),
        Check("multicast", "a broadcast reaches all others; any two can ping",
              _ask_and_ping_all, _heard_and_answered, "sig-topo/topology.json"),
        Check("firewall", "TCP opens outwards and within; nothing else comes in",
              _connections, _only_answers_come_in, _POD, "basic.p4"),
        Check("link_monitor", "probes tell each link's utilisation",
              _probes_and_load, _utilisation, _POD),
    )
}  # fmt: skip
