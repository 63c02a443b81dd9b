"""A fabric of switches that only hold entries: what flows would do, after every single write."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from controller.diff import Change, Operation
from controller.entries import ActionCall, DefaultEntry, Exact, TableEntry
from controller.fabric_state import FabricModel, FabricReady, LinkChanged
from controller.jobs import DeclaredJob, FlowSet, JobsEnded, JobsSubmitted
from controller.leaf_routes import Routes
from controller.loop import ControlLoop, Work
from mechanisms.iglb.entries import PIN_TABLE, PLAN_TABLE
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.iglb.mechanism import IglbMechanism
from mechanisms.iglb.plan import Plan, Proof
from mechanisms.iglb.settings import Iglb
from tests.simulator.fabric_program import fabric_program
from topologies.model import Link, Topology

Path = tuple[int, ...]


def job(topology: Topology, name: str, pairs: int, ends: Sequence[tuple[int, int]]) -> DeclaredJob:
    """Return a job of one phase: `pairs` queue pairs from each place in interfaces to another."""
    source, target = (np.repeat([end[n] for end in ends], pairs) for n in (0, 1))
    count = len(source)
    first = 49152 + sum(map(ord, name)) % 7 * 1000
    sets = (FlowSet("all", 0, np.arange(count), np.full(count, 1_000_000)),)
    return DeclaredJob(name, source, target, first + np.arange(count), sets)


def ring(topology: Topology, name: str = "ring", pairs: int = 2, by: int = 5) -> DeclaredJob:
    """Return a job in which each interface sends to the one `by` places further."""
    count = len(list(topology.interfaces()))
    return job(topology, name, pairs, [(n, (n + by) % count) for n in range(count)])


class InTurns:
    """Plans flow i by the (i + shift)th of its shortest paths, and is as good as it is told."""

    def __init__(self, topology: Topology, down: frozenset[Link] = frozenset()) -> None:
        self.topology, self.down = topology, down
        self._numbers = {link: n for n, link in enumerate(topology.links)}
        self._found: dict[tuple[str, str], list[Path]] = {}
        self.routes = Routes.of(topology, down)
        self.shift = 0
        self.keeps = True
        self.per_link = 0.0
        self.seconds: dict[frozenset[Link], float] = {}
        self._made: dict[frozenset[Link], InTurns] = {}

    def with_down(self, down: frozenset[Link]) -> InTurns:
        found = self._made.setdefault(down, InTurns(self.topology, down))
        found.shift, found.keeps, found.per_link = self.shift, self.keeps, self.per_link
        found.seconds = self.seconds
        return found

    def paths(self, source: int, target: int) -> list[Path]:
        interfaces = list(self.topology.interfaces())
        start, end = interfaces[source].switch, interfaces[target].switch
        if start == end:
            return []
        if (start, end) not in self._found:
            self._found[start, end] = list(self._from(start, end))
        return self._found[start, end]

    def _from(self, switch: str, end: str) -> Iterator[Path]:
        if switch == end:
            yield ()
            return
        for port in self.routes.towards(switch, end):
            (here,) = (p for p in self.topology.ports_of(switch) if p.number == port)
            number = self._numbers[here.link]
            arc = 2 * number + (here.link.a.node != switch)
            for rest in self._from(here.peer.node, end):
                yield (arc, *rest)

    def plan(self, jobs: Sequence[DeclaredJob], before: Plan | None = None) -> Plan:
        found: list[Path] = []
        moved: list[int] = []
        for each in jobs:
            old: list[Path] = []
            if before is not None and self.keeps and any(b is each for b in before.jobs):
                old = [tuple(a for a in row if a >= 0) for row in before.arcs[before.of(each.name)]]
            for n, (source, target) in enumerate(zip(each.source, each.target, strict=True)):
                paths = self.paths(int(source), int(target))
                kept = old[n] if old and old[n] in paths else None
                if kept is None:
                    moved.append(len(found))
                    kept = paths[(n + self.shift) % len(paths)] if paths else ()
                found.append(kept)
        width = max(map(len, found), default=0)
        arcs = np.array([row + (-1,) * (width - len(row)) for row in found], dtype=np.int64)
        seconds = self.seconds.get(self.down, 1.0 + self.per_link * len(self.down))
        version = 0 if before is None else before.version + 1
        return Plan(
            tuple(jobs), arcs.reshape(len(found), width), np.array(moved, dtype=np.int64),
            Proof(seconds, seconds, "cut"), version,
        )  # fmt: skip

    def better(self, than: Plan, by: float) -> Plan | None:
        return None


@dataclass(frozen=True)
class Planned(IglbMechanism):
    """iGLB with that planner."""

    planner: InTurns | None = field(default=None, compare=False)
    setting: Iglb = field(default_factory=Iglb)

    def learner(self, topology, facts, policy):  # type: ignore[no-untyped-def]
        return PlannedPaths(topology, self.setting, facts, policy, self.planner)


class Held:
    """Switches' pins and versions, and who could not be reached.

    `lost`: switches to which nothing can be written. `cut_after`: of one switch, how many more
    updates it takes before it is lost.
    """

    def __init__(self, topology: Topology, setting: Iglb | None = None, seed: int = 1) -> None:
        self.topology = topology
        self.planner = InTurns(topology)
        part = Planned("iglb", "iGLB", tables=frozenset({PIN_TABLE, PLAN_TABLE}),
                       learned_tables=frozenset({PIN_TABLE, PLAN_TABLE}), planner=self.planner,
                       setting=setting or Iglb())  # fmt: skip
        model = FabricModel(topology, fabric_program().p4info, parts=(part,))
        self.loop = ControlLoop(model)
        self.random = random.Random(seed)
        self.now = 1
        self.pins: dict[str, dict[tuple[int, int, int, int], int]] = {}
        self.version: dict[str, int] = {}
        self.lost: set[str] = set()
        self.cut_after: dict[str, int] = {}
        self.checks = 0
        self.check = lambda: None
        self.waiting: list[tuple[Work, frozenset[str]]] = []
        self._whole = Routes.of(topology)
        self._interfaces = list(topology.interfaces())
        self._out = {
            (a.node, a.port): (2 * n + side, b.node)
            for n, link in enumerate(topology.links)
            for side, (a, b) in enumerate(((link.a, link.b), (link.b, link.a)))
        }
        self.take(self.loop.handle(FabricReady({s.name: () for s in topology.switches}), 0))

    @property
    def learner(self) -> PlannedPaths:
        found = self.loop.learners["iglb"]
        assert isinstance(found, PlannedPaths)
        return found

    # --- what happens

    def submit(self, *jobs: DeclaredJob) -> None:
        self.take(self.loop.handle(JobsSubmitted(jobs), self.now))

    def end(self, *names: str) -> None:
        self.take(self.loop.handle(JobsEnded(names), self.now))

    def link(self, link: Link, up: bool) -> None:
        self.take(self.loop.handle(LinkChanged(link, up), self.now))

    def wait(self, until: int) -> None:
        """Let time pass, with all that is due on the way."""
        while (due := self.loop.due()) is not None and due <= until:
            self.now = max(due, self.now)
            self.take(self.loop.elapsed(self.now))
        self.now = until

    def settle(self) -> None:
        """Let old pins go."""
        self.wait(self.now + 4_000_000)

    def found(self, switch: str) -> None:
        """Reach a switch again: it gets what it lacks, as a controller that reads it back does."""
        self.lost.discard(switch)
        wanted = self.loop.model.learned[switch]
        self.pins[switch] = {}
        for entry in wanted.values():
            self._write(switch, Change(Operation.INSERT, entry))

    # --- writes

    def take(self, work: Work) -> None:
        """Write step by step, the switches' single updates in any order."""
        while True:
            failed: set[str] = set()
            for writes in work.learned:
                queue = {name: list(found) for name, found in writes.items() if found}
                while queue:
                    name = self.random.choice(sorted(queue))
                    if self.cut_after.get(name) == 0:
                        self.lost.add(name)
                    if name in self.lost:
                        failed.add(name)
                        del queue[name]
                        continue
                    if name in self.cut_after:
                        self.cut_after[name] -= 1
                    self._write(name, queue[name].pop(0))
                    self.checks += 1
                    self.check()
                    if not queue[name]:
                        del queue[name]
            if not work.then:
                return
            self.between()
            work = self.loop.written(work, failed, self.now)

    def between(self) -> None:
        """Do what comes between two steps."""

    def _write(self, switch: str, change: Change) -> None:
        entry = change.entry
        if isinstance(entry, DefaultEntry):
            assert entry.table == PLAN_TABLE
            self.version[switch] = dict(entry.action.arguments).get("number", 0)
            return
        assert isinstance(entry, TableEntry) and entry.table == PIN_TABLE
        fields = {name: value.value for name, value in entry.match if isinstance(value, Exact)}
        key = (fields["version"], fields["src"], fields["dst"], fields["udp_port"])
        pins = self.pins.setdefault(switch, {})
        assert (key in pins) == (change.operation is not Operation.INSERT), change
        if change.operation is Operation.DELETE:
            del pins[key]
        else:
            assert isinstance(entry.action, ActionCall)
            pins[key] = dict(entry.action.arguments)["next_hop"]

    # --- what packets do

    def path(self, source: int, target: int, udp_port: int) -> Path | None:
        """Return the arcs that a flow's packets take, None where some switch has no pin for it."""
        interfaces, routes = self._interfaces, self.loop.model.routes()
        here, end = interfaces[source].switch, interfaces[target].switch
        flow = (int(interfaces[source].address.ip), int(interfaces[target].address.ip), udp_port)
        found: list[int] = []
        while here != end:
            ports = routes.towards(here, end)
            assert ports and len(found) < 9, "nothing leads there"
            port, pinned = ports[0], None
            if len(ports) > 1:
                key = (self.version.get(here, 0), *flow)
                pinned = self.pins.get(here, {}).get(key) if self.version.get(here) else None
                if pinned is None and len(self._whole.towards(here, end)) > 1:
                    return None
                port = pinned or port
            if (here, port) not in self._ways(here, end) and port != pinned:
                break  # a way around what has just failed, until other pins are there
            arc, here = self._out[here, port]
            found.append(arc)
        return tuple(found)

    def _ways(self, switch: str, end: str) -> set[tuple[str, int]]:
        return {(switch, port) for port in self._whole.towards(switch, end)}

    def paths(self, each: DeclaredJob) -> list[Path | None]:
        """Return the paths of a job's flows."""
        columns = (each.source.tolist(), each.target.tolist(), each.udp_port.tolist())
        return [self.path(*flow) for flow in zip(*columns, strict=True)]

    def unpinned(self, each: DeclaredJob, down: Sequence[Link] = ()) -> list[int]:
        """Return the flows that lack a pin, though their planned path is a shortest one now.

        Where it is not, because a link is down or has just returned, routes may leave no choice,
        and switches look at no pin.
        """
        plan = self.learner.in_force.plan
        assert plan is not None
        ways = self.planner.with_down(frozenset(down))
        ends = zip(each.source.tolist(), each.target.tolist(), strict=True)
        paths = zip(self.paths(each), planned(plan, each.name), ends, strict=True)
        return [
            n
            for n, (now, wanted, end) in enumerate(paths)
            if now is None and wanted in ways.paths(*end)
        ]

    def number_of_pins(self) -> int:
        return sum(map(len, self.pins.values()))


def planned(plan: Plan, name: str) -> list[Path]:
    """Return a job's paths as they are planned."""
    return [tuple(int(a) for a in row if a >= 0) for row in plan.arcs[plan.of(name)]]


def renamed(each: DeclaredJob, name: str) -> DeclaredJob:
    return replace(each, name=name, udp_port=each.udp_port + 5000)
