"""One switch with three hosts and a slow port, to see which fast CNPs it sends.

h1 -- 1 +----+ 2 -- slow -- h2        one packet takes 1 ms on the slow port, so that a burst
h3 -- 3 | s1 |                        from port 1 leaves it packet by packet, each behind fewer
        +----+
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Exact,
    TableEntry,
    call,
    match,
)
from protocols.notification import Notification, notification_of
from protocols.rocev2 import Opcode
from tests.p4src.conftest import Bench, Program, bench_of
from tests.p4src.fast_cnp_rule import said
from topologies import Topology

MS = 1_000_000
US = 1000
SPOOFED = 11
SENT, INTERVAL, ALREADY_TOLD, PORT_LIMIT, COLLISION, NOBODY, UNKNOWN_QP, AMBIGUOUS_QP = range(8)
PAYLOAD = 1000
PACKET_BYTES = 14 + 20 + 8 + 12 + PAYLOAD + 4
SLOW_BPS = (PACKET_BYTES + 24) * 8 * 1000  # a packet a millisecond
TOLD = 1
FILL_QP = 5
CAPABLE, CONGESTED = 2, 3
SWITCH_ID = 513

THREE_HOSTS = """
time_scale: 1
switches: [s1]
hosts: [h1, h2, h3]
link: {rate: 100Gbps, delay: 0us, queue: 64MB}
links: [{a: h1, b: "s1:1"}, {a: h2, b: "s1:2"}, {a: h3, b: "s1:3"}]
"""


def leaf_of(program: Program, topology: Topology, policy: Any) -> Iterator[Bench]:
    """Return the one switch of three hosts, whose port 2 is slow, with fast CNPs on."""
    bench = bench_of(program, "s1", topology, policy)
    bench.switch.configure_port(2, rate_bps=SLOW_BPS, queue_packets=1000)
    bench.install(
        CloneSession(510, ((510, 1),), 7),
        DefaultEntry("fast_cnp_mode", call("enable_fast_cnp", dscp=48, switch_id=SWITCH_ID)),
    )
    yield bench
    bench.switch.close()


MOST = 100 * 10**9
STEP = {
    "drain": 0, "window": 0, "window_loop": 0, "unit": 1 << 40, "share": 1 << 16,
    "packets": 0, "line": 0, "speed": 0, "most": MOST, "least": MOST - 1,
}  # fmt: skip
SAID = said(MOST - 1)


def asked(numbers: dict[str, int], gap: int = 1, burst: int = 1000) -> dict[str, int]:
    """Return the settings of a queue with these numbers."""
    speed, unit = numbers["speed"], numbers["unit"]
    time = numbers["packets"] * speed
    return {"unit": unit, "speed": speed, "burst_time": time, "gap": gap, "burst": burst}


def watch(leaf: Bench, low: int = 4, gap: int = 1, burst: int = 1000, **changed: int) -> None:
    """Notify sources while more than `low` packets wait, of the rate just below the most."""
    unit = PACKET_BYTES + 24
    target = low * unit + unit // 2
    numbers = {**STEP, "wanted_depth": target, "burst_depth": target, "depth_unit": unit, **changed}
    key = match(**{"port": Exact(2), "class": Exact(0)})
    leaf.install(TableEntry("fast_cnp_queue", key, call("watch_queue", **numbers)))
    leaf.install(
        TableEntry("fast_cnp_claims", key, call("ask_queue", **asked(numbers, gap, burst)))
    )


def fill(leaf: Bench, count: int, **fields: Any) -> None:
    """So many packets come at once, and 1.5 ms pass.

    Two have left, and behind the second one waited all the others: by it the queue has its rate.
    """
    burst(leaf, count, qp=FILL_QP, **fields)
    leaf.settle(MS + MS // 2)


def source(leaf: Bench, host: str = "h1", *, stock: bool = False, every: int = 3000) -> None:
    """Add a source. A tick is a microsecond; `every` is in ticks."""
    key = match(source=Exact(int(leaf.host(host).address.ip)))
    action = (
        call("send_plain_cnp", every=every)
        if stock
        else call("notify_source", stands=5, every=every)
    )
    leaf.install(TableEntry("fast_cnp_source", key, action))


def stock_qp(leaf: Bench, action: ActionCall) -> None:
    key = match(destination=Exact(int(leaf.host("h2").address.ip)), qp=Exact(77))
    leaf.install(TableEntry("stock_queue_pairs", key, action))


def data(
    leaf: Bench, qp: int = 77, psn: int = 0, *, src: str = "h1", size: int = PAYLOAD, **fields: Any
) -> Packet:
    h1, h2 = leaf.host(src), leaf.host("h2")
    ip = IP(src=str(h1.address.ip), dst=str(h2.address.ip), tos=CAPABLE, id=9, flags="DF")
    bth = BTH(opcode=fields.pop("opcode", Opcode.SEND_MIDDLE), dqpn=qp, psn=psn, **fields)
    frame = Ether(src=h1.mac, dst=leaf.me.mac) / ip / UDP(sport=50001, chksum=0) / bth
    return Ether(bytes(frame / Raw(bytes(size))))


def burst(leaf: Bench, count: int, *, apart: int = 0, **fields: Any) -> None:
    """Packets come, `apart` nanoseconds from each other."""
    for psn in range(count):
        leaf.switch.inject(1, bytes(data(leaf, psn=psn, **fields)))
        if apart:
            leaf.settle(apart)


def outcomes(leaf: Bench) -> dict[int, int]:
    found = {i: leaf.switch.counter_read("fast_cnps", 2 * 8 + i)[0] for i in range(8)}
    return {i: count for i, count in found.items() if count}


def cnps(leaf: Bench, port: int = 1, ns: int = 100 * MS) -> list[Ether]:
    leaf.settle(ns)
    return [Ether(frame) for frame in leaf.take(port)]


def told(frame: Ether) -> Notification:
    return notification_of(frame[CNPPadding])


def arrived(leaf: Bench, *, filling: bool = False) -> list[Ether]:
    """Return what has come to port 2: of packets that `fill` sent, or of all others."""
    frames = [Ether(frame) for frame in leaf.take(2)]
    return [frame for frame in frames if (frame[BTH].dqpn == FILL_QP) == filling]
