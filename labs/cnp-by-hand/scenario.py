"""What the graders' switch is sent, and what it must do: one burst of packets into a slow port.

All packets arrive at once, so the first leaves at once and each next one leaves when the port has
sent the one before. How long the queue is when a packet leaves, and when that is, follows from the
lengths alone: nothing here asks the program that is graded, or any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from protocols.rocev2 import Opcode, icrc
from softswitch import Output, Switch
from softswitch.core import CoreStats

from .cnp import checksum
from .control_plane import CELL_BYTES, RECIRCULATION_PORT, Connection, Host, Setup

SLOW_BPS = 1_000_000_000
ON_THE_WIRE = 24
LEAST_ON_THE_WIRE = 84
START_NS = 1_000_000
"""Long after the switch began: a register that was never written says 0."""

_OPCODES = (Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_ONLY, Opcode.WRITE_MIDDLE)


@dataclass(frozen=True)
class Sent:
    """A packet of a scenario. `flow`: None if nobody may be told of it."""

    port: int
    frame: bytes
    flow: Connection | None


@dataclass(frozen=True)
class Waited:
    """What becomes of a packet at the slow port: when it leaves the queue, and what stays there."""

    sent: Sent
    at_ns: float
    cells: int


def data(random: Random, flow: Connection, router_mac: int, payload: int) -> bytes:
    """Draw a data packet of a flow; no field has by chance what a CNP needs there."""
    bth = BTH(
        opcode=random.choice(_OPCODES),
        solicited=1,
        migreq=1,
        padcount=random.randrange(1, 4),
        version=random.randrange(1, 16),
        pkey=random.randrange(0xFFFF),
        fecn=1,
        becn=0,
        resv6=random.randrange(1, 64),
        dqpn=flow.sink_qp,
        ackreq=1,
        resv7=random.randrange(1, 128),
        psn=random.randrange(1, 1 << 24),
        icrc=0,
    )
    inner = bytes(bth)[:12] + random.randbytes(payload)
    return bytes(_udp(random, flow, router_mac) / Raw(inner + random.randbytes(4)))


def _udp(random: Random, flow: Connection, router_mac: int, dport: int = 4791) -> Packet:
    ip = IP(
        src=_ip(flow.source.ip),
        dst=_ip(flow.sink.ip),
        tos=random.randrange(1, 48) << 2 | random.choice((1, 2)),
        id=random.randrange(1, 1 << 16),
        ttl=random.randrange(70, 250),
    )
    udp = UDP(sport=flow.udp_port, dport=dport, chksum=random.randrange(1, 1 << 16))
    return Ether(dst=_mac(router_mac), src=_mac(flow.source.mac)) / ip / udp


def cnp(random: Random, flow: Connection, router_mac: int) -> bytes:
    """Draw a CNP on a flow's way, such as one that another switch has sent."""
    bth = BTH(opcode=int(Opcode.CNP), becn=1, pkey=0xFFFF, dqpn=flow.sink_qp, icrc=0)
    packet = _udp(random, flow, router_mac) / Raw(bytes(bth)[:12] + bytes(20))
    frame = bytes(packet)
    return frame[:-4] + icrc(frame).to_bytes(4, "little")


def other_udp(random: Random, flow: Connection, router_mac: int, payload: int) -> bytes:
    """Draw a packet that is data but for its UDP port: no RoCE."""
    frame = data(random, flow, router_mac, payload)
    return frame[:36] + random.choice((4790, 4792, 53)).to_bytes(2) + frame[38:]


def routed(frame: bytes, router_mac: int, to: Host) -> bytes:
    """Return a frame as it leaves the switch: MAC addresses, TTL, IPv4 checksum."""
    ip = bytearray(frame[14:34])
    ip[8] -= 1
    ip[10:12] = bytes(2)
    ip[10:12] = checksum(bytes(ip)).to_bytes(2)
    return to.mac.to_bytes(6) + router_mac.to_bytes(6) + frame[12:14] + bytes(ip) + frame[34:]


def queue_of(burst: Sequence[Sent], rate_bps: int = SLOW_BPS) -> list[Waited]:
    """Say when each packet of a burst leaves the queue, and how many cells stay behind it."""
    cells = [-(-len(sent.frame) // CELL_BYTES) for sent in burst]
    found, at_ns = [], float(START_NS)
    for number, sent in enumerate(burst):
        # The first one finds the port idle: nothing has come behind it yet.
        behind = sum(cells[number + 1 :]) if number else 0
        found.append(Waited(sent, at_ns, behind))
        bits = 8 * max(len(sent.frame) + ON_THE_WIRE, LEAST_ON_THE_WIRE)
        at_ns += bits * 1e9 / rate_bps
    return found


@dataclass(frozen=True)
class Seen:
    """What came of a burst: all that left, and the switch's own counters, at two times."""

    setup: Setup
    sink: Host
    burst: tuple[Sent, ...]
    outputs: tuple[Output, ...]
    settled: CoreStats
    later: CoreStats

    @cached_property
    def queue(self) -> list[Waited]:
        """What each packet met."""
        return queue_of(self.burst)

    @cached_property
    def originals(self) -> list[bytes]:
        """What must come out at the slow port, and nothing else."""
        mac = self.setup.router_mac
        return [routed(sent.frame, mac, self.sink) for sent in self.burst]

    @cached_property
    def missing(self) -> list[bytes]:
        """The originals that did not come."""
        came = Counter(o.packet for o in self.outputs if o.port == self.sink.port)
        return list((Counter(self.originals) - came).elements())

    @cached_property
    def changed(self) -> list[tuple[bytes, Output]]:
        """Of these, those of whose flow something else came out instead."""
        return self._sorted[0]

    @cached_property
    def stranded(self) -> list[Output]:
        """What left by the clone session's port, which has no link."""
        return [output for output in self.outputs if output.port == RECIRCULATION_PORT]

    @property
    def made(self) -> list[Output]:
        """What the switch made itself: all that is no original, nor one that was changed."""
        return self._sorted[1]

    @cached_property
    def _sorted(self) -> tuple[list[tuple[bytes, Output]], list[Output]]:
        left, missing = Counter(self.originals), list(self.missing)
        changed, made = [], []
        for output in self.outputs:
            if output.port == RECIRCULATION_PORT:
                continue
            if output.port != self.sink.port:
                made.append(output)
            elif left[output.packet]:
                left[output.packet] -= 1
            else:
                flow = output.packet[34:36]
                of_flow = [each for each in missing if each[34:36] == flow]
                if of_flow:
                    missing.remove(of_flow[0])
                    changed.append((of_flow[0], output))
                else:
                    made.append(output)
        return changed, made

    @cached_property
    def told(self) -> list[Output]:
        """What the switch made and sent to the first source."""
        return [output for output in self.made if output.port == self.setup.sources[0].port]

    def of(self, flow: Connection) -> list[Output]:
        """Return the notifications with a flow's UDP source port."""
        port = flow.udp_port.to_bytes(2)
        return [output for output in self.told if output.packet[34:36] == port]

    @property
    def goes_on(self) -> bool:
        """Say whether packets still go round in the switch when all must be over."""
        before, after = self.settled, self.later
        return after.recirculated + after.cloned > before.recirculated + before.cloned


def play(switch: Switch, setup: Setup, burst: Sequence[Sent], sink: Host) -> Seen:
    """Send a burst into the slow port of `sink` and run until all is over."""
    switch.configure_port(sink.port, rate_bps=SLOW_BPS, queue_packets=4 * len(burst))
    for sent in burst:
        switch.inject(sent.port, sent.frame, START_NS)
    quiet_ns = int(queue_of(burst)[-1].at_ns) + 100_000
    outputs = switch.run_until(quiet_ns)
    settled = switch.switch_stats()
    outputs += switch.run_until(quiet_ns + 200_000)
    return Seen(setup, sink, tuple(burst), tuple(outputs), settled, switch.switch_stats())


def _mac(value: int) -> str:
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6))


def _ip(value: int) -> str:
    return ".".join(str(byte) for byte in value.to_bytes(4))
