"""A fabric with DPFR that runs on while links and switches fail: one simulation, many failures.

    rig = Rig(FAT_TREE)
    rig.cut(link)                    silently: frames vanish, and no port goes down
    rig.run(rig.bound_ps())
    rig.probe()                      a packet of every pair of leaves, with several UDP ports
    rig.run(rig.crossing_ps())
    arrived = rig.arrived()          which of them came, and how many switches they met

The controller hears of nothing. `tests/mechanisms/dpfr/graph.py` says who can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controller.fabric_state import FabricReady
from mechanisms import registry
from mechanisms.dpfr.counters import DPFR
from mechanisms.dpfr.settings import KEY, Dpfr
from mechanisms.dpfr.ways import FabricWays, ports_to_switches, ways_of
from protocols.notification import NotificationType
from simulator.core.binding import Stop
from simulator.runner import Simulation
from softswitch.core import Direction, PortImpair, SwitchCore
from tests.mechanisms.dpfr.cuts import FAT_TREE, LINK, program
from topologies.model import Host, Link, Topology
from workloads.loader import read_run

PORTS = 4
TTL = 6
"""Enough for five switches: leaf, aggregation, core and down again. A loop spends it."""

TTL_EXPIRED, NO_NEXT_HOP = 8, 10
FLAPS_MOST = 10
DROP_REASONS = 13
ALL_LOST = PortImpair(loss=1 << 32)
RUN = """\
topology:
  {shape}
  link: {link}
  classes: {{{classes}}}
  dpfr: {dpfr}
until: 1s
{more}
traffic:
{traffic}
"""
CLASSES = "roce: {dscp: 26, queue: 3}"
NO_TRAFFIC = "  - message: {from: h1, to: h2, bytes: 64B}"

Pair = tuple[str, str]


@dataclass(frozen=True)
class Probes:
    """What came of one round of probes, by pair of leaves: how many, and switches on their ways."""

    came: Mapping[Pair, int]
    hops: Mapping[Pair, frozenset[int]]


class Rig:
    """One running fabric. Times are virtual picoseconds from now."""

    def __init__(
        self,
        shape: str = FAT_TREE,
        *,
        link: str = LINK,
        dpfr: str = "{carrier: false}",
        ports: int = PORTS,
        seed: int = 1,
        classes: str = CLASSES,
        more: str = "",
        traffic: str = NO_TRAFFIC,
    ) -> None:
        text = RUN.format(
            shape=shape, link=link, classes=classes, dpfr=dpfr, more=more, traffic=traffic
        )
        run = read_run(text)
        self.topology: Topology = run.topology
        self.simulation = Simulation(run, program(registry.defines(run.topology)), seed=seed)
        self.fabric, self.engine = self.simulation.fabric, self.simulation.engine
        self.ways: FabricWays = ways_of(run.topology)
        setting = run.topology.setting(KEY)
        assert isinstance(setting, Dpfr)
        self.setting = setting
        self.leaves = [leaf.name for leaf in self.ways.leaves]
        self.pairs = [(a, b) for a in self.leaves for b in self.leaves if a != b]
        self.ports = ports
        self._hosts = self._one_each()
        for host in self._hosts.values():
            self.engine.tap(self.fabric.nodes[host.name], 0)
        self._frames, self._pair_of = self._probes()
        info = self.simulation.control.program.p4info
        self._info = info
        self.cut_ports: set[tuple[str, int]] = set()
        self.dead: set[str] = set()
        self._counted_before: dict[tuple[str, int], int] = {}
        self._dpfr_before: dict[str, int] = {}
        self.run(3 * setting.period_ps)

    def anew(self) -> None:
        """Mend everything, wait until nothing is held or remembered, and count from 0 again."""
        for link in self.links():
            self.heal(link)
        for switch in set(self.dead):
            self.revive(switch)
        self.rounds(2)
        self.forget_flaps()
        self.rounds(4 * self.setting.hold)
        self.settle(self.longest_hold())
        self.rounds((1 << self.setting.validity) + len(self.ways.destinations))
        self.arrived()
        self._dpfr_before = self._dpfr_counts()
        for counter, size in (("dropped", DROP_REASONS), ("notifications", 64)):
            for index in range(size):
                self._counted_before[counter, index] = self._count_of(counter, index)

    # --- time -----------------------------------------------------------------------------------

    def run(self, ps: int) -> None:
        """Let so much virtual time pass."""
        until = self.engine.now + ps
        while True:
            stop = self.engine.run(until)
            if stop is not Stop.PUNT:
                return
            self.engine.take_punts()

    def rounds(self, n: int) -> None:
        """Let so many periods of heartbeats pass."""
        self.run(n * self.setting.period_ps)

    def bound_ps(self) -> int:
        """Return after how long everything that can be reached is reached; docs/dpfr.md derives it.

        misses + 2 periods until the end that no longer hears knows; one more where the other end is
        told of it and tells others at its next tick, and for each further destination that has to
        be told of. Then news goes to the last switch, perhaps after a packet that found no way.
        """
        rounds = self.setting.misses + 2 + max(1, self.ways.longest())
        return rounds * self.setting.period_ps + 2 * self.crossing_ps()

    def crossing_ps(self) -> int:
        """Return what a small packet takes at most from one end of the fabric to the other."""
        longest = max(link.delay_ps for link in self.topology.links)
        return 6 * (longest + 1_000_000)

    # --- failures -------------------------------------------------------------------------------

    def cut(self, link: Link, *, towards: str | None = None) -> None:
        """Lose all frames of a link, or only those towards one of its ends."""
        for end in (link.a, link.b):
            if towards in (None, end.node):
                self.cut_ports.add((end.node, end.port))
                self._impair(end.node, end.port, ALL_LOST)

    def impair(self, link: Link, impair: PortImpair) -> None:
        """Let something go wrong in both directions of a link."""
        for end in (link.a, link.b):
            self._impair(end.node, end.port, impair)

    def heal(self, link: Link) -> None:
        """End all that is wrong with a link."""
        for end in (link.a, link.b):
            self.cut_ports.discard((end.node, end.port))
            self._impair(end.node, end.port, PortImpair())

    def _impair(self, switch: str, port: int, impair: PortImpair) -> None:
        virtual = self.fabric.switches[switch]
        virtual.device.core.impair_port(port, Direction.RECEIVE, impair)
        self.engine.touch(virtual.node)

    def degrade(self, switch: str, link: Link, rounds: int) -> None:
        """Let a switch hold, for so many rounds, that what it sends by a link gets lost.

        Nothing is lost: what is tried is who goes around it.
        """
        way = self.way(switch, link)
        held = self.register(switch, "dpfr_degraded")
        self.write_register(switch, "dpfr_degraded", held | 1 << way)
        self.write_register(switch, "dpfr_warning", 0, way)
        now = self.register(switch, "dpfr_clock") >> 32
        self.write_register(switch, "dpfr_mending", now + rounds, way)

    def kill(self, switch: str) -> None:
        """Switch a switch off."""
        self.dead.add(switch)
        self.fabric.kill(switch, alive=False)

    def revive(self, switch: str) -> None:
        """Switch it on again: it remembers nothing, and the controller gives it its entries."""
        self.dead.discard(switch)
        self.fabric.restart(switch)
        self.simulation.control.take(FabricReady({switch: ()}), frozenset(self.dead))
        self.fabric.kill(switch, alive=True)

    def hand_over(self, switch: str, port: int, frame: bytes) -> None:
        """Let a frame come to a switch by one of its ports, as if a neighbour had sent it."""
        virtual = self.fabric.switches[switch]
        virtual.device.core.inject(port, frame, self.engine.now)
        self.engine.touch(virtual.node)

    # --- probes ---------------------------------------------------------------------------------

    def _one_each(self) -> dict[str, Host]:
        found: dict[str, Host] = {}
        for host in self.topology.hosts:
            found.setdefault(host.interfaces[0].switch, host)
        return found

    def _probes(self) -> tuple[list[tuple[int, int, bytes]], dict[bytes, Pair]]:
        frames, pair_of = [], {}
        for pair in self.pairs:
            one, other = (self._hosts[leaf] for leaf in pair)
            gateway = self.topology.switch(pair[0]).mac
            for port in range(self.ports):
                frame = bytes(
                    Ether(src=one.interfaces[0].mac, dst=gateway)
                    / IP(src=str(one.address.ip), dst=str(other.address.ip), ttl=TTL)
                    / UDP(sport=40000 + 7 * port, dport=9, chksum=0)
                    / Raw(bytes(22))
                )
                frames.append((self.fabric.nodes[one.name], 0, frame))
                pair_of[frame[26:34]] = pair
        return frames, pair_of

    def probe(self, pairs: Iterable[Pair] | None = None) -> None:
        """Send a packet for each pair of leaves and UDP port now, or of these pairs only."""
        wanted = None if pairs is None else set(pairs)
        now = self.engine.now + 1000
        self.engine.add_script(
            [
                (node, port, now, frame)
                for node, port, frame in self._frames
                if wanted is None or self._pair_of[frame[26:34]] in wanted
            ]
        )

    def arrived(self) -> Probes:
        """Return which probes have come since the last look."""
        came: dict[Pair, int] = {}
        hops: dict[Pair, set[int]] = {}
        for frame in self.engine.take_tapped():
            pair = None if frame.sent else self._pair_of.get(frame.data[26:34])
            if pair is not None:
                came[pair] = came.get(pair, 0) + 1
                hops.setdefault(pair, set()).add(TTL - frame.data[22])
        assert not self.engine.tap_missed()
        return Probes(came, {pair: frozenset(each) for pair, each in hops.items()})

    # --- what switches hold ---------------------------------------------------------------------

    def core(self, switch: str) -> SwitchCore:
        return self.fabric.switches[switch].device.core

    def register(self, switch: str, name: str, index: int = 0) -> int:
        """Return a register's cell."""
        return self.core(switch).register_get(self._register(switch, name), index)

    def write_register(self, switch: str, name: str, value: int, index: int = 0) -> None:
        """Set a register's cell."""
        self.core(switch).register_set(self._register(switch, name), index, value)

    def _register(self, switch: str, name: str) -> int:
        pipeline = self.fabric.switches[switch].device.pipeline
        assert pipeline is not None
        number: int = pipeline.schema.registers[self._info.registers[name].id].index
        return number

    def down(self) -> dict[str, int]:
        """Return the switches that hold ways for dead, with the ways' bits."""
        held = {name: self.register(name, "dpfr_down") for name in self._alive()}
        return {name: bits for name, bits in held.items() if bits}

    def masks(self) -> dict[tuple[str, int], int]:
        """Return the ways that are masked, by switch and destination."""
        return self._by_destination("dpfr_masks")

    def lossy(self) -> dict[tuple[str, int], int]:
        """Return the ways that switches were warned of, by switch and destination."""
        return self._by_destination("dpfr_lossy")

    def _by_destination(self, register: str) -> dict[tuple[str, int], int]:
        held = {
            (name, number): self.register(name, register, number)
            for name in self._alive()
            for number in range(len(self.ways.destinations))
        }
        return {key: bits for key, bits in held.items() if bits}

    def _alive(self) -> Sequence[str]:
        return [s.name for s in self.topology.switches if s.name not in self.dead]

    def settle(self, most_rounds: int) -> int:
        """Run until nothing is held for dead, masked or lossy; return how many rounds that took.

        Fails after `most_rounds`.
        """
        taken = 0
        while held := (self.down(), self.masks(), self.lossy()):
            if not any(held):
                return taken
            assert taken < most_rounds, f"still held after {taken} rounds: {held}"
            self.rounds(8)
            taken += 8
        return taken

    def forget_flaps(self) -> None:
        """Let no switch remember that links died, so that the next hold is the shortest."""
        for name in self._alive():
            for way in range(len(self.ways.of(name).ports)):
                self.write_register(name, "dpfr_flaps", 0, way)

    def longest_hold(self) -> int:
        """Return the rounds after which a link that was mended has to be in use again."""
        s = self.setting
        return (s.hold << FLAPS_MOST) + (1 << s.validity) + len(self.ways.destinations) + 16

    # --- what was counted -----------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return DPFR's counts of all switches."""
        now = self._dpfr_counts()
        return {label: n - self._dpfr_before.get(label, 0) for label, n in now.items()}

    def _dpfr_counts(self) -> dict[str, int]:
        return self.simulation.control.counts(DPFR)

    def dropped(self, reason: int) -> int:
        """Return how many packets all switches have dropped for a reason."""
        return self._counted("dropped", reason)

    def news(self, kind: NotificationType) -> int:
        """Return how many notifications of a type have come to switches."""
        return self._counted("notifications", kind)

    def _counted(self, counter: str, index: int) -> int:
        before = self._counted_before.get((counter, index), 0)
        return self._count_of(counter, index) - before

    def _count_of(self, counter: str, index: int) -> int:
        total = 0
        for virtual in self.fabric.switches.values():
            pipeline = virtual.device.pipeline
            assert pipeline is not None
            number = pipeline.schema.counters[self._info.counters[counter].id].index
            total += virtual.device.core.counter_get(number, index).packets
        return total

    def links(self) -> list[Link]:
        """Return the links between switches."""
        return [
            link
            for link in self.topology.links
            if all(map(self.topology.is_switch, (link.a.node, link.b.node)))
        ]

    def way_port(self, switch: str, way: int) -> int:
        """Return the port of a way, by its number."""
        return self.ways.of(switch).ports[way].number

    def way(self, switch: str, link: Link) -> int:
        """Return the number that a switch gives a link."""
        numbers = [port.number for port in ports_to_switches(self.topology, switch)]
        return numbers.index(link.a.port if link.a.node == switch else link.b.port)


def name_of(link: Link) -> str:
    """Return how a test calls a link."""
    return f"{link.a.node}-{link.b.node}"
