"""A switch that writes path telemetry, and the same in Python: one port with its queues and line.

h1 (10.0.1.1) -- 1 s1 2 -- h2        frames go from h2 to h1 at times that a test says
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from mechanisms.path_telemetry.entries import measured_use
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from protocols.rocev2 import Opcode
from protocols.telemetry import Telemetry, with_shim
from softswitch import Switch
from softswitch.core import CoreConfig
from topologies.model import Topology
from workloads.randomness import Random

CELL = 256
ON_LINE, LEAST_FRAME = 24, 60
PORT = 1
ROUND_TRIP_PS = 12_000_000
FACTS = TargetFacts(tick_ps=1000, depth_cell_bytes=CELL, priorities=8)
QUEUES = {26: 3, 28: 4, 0: 0}
"""By DSCP: a class whose packets collect hops, one of the most used line, one of nothing."""
HOPS, MOST_USED, REST = QUEUES


@cache
def topology(rate: str = "100Gbps") -> Topology:
    return topologies.loads(
        f"""
generator: single
time_scale: 1
hosts: 2
link: {{rate: {rate}, delay: 1us, queue: 8MB, mtu: 4200B}}
classes:
  hops: {{dscp: 26, queue: 3, path_telemetry: hops}}
  used: {{dscp: 28, queue: 4, path_telemetry: {{format: most-used, round_trip: 12us}}}}
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
def switch(fabric: Topology, facts: TargetFacts = FACTS, limited: bool = True) -> Iterator[Switch]:
    """Yield the switch with what the controller installs.

    `limited`: its port has the link's rate.
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
        rate = fabric.link_at("s1", PORT).rate_bps if limited else 0
        made.configure_port(PORT, rate_bps=rate, queue_packets=0)
        yield made


def frame(fabric: Topology, dscp: int, size: int, shim: Telemetry | None = None) -> bytes:
    """Return a RoCEv2 frame of `size` bytes, and with a shim so many more."""
    here, there = fabric.host("h2"), fabric.host("h1")
    ip = IP(src=str(here.address.ip), dst=str(there.address.ip), tos=dscp << 2 | 2)
    packet = Ether(src=here.mac, dst=fabric.switch("s1").mac) / ip
    packet = packet / UDP(sport=50001, dport=4791, chksum=0)
    packet = packet / BTH(opcode=int(Opcode.SEND_ONLY), dqpn=7)
    whole = bytes(packet / Raw(bytes(size - len(packet))))
    return whole if shim is None else with_shim(whole, shim)


class Sent(NamedTuple):
    """A frame that a test sends: when, of which class, its bytes without a shim."""

    at_ns: int
    dscp: int
    size: int


class Left(NamedTuple):
    """What should be of a frame when it leaves: its time, what has been sent, what waits."""

    frame: Sent
    at_ps: int
    sent: int
    queue: int


def random_frames(seed: int, count: int, start_ns: int, gap_ps: int) -> list[Sent]:
    """Frames of all classes in bursts and alone, `gap_ps` apart on average."""
    random, at, found = Random(seed, "frames"), start_ns * 1000, []
    for _ in range(count):
        at += random.below(gap_ps // 2) if random.below(8) else random.below(14 * gap_ps)
        dscp = (HOPS, HOPS, MOST_USED, MOST_USED, REST)[random.below(5)]
        found.append(Sent(at // 1000, dscp, 100 + random.below(4000)))
    return found


def line_bytes(length: int) -> int:
    return max(length, LEAST_FRAME) + ON_LINE


def by_hand(frames: Sequence[Sent], rate_bps: int, sent: int = 0) -> list[Left]:
    """Return what leaves a port of strict queues, in order. All frames have an empty shim."""
    byte_ps = Fraction(8 * 10**12, rate_bps)
    waiting: dict[int, list[Sent]] = {queue: [] for queue in QUEUES.values()}
    ahead, free, found = list(frames), Fraction(0), []
    while ahead or any(waiting.values()):
        if not any(waiting.values()):
            free = max(free, Fraction(ahead[0].at_ns * 1000))
        while ahead and ahead[0].at_ns * 1000 <= free:
            waiting[QUEUES[ahead[0].dscp]].append(ahead.pop(0))
        queue = max(number for number, held in waiting.items() if held)
        gone = waiting[queue].pop(0)
        length = gone.size + 4
        depth = sum(-(-(each.size + 4) // CELL) * CELL for each in waiting[queue])
        length += {HOPS: 12, MOST_USED: 4, REST: 0}[gone.dscp]
        sent += line_bytes(length)
        found.append(Left(gone, int(free), sent, depth))
        free += line_bytes(length) * byte_ps
    return found


def passed(made: Switch, fabric: Topology, frames: Iterable[Sent]) -> list[bytes]:
    """Send frames with an empty shim each; return them as they leave, in order."""
    found = []
    for each in frames:
        found += made.run_until(each.at_ns)
        made.inject(2, frame(fabric, each.dscp, each.size, Telemetry()), at_ns=each.at_ns)
    found += made.run_until(made.now_ns + 10**9)
    assert all(output.port == PORT for output in found)
    return [bytes(output.packet) for output in found]


# --- how much the line is used --------------------------------------------------------------------

ONE, LESS_THAN_EIGHT = 1 << 28, (1 << 31) - 1


@dataclass
class Use:
    """U of a port as P4 reckons it, to the bit, and beside it with fractions."""

    rate_bps: int
    facts: TargetFacts = FACTS
    used: int = 0
    exact: Fraction = Fraction(0)
    at: int = 0
    sent: int = 0
    queue: int = 0

    def __post_init__(self) -> None:
        numbers = dict(measured_use(self.rate_bps, ROUND_TRIP_PS, self.facts).arguments)
        self._trip, self._step = numbers["round_trip"], numbers["step"]
        self._per_tick, self._per_byte = numbers["per_tick"], numbers["per_byte"]
        self._most = numbers["most"]
        seconds = Fraction(self._trip * self.facts.tick_ps, 10**12 * self.facts.time_scale)
        self._bytes_of_trip = self.rate_bps * seconds / 8

    def left(self, ticks: int, sent: int, queue: int | None) -> None:
        """Count a frame that leaves.

        `queue`: what waits in a counted queue, None if it is in no such.
        """
        d = ticks - self.at
        if d < self._step:
            return
        self.queue = min(self.queue if queue is None else queue, self._most)
        came = min(sent - self.sent, self._most)
        d = min(d, self._trip)
        part = d * self._per_tick >> 28
        products = (
            d * self._per_tick,
            self.used * (ONE - part) + (self.queue * self._per_byte >> 28) * part,
            came * self._per_byte,
        )
        assert all(0 <= each < 1 << 64 for each in products)
        used = (products[1] >> 28) + (products[2] >> 28)
        self.used = min(used, LESS_THAN_EIGHT)
        share = Fraction(d, self._trip)
        self.exact = (1 - share) * self.exact + (share * self.queue + came) / self._bytes_of_trip
        self.exact = min(self.exact, Fraction(8))
        self.at, self.sent = ticks, sent
