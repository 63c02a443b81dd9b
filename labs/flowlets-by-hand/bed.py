"""The learner's leaf in virtual time, and the way that each packet takes through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from random import Random

from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.pipeline import Pipeline

from .control_plane import Group, Hop, Leaf, rows, updates
from .flows import MAIN, Flow, Packet, Sender, serial

TICK_NS = 1
CLOCK = 1 << 48
"""Ticks after which the switch's clock begins anew."""
SLOW, SPRAY = 2, 3
"""The groups beside MAIN, by which only what is about groups is sent."""
WAYS = 4

Route = int | str
"""A packet's way, or in words what else became of it."""


@dataclass(frozen=True)
class Left:
    """A packet that left the switch."""

    port: int
    frame: bytes


class Bed(Sender):
    """A leaf that has just started, with its entries; time counts in ticks of its clock."""

    def __init__(self, pipeline: Pipeline, random: Random) -> None:
        """Draw who is where. Raises UnknownName, WriteError if the program lacks a table."""
        super().__init__(_leaf(random), random)
        self.gap = self.leaf.groups[0].gap
        self.switch = Switch(
            CoreConfig(
                tick_ps=TICK_NS * 1000, queue_packets=1 << 16, seed=random.randrange(1, 1 << 31)
            )
        )
        self.switch.load(pipeline)
        self.switch.write(updates(self.switch.names, (), rows(self.leaf)))

    # --- what comes of it ---------------------------------------------------------------------

    def send(self, packets: Sequence[Packet]) -> list[list[Left]]:
        """Send packets, the later ones behind; return what left because of each."""
        for each in packets:
            self.switch.inject(each.port, each.frame, each.at * TICK_NS)
        end = max((each.at for each in packets), default=0) * TICK_NS
        left: dict[bytes, list[Left]] = {}
        for output in self.switch.run_until(max(end, self.switch.now_ns)):
            left.setdefault(serial(output.packet), []).append(Left(output.port, output.packet))
        return [left.get(serial(each.frame), []) for each in packets]

    def routes(self, sent: Iterable[tuple[int, Flow]], group: int = MAIN) -> list[Route]:
        """Send packets of flows at their times, whatever their order; return the way of each."""
        listed = list(sent)
        order = sorted(range(len(listed)), key=lambda n: listed[n][0])
        left = self.send([self.packet(listed[n][1], listed[n][0]) for n in order])
        found = dict(zip(order, (self.route(each, group) for each in left), strict=True))
        return [found[n] for n in range(len(listed))]

    @property
    def now(self) -> int:
        """Where the clock is, in ticks since the start."""
        return self.switch.now_ns // TICK_NS

    @cached_property
    def paused(self) -> Flow:
        """A flow of its own, the same each time."""
        return self.flow()

    @staticmethod
    def words(left: Sequence[Left]) -> str:
        """Say by which ports something left."""
        return ", ".join(f"a packet by port {each.port}" for each in left) or "nothing"

    def route(self, left: Sequence[Left], group: int = MAIN) -> Route:
        """Say which way of a group a packet took; in words, if it is none."""
        if len(left) != 1:
            return f"{len(left)} packets" if left else "nothing"
        ways = [hop.port for hop in self.leaf.group(group).ways]
        port = left[0].port
        return ways.index(port) if port in ways else f"port {port}"

    def take_down(self, *ways: int) -> None:
        """Let the control plane write that just these ways of the first group are down."""
        after = self.leaf.without(MAIN, *ways)
        self.switch.write(updates(self.switch.names, rows(self.leaf), rows(after)))
        self.leaf = after

    def close(self) -> None:
        """Free the switch."""
        self.switch.close()


def _leaf(random: Random) -> Leaf:
    """Draw a leaf of two hosts and three groups: the first has four ways, the others two each."""
    ports = random.sample(range(1, 200), 10)
    macs = [0x0200 << 32 | each for each in random.sample(range(1, 1 << 32), 11)]
    hops = [Hop(port, mac) for port, mac in zip(ports, macs, strict=False)]
    nets = random.sample(range(1, 255), 4)
    here = 10 << 24 | nets[0] << 16
    hosts = tuple(
        (here | host, hop)
        for host, hop in zip(random.sample(range(1, 1 << 16), 2), hops[:2], strict=True)
    )
    gap = random.randrange(500, 5000)
    ways = {MAIN: hops[2:6], SLOW: hops[6:8], SPRAY: hops[8:10]}
    gaps = {MAIN: gap, SLOW: 8 * gap, SPRAY: 0}
    groups = tuple(
        Group(number, gaps[number], tuple(ways[number]), ((10 << 24 | net << 16, 16),))
        for number, net in zip(ways, nets[1:], strict=True)
    )
    return Leaf(macs[10], hosts, groups)


@contextmanager
def started(pipeline: Pipeline, random: Random) -> Iterator[Bed]:
    """Give a bed, and free it afterwards."""
    bed = Bed(pipeline, random)
    try:
        yield bed
    finally:
        bed.close()
