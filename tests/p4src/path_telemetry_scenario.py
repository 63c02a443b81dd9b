"""Packets that collect, whatever the time is, so that all switches can be compared on them.

    port 2  10.0.1.0/24, hop 7          port 3  10.0.2.0/24, hop 40000
    port 4  10.0.3.0/24: no entry, nothing is written

    sudo .venv/bin/python -m tests.p4src.path_telemetry_scenario     records BMv2 and p4c

A tick is no time, so `at` is 0; a round trip is one tick, which lies between any two packets, so
that of U always the same part remains. Nothing waits. Class 0 of port 2 writes hops, of port 3 the
path's use, so that a packet's destination says what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from compat.parity import cases
from compat.parity.cases import Json, Round
from protocols.path_telemetry import PathHop, PathUse
from protocols.rocev2 import RETH, Opcode
from protocols.telemetry import Telemetry, with_shim
from tests.p4src.fast_cnp_scenario import ROOT, default, entry, ip, record

PROGRAM = ROOT / "p4src" / "fabric.p4"
RECORDED = ROOT / "tests" / "golden" / "path_telemetry.vectors.json"
ROUTER_MAC = "02:00:00:00:00:99"
HOPS_TO, USE_TO, NOTHING_TO = "10.0.1.2", "10.0.2.2", "10.0.3.2"
HOP, FAR_HOP = 7, 40000
RATE = 0x5ABC
ONE = 1 << 28
PER_TICK = (1 << 56) // 4
PER_BYTE = (1 << 56) // 200
MOST = 1600
LINE = 24


@dataclass(frozen=True)
class Case:
    """A packet, and the words that it has when it leaves; None: it leaves as it came."""

    name: str
    packet: bytes
    words: bytes | None = None
    hops: int = 0


def setup() -> tuple[Json, ...]:
    """Routes, and what the controller would have written but for time."""
    mac = int(ROUTER_MAC.replace(":", ""), 16)
    found = [default("router", "set_router_mac", mac=mac)]
    for number, port in ((1, 2), (2, 3), (3, 4)):
        match = {"lpm": [ip(f"10.0.{number}.0"), 24]}
        found.append(entry("ipv4_route", "route_to", {"next_hop": port}, dst=match))
        macs = {"src_mac": "0x020000000099", "dst_mac": f"0x02000000000{port}"}
        found.append(entry("next_hop", "forward_to", {"port": port, **macs}, next_hop=port))
    hop = {"hop": HOP, "rate": RATE, "ns_per_tick": 0, "depth_unit": 256}
    use = {"hop": FAR_HOP, "depth_unit": 256}
    measured: dict[str, Any] = {"round_trip": 1, "step": 0, "per_tick": PER_TICK}
    measured |= {"per_byte": PER_BYTE, "most": MOST}
    at: dict[str, Any] = {"class": 0}
    return (
        *found,
        entry("path_port", "write_hop", hop, port=2, **at),
        entry("path_port", "write_use", use, port=3, **at),
        entry("path_use", "measure_use", measured, port=3),
    )


def data(dst: str, size: int = 300, opcode: Opcode = Opcode.SEND_MIDDLE, *more: Any) -> bytes:
    packet = Ether(src="02:00:00:00:00:77", dst=ROUTER_MAC)
    packet /= IP(src="10.0.9.1", dst=dst, tos=2, id=9, flags="DF", ttl=64)
    packet /= UDP(sport=50001, dport=4791, chksum=0) / BTH(opcode=int(opcode), dqpn=5, psn=7)
    for each in more:
        packet /= each
    return bytes(packet / Raw(bytes(size - len(packet))))


class Line:
    """What ports count, as the packets come."""

    def __init__(self) -> None:
        self.sent = dict.fromkeys((HOPS_TO, USE_TO, NOTHING_TO), 0)
        self.used, self.used_sent = 0, 0

    def carries(self, dst: str, length: int) -> None:
        self.sent[dst] += max(length, 60) + LINE
        if dst == USE_TO:
            part = PER_TICK >> 28
            came = min(self.sent[dst] - self.used_sent, MOST)
            self.used = (self.used * (ONE - part) >> 28) + (came * PER_BYTE >> 28)
            self.used = min(self.used, 8 * ONE - 1)
            self.used_sent = self.sent[dst]


def scenario() -> Iterator[Case]:
    """All cases, in order: ports remember the ones before."""
    line = Line()

    def left_alone(name: str, dst: str, packet: bytes) -> Case:
        line.carries(dst, len(packet))
        return Case(name, packet)

    def hop(name: str, packet: bytes, before: bytes = b"", hops: int = 0) -> Case:
        shim = Telemetry(hops=hops, format=1 if hops else 0, data=before)
        whole = with_shim(packet, shim)
        line.carries(HOPS_TO, len(whole) + 12)
        sent = line.sent[HOPS_TO] // 64
        words = bytes(PathHop(hop=HOP, rate=RATE, at=0, sent=sent, queue=0))
        return Case(name, whole, words + before, hops + 1)

    def use(name: str, packet: bytes, before: PathUse | None = None, hops: int = 0) -> Case:
        old = b"" if before is None else bytes(before)
        whole = with_shim(packet, Telemetry(hops=hops, format=2 if hops else 0, data=old))
        line.carries(USE_TO, len(whole) + 4 - len(old))
        path = before.path if before else 0
        most = max(before.used if before else 0, line.used >> 15)
        rotated = (path << 1 | path >> 15) & 0xFFFF
        return Case(name, whole, bytes(PathUse(path=rotated ^ FAR_HOP, used=most)), hops + 1)

    reth = RETH(address=1, rkey=2, length=3)
    yield hop("first-hop", data(HOPS_TO))
    yield hop("write-with-reth", data(HOPS_TO, 400, Opcode.WRITE_FIRST, reth))
    yield hop("payload-of-4096", data(HOPS_TO, 4154))
    for hops in (1, 4, 6, 20):
        before = bytes(n % 251 for n in range(12 * hops))
        yield hop(f"behind-{hops}", data(HOPS_TO, 200 + hops), before, hops)
    yield left_alone("no-shim", HOPS_TO, data(HOPS_TO))
    yield left_alone("short-frame", HOPS_TO, data(HOPS_TO, 58))
    ack = data(HOPS_TO, 62, Opcode.ACK, AETH(msn=5))
    returned = with_shim(ack, Telemetry(kind=1, hops=1, format=1, data=bytes(12)))
    yield left_alone("returned", HOPS_TO, returned)
    other = with_shim(data(HOPS_TO), Telemetry(hops=1, format=2, data=bytes(4)))
    yield left_alone("another-format", HOPS_TO, other)
    long = with_shim(data(HOPS_TO), Telemetry(hops=9, format=1, data=bytes(256)))
    yield left_alone("more-than-a-switch-reads", HOPS_TO, long)
    yield hop("after-all-of-these", data(HOPS_TO))

    yield use("first-of-a-path", data(USE_TO))
    for n, size in enumerate((100, 60, 420, 90, 420)):
        yield use(f"line-{n}", data(USE_TO, size))
    yield use("a-line-before-is-used-less", data(USE_TO), PathUse(path=0x8123, used=1), 1)
    yield use("a-line-before-is-used-more", data(USE_TO), PathUse(path=0xFFFF, used=0xFFFE), 3)
    yield left_alone("no-shim-here-either", USE_TO, data(USE_TO))
    hops_here = with_shim(data(USE_TO), Telemetry(hops=1, format=1, data=bytes(12)))
    yield left_alone("hops-where-use-is-written", USE_TO, hops_here)
    two = with_shim(data(USE_TO), Telemetry(hops=1, format=2, data=bytes(8)))
    yield left_alone("two-words", USE_TO, two)
    for n in range(16):
        yield use(f"to-the-most-{n}", data(USE_TO, 420))
    shimmed = with_shim(data(NOTHING_TO), Telemetry())
    yield left_alone("a-port-without-entry", NOTHING_TO, shimmed)


def recorded_round() -> Round:
    """Return the scenario as parity runs have it."""
    return Round(setup(), tuple(cases.Packet(1, case.packet) for case in scenario()))


def main() -> None:
    """Write what BMv2 answers with p4c's program to tests/golden. Root."""
    note = "written by tests/p4src/path_telemetry_scenario.py, which says what each case is about"
    record(RECORDED, note, PROGRAM, (case.name for case in scenario()), recorded_round())


if __name__ == "__main__":
    main()
