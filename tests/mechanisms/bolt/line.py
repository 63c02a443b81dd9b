"""A switch that grants and notifies, and the same in Python: one port with its queue and line.

h1 (10.0.1.1) -- 1 s1 2 -- h2        frames go from h2 to h1 at times that a test says
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import topologies
from compiler import CompileResult, compile_p4
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.target_facts import TargetFacts
from mechanisms.bolt.counters import OUTCOMES
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from protocols.grants import FIRST, GRANTS_FORMAT, LAST, MORE, QUEUED
from protocols.rocev2 import Opcode
from protocols.telemetry import Telemetry, with_shim
from softswitch import Switch
from softswitch.core import CoreConfig
from topologies.model import Topology
from workloads.randomness import Random

CELL = 256
ON_LINE, LEAST_FRAME = 24, 60
PORT, FROM = 1, 2
FACTS = TargetFacts(tick_ps=1000, depth_cell_bytes=CELL, priorities=8)
ASKS, REST = 26, 0
"""DSCPs: a class whose packets ask, in queue 3, and the rest, in queue 0."""
MTU = 4200
PACKET = MTU + 14 + 24
"""A packet of the MTU on the line: a token."""
SHIM = 8
DEBT = 1 << 26
PROMISED_MOST = 256


@cache
def topology(rate: str = "100Gbps", bolt: str = "true") -> Topology:
    return topologies.loads(
        f"""
generator: single
time_scale: 1
hosts: 2
link: {{rate: {rate}, delay: 1us, queue: 8MB, mtu: {MTU}B}}
classes:
  cnp: {{dscp: 48, queue: 6}}
  roce: {{dscp: 26, queue: 3, bolt: {bolt}}}
  rest: {{queue: 0}}
""",
        name="one switch",
    )


@cache
def compiled() -> CompileResult:
    return compile_p4(FABRIC, defines=defines(topology()))


@cache
def info() -> P4Info:
    return CompiledProgram.of(compiled()).p4info


@contextmanager
def switch(fabric: Topology, facts: TargetFacts = FACTS, line_bps: int = 0) -> Iterator[Switch]:
    """Yield the switch with what the controller installs.

    `line_bps`: what its port sends with, 0 for the link's rate.
    """
    config = CoreConfig(
        cpu_port=255,
        priorities=8,
        tick_ps=facts.tick_ps,
        depth_cell_bytes=facts.depth_cell_bytes or 0,
    )
    model = FabricModel(fabric, info(), facts, FabricPolicy.of(fabric))
    json = compiled().json_text.encode()
    with Switch.from_json(json, compiled().p4info, config=config) as made:
        entries = desired_entries(model, "s1")
        made.write([each.encode(info()) for each in changes(entries, (), info())])
        rate = line_bps or fabric.link_at("s1", PORT).rate_bps
        made.configure_port(PORT, rate_bps=rate, queue_packets=0)
        yield made


class Sent(NamedTuple):
    """A frame that a test sends: when, of which class, its bytes with a shim, what it says."""

    at_ns: int
    dscp: int
    size: int
    flags: int = 0
    psn: int = 0


def frame(fabric: Topology, sent: Sent) -> bytes:
    """Return a RoCEv2 frame from h2 to h1; of the class that asks with a shim."""
    here, there = fabric.host("h2"), fabric.host("h1")
    ip = IP(src=str(here.address.ip), dst=str(there.address.ip), tos=sent.dscp << 2 | 2)
    packet = Ether(src=here.mac, dst=fabric.switch("s1").mac) / ip
    packet = packet / UDP(sport=50001, dport=4791, chksum=0)
    packet = packet / BTH(opcode=int(Opcode.SEND_ONLY), dqpn=7, psn=sent.psn)
    if sent.dscp != ASKS:
        return bytes(packet / Raw(bytes(sent.size - len(packet))))
    whole = bytes(packet / Raw(bytes(sent.size - SHIM - len(packet))))
    return with_shim(whole, Telemetry(format=GRANTS_FORMAT, data=bytes([sent.flags, 0, 0, 0])))


def random_frames(seed: int, count: int, start_ns: int, gap_ps: int) -> list[Sent]:
    """Frames of both classes in bursts and alone, `gap_ps` apart on average."""
    random, at, found = Random(seed, "frames"), start_ns * 1000, []
    says = (MORE, MORE, MORE, MORE, LAST, LAST | FIRST, FIRST, QUEUED, MORE | QUEUED, 0)
    for psn in range(count):
        at += random.below(gap_ps // 2) if random.below(8) else random.below(14 * gap_ps)
        dscp = REST if random.below(6) == 0 else ASKS
        flags = says[random.below(len(says))]
        found.append(Sent(at // 1000, dscp, 110 + random.below(4000), flags, psn))
    return found


def line_bytes(length: int) -> int:
    return max(length, LEAST_FRAME) + ON_LINE


@dataclass
class Model:
    """The paper's algorithm 1 on one port, and the port's queues, with fractions.

    `answers`: by PSN, the flags that a packet leaves with, and how long its source is told that
    the queue takes to drain (ns), None if it is not told.
    """

    rate_bps: int
    threshold: int = MTU
    answers: dict[int, tuple[int, Fraction | None]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    _supply: Fraction | None = None
    _supply_at: int = 0
    _promised: int = 0
    _came: int = 0
    _left: tuple[int, int] = (0, 0)
    _free: Fraction = Fraction(0)
    _waiting: dict[int, list[Sent]] = field(default_factory=lambda: {ASKS: [], REST: []})

    def _leave(self, until_ps: int) -> None:
        """Let frames leave whose turn comes before a time, of strict priority."""
        byte_ps = Fraction(8 * 10**12, self.rate_bps)
        while any(self._waiting.values()) and self._free <= until_ps:
            queue = ASKS if self._waiting[ASKS] else REST
            gone = self._waiting[queue].pop(0)
            if queue == ASKS:
                depth = sum(-(-each.size // CELL) * CELL for each in self._waiting[ASKS])
                self._left = (self._came, depth)
            self._free += line_bytes(gone.size) * byte_ps

    def come(self, sent: Sent) -> None:
        """Take a frame as it comes."""
        now_ps = sent.at_ns * 1000
        self._leave(now_ps)
        token, size = Fraction(PACKET), line_bytes(sent.size)
        passed = sent.at_ns - self._supply_at
        supply = token if self._supply is None else self._supply
        supply += Fraction(passed * self.rate_bps, 8 * 10**9) - size
        self._supply = max(min(supply, token), Fraction(-DEBT))
        self._supply_at = sent.at_ns
        if sent.dscp == ASKS:
            queue = self._came - self._left[0] + self._left[1]
            self._came += size
            self._decide(sent, queue)
        self._waiting[sent.dscp].append(sent)
        self._free = max(self._free, Fraction(now_ps))
        self._leave(now_ps)

    def _decide(self, sent: Sent, queue: int) -> None:
        flags, drains, outcome = sent.flags, None, "silent"
        assert self._supply is not None
        if queue >= self.threshold:
            outcome = "queued" if flags & QUEUED else "notified"
            drains = None if flags & QUEUED else Fraction(8 * 10**9 * queue, self.rate_bps)
            flags = flags & ~MORE | QUEUED
        elif flags & LAST and not flags & FIRST:
            self._promised = min(self._promised + 1, PROMISED_MOST)
            outcome = "promised"
        elif flags & MORE and not flags & LAST:
            if self._promised:
                self._promised -= 1
                outcome = "taken"
            elif self._supply >= PACKET:
                self._supply -= PACKET
                outcome = "granted"
            else:
                flags &= ~MORE
                outcome = "refused"
        self.answers[sent.psn] = flags, drains
        self.outcomes[outcome] += 1


def passed(
    made: Switch, fabric: Topology, frames: Iterable[Sent]
) -> tuple[list[bytes], list[bytes]]:
    """Send frames; return what leaves to h1 and what to h2, each in order."""
    found = []
    for each in frames:
        found += made.run_until(each.at_ns)
        made.inject(FROM, frame(fabric, each), at_ns=each.at_ns)
    found += made.run_until(made.now_ns + 10**9)
    there = [bytes(output.packet) for output in found if output.port == PORT]
    return there, [bytes(output.packet) for output in found if output.port == FROM]


def counted(made: Switch, port: int = PORT) -> Counter[str]:
    """Return the switch's counter of a port by outcome, without zeros."""
    cells = {name: made.counter_read("bolt", port << 3 | n)[0] for n, name in enumerate(OUTCOMES)}
    return Counter({name: packets for name, packets in cells.items() if packets})
