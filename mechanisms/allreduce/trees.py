"""Jobs' trees: which switches add for a job, by which ports, and in which slots. All pure.

A tree is made of shortest paths from its root to the leaves that the job's workers are at, so it
exists wherever the workers meet. Roots are the switches whose farthest worker is nearest: the
leaf, a spine, a core, a border. Of these each tree takes the root, and each switch the way down to
it, that are the fastest, then the least used by the job's other trees, then by other jobs'.

    tree 0 of each job       links that no other job's tree 0 has, as long as there are any
    tree t + 1 of a job      switches, then links, that its tree t does not have, then its others

A child's index is its rank among the children of a switch, ordered by the lowest worker beneath.
So two trees in which a switch has the same workers beneath its children number them alike, which
is what giving a tree's bits to another tree needs (`mechanisms.allreduce.life`). Spare trees are
kept for that.

Of hosts with several interfaces only interface 0 takes part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.servers import ask_servers, server_of
from mechanisms.allreduce.settings import KEY, TREES, AllReduce, Job
from mechanisms.allreduce.traffic import class_of, dscp_of
from topologies.errors import FieldPath, did_you_mean
from topologies.graph import SwitchGraph
from topologies.model import Interface, Link, Role, Topology, TrafficClass

CHILDREN = 64
"""Of a switch in a tree: bits of a bitmap."""

KEPT = 2 * TREES
"""Trees of a job: those in use, and spare ones."""

HEADER_BYTES = 20 + 8 + 16
"""IPv4, UDP and AllReduce's header: what a packet has besides lanes within the MTU."""

SET_BYTES = 8
"""Behind a partial's header: whose sum it is."""

LANE_BYTES = 4

GROUPS = 20_480
"""Multicast groups from here on. Below are those of fast reroute: from 1024, one for each of at
most 2^14 destinations. Above, BMv2 keeps those from 32768 on for clone sessions."""

MOST_GROUPS = 32_768 - GROUPS

_ROLES: Mapping[str, tuple[Role, ...]] = {
    "leaf": (Role.LEAF,),
    "pod": (Role.SPINE,),
    "core": (Role.CORE, Role.BORDER),
}


@dataclass(frozen=True)
class Node:
    """A switch in a tree. `ports`: of its children, by index; `parent`: None at the root.

    `covers`: of each child the workers beneath it, a bit a rank. The root of a best-effort job has
    a parent, too: its server.
    """

    parent: int | None
    ports: tuple[int, ...]
    covers: tuple[int, ...]

    @property
    def children(self) -> tuple[int, ...]:
        """The ports of its children, ascending."""
        return tuple(sorted(self.ports))

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The ports of its children and its parent, ascending."""
        return tuple(sorted((*self.ports, *(() if self.parent is None else (self.parent,)))))


@dataclass(frozen=True)
class Tree:
    """A tree by switch. `links`: those between its switches."""

    root: str
    nodes: Mapping[str, Node]
    links: frozenset[Link]


@dataclass(frozen=True)
class JobPlan:
    """A job in its fabric. `workers`: by rank. `trees`: in use, `spare`: beside them.

    Its slots at a switch begin at `base`; None: it has none until it is started. `server`: of a
    best-effort job, which is the parent of its trees' roots; its `slots` are its workers' alone.
    """

    name: str
    number: int
    workers: tuple[Interface, ...]
    base: int | None
    slots: int
    trees: tuple[Tree, ...]
    spare: tuple[Tree, ...]
    server: Interface | None = None

    @property
    def all_trees(self) -> tuple[Tree, ...]:
        """Return those in use, then the spare ones."""
        return self.trees + self.spare

    def tree_of(self, bits: int) -> Tree:
        """Return the tree that an epoch's low bits select; several select one where few are."""
        return self.trees[bits % len(self.trees)]

    def switches(self) -> frozenset[str]:
        """Return the switches of any of its trees."""
        return frozenset().union(*(tree.nodes for tree in self.all_trees))


@dataclass(frozen=True)
class Plan:
    """All jobs of a topology by name, and the class that their packets travel in."""

    setting: AllReduce
    dscp: int
    queue: int
    jobs: Mapping[str, JobPlan]

    @cached_property
    def groups(self) -> Mapping[str, Mapping[tuple[int, ...], int]]:
        """By switch: its multicast groups' numbers by the ports that copies leave by.

        For each place in a tree, spare ones too: the ports of the children, and those with the
        parent's besides.
        """
        found: dict[str, set[tuple[int, ...]]] = {}
        for job in self.jobs.values():
            for tree in job.all_trees:
                for name, node in tree.nodes.items():
                    found.setdefault(name, set()).update((node.children, node.neighbours))
        return {
            name: {ports: GROUPS + number for number, ports in enumerate(sorted(each))}
            for name, each in found.items()
        }

    @property
    def most_edges(self) -> int:
        """The most ways in and out of trees that a switch may hold, of all jobs."""
        found: Counter[str] = Counter()
        for job in self.jobs.values():
            most: dict[str, int] = {}
            for tree in job.all_trees:
                for name, node in tree.nodes.items():
                    most[name] = max(most.get(name, 0), len(node.neighbours))
            found.update({name: TREES * each for name, each in most.items()})
        return max(found.values(), default=0)


@dataclass(frozen=True)
class Sharing:
    """How far trees are apart: links between switches that more than one of them has.

    `within`: the most that two trees of one job share; `next_to`: that two successive ones do;
    `between`: the most jobs of which tree 0 has one link.
    """

    within: int
    next_to: int
    between: int


def sharing(plan: Plan) -> Sharing:
    """Measure how far the trees in use are apart."""
    trees = [job.trees for job in plan.jobs.values()]
    within = (len(a.links & b.links) for each in trees for a, b in combinations(each, 2))
    around = ((each[t], each[(t + 1) % len(each)]) for each in trees for t in range(len(each)))
    first = Counter(link for each in trees for link in each[0].links)
    return Sharing(
        max(within, default=0),
        max((len(a.links & b.links) for a, b in around if a is not b), default=0),
        max(first.values(), default=0),
    )


def alive(tree: Tree, down: frozenset[Link]) -> bool:
    """Say whether no link of a tree is down."""
    return tree.links.isdisjoint(down)


# ---------------------------------------------------------------- one topology


_NO_PLAN = Plan(AllReduce(), 0, 0, {})

_kept: dict[int, tuple[ReferenceType[Topology], Plan]] = {}


def plan_of(topology: Topology) -> Plan:
    """Return a topology's plan, kept as long as the topology is. Raises PlanError.

    A topology that says nothing of AllReduce has a plan without jobs.
    """
    if topology.setting(KEY) is None:
        return _NO_PLAN
    key = id(topology)
    if key not in _kept:
        found = _Planner(topology).plan()
        kept = _kept  # at the end of the process, modules' names go before topologies
        _kept[key] = (ref(topology, lambda _: kept.pop(key, None)), found)
    return _kept[key][1]


@dataclass(frozen=True)
class _Shape:
    """A candidate: the way up from each of its switches but the root, by the switch's number.

    A way is (own port, parent's number, parent's port, the link's number). `links`: the numbers of
    all its links; `inner`: of the switches without workers; `only`: no switch had a choice, so it
    is the only one of its root.
    """

    root: int
    up: Mapping[int, tuple[int, int, int, int]]
    links: Any
    inner: Any
    only: bool


@dataclass
class _Usage:
    """How many trees use a link, or a switch, by its number.

    Of the job: all its trees, and its last one; of other jobs: those of the same index, and all.
    """

    of_job: Any
    last: Any
    same_index: Any
    others: Any
    switches: Any
    last_switches: Any


@dataclass
class _Planner:
    """Makes a topology's plan. Switches and links are numbers in here."""

    topology: Topology
    graph: SwitchGraph = field(init=False)
    links: list[Link] = field(init=False)
    rates: Any = field(init=False)

    def __post_init__(self) -> None:
        self.graph = SwitchGraph(self.topology)
        self.links = [
            link
            for link in self.topology.links
            if link.a.node in self.graph.index and link.b.node in self.graph.index
        ]
        self.rates = np.array([link.rate_bps for link in self.links], dtype=np.int64)
        number = {link: n for n, link in enumerate(self.links)}
        self._steps = [
            [
                (port, there, self.topology.peer(self.graph.names[here], port).port, number[link])
                for port, there, link in found
            ]
            for here, found in enumerate(self.graph.neighbours)
        ]

    def plan(self) -> Plan:
        setting = self.topology.setting(KEY)
        assert isinstance(setting, AllReduce)
        of = self._class(setting)
        used_by_index = [np.zeros(len(self.links), dtype=np.int64) for _ in range(KEPT)]
        jobs = []
        for number, job in enumerate(setting.jobs, 1):
            workers = self._workers(job)
            server = server_of(self.topology, job, workers)
            ends = workers if server is None else (*workers, server)
            self._fits_mtu(setting, job, ends)
            trees = self._trees(job, workers, server, used_by_index)
            in_use, spare = trees[: job.trees], trees[job.trees :]
            jobs.append(JobPlan(job.name, number, workers, None, job.slots, in_use, spare, server))
        ask_servers(self.topology, jobs)
        placed = {job.name: job for job in _in_slots(setting, jobs)}
        queue = 0 if of is None else of.queue or 0
        made = Plan(setting, dscp_of(self.topology, of), queue, placed)
        for name, groups in made.groups.items():
            if len(groups) > MOST_GROUPS:
                raise PlanError(
                    (KEY, "jobs"),
                    name,
                    f"the jobs' trees need {len(groups)} multicast groups, and it has "
                    f"{MOST_GROUPS}",
                    "fewer jobs",
                )
        return made

    # ------------------------------------------------------------ what a job says

    def _class(self, setting: AllReduce) -> TrafficClass | None:
        try:
            return class_of(self.topology, setting.traffic_class)
        except KeyError:
            names = [each.name for each in self.topology.classes]
            hint = did_you_mean(str(setting.traffic_class), names)
            raise PlanError(
                (KEY, "class"),
                str(setting.traffic_class),
                f"no class of this name{hint}",
                f"one of {', '.join(names)}" if names else "name it in classes: first",
            ) from None

    def _workers(self, job: Job) -> tuple[Interface, ...]:
        path: FieldPath = (KEY, "jobs", job.name, "workers")
        names = [host.name for host in self.topology.hosts]
        if job.every is not None:
            first = job.every.first or next(iter(names), "")
            chosen = self._by_rule(job, first, names, path)
        else:
            chosen = list(job.workers or names)
        for name in chosen:
            if name not in names:
                raise self._unknown(path, name, names)
        if len(chosen) < 2:
            raise PlanError(
                path, f"job {job.name}", f"has {len(chosen)} worker", "a job has at least 2"
            )
        return tuple(self.topology.host(name).interfaces[0] for name in chosen)

    def _by_rule(self, job: Job, first: str, names: list[str], path: FieldPath) -> list[str]:
        assert job.every is not None
        if first not in names:
            raise self._unknown((*path, "first"), first, names)
        found = names[names.index(first) :: job.every.every]
        wanted = job.every.count
        if wanted is not None and wanted > len(found):
            raise PlanError(
                (*path, "count"),
                f"job {job.name}",
                f"every {job.every.every} hosts from {first} there are {len(found)}, not {wanted}",
                f"count: {len(found)} or fewer",
            )
        return found[:wanted]

    @staticmethod
    def _unknown(path: FieldPath, name: str, names: list[str]) -> PlanError:
        return PlanError(path, name, f"no host of this name{did_you_mean(name, names)}",
                         "workers are hosts of the topology")  # fmt: skip

    def _fits_mtu(self, setting: AllReduce, job: Job, workers: Sequence[Interface]) -> None:
        """Ask the workers' own links; those between switches are asked with the trees."""
        access = [self.topology.link_at(each.switch, each.port) for each in workers]
        self._ask_mtu(setting, job, min(access, key=lambda link: link.mtu_bytes))

    def _ask_mtu(self, setting: AllReduce, job: Job, link: Link) -> None:
        header = HEADER_BYTES + (0 if job.server is None else SET_BYTES)
        needed = header + LANE_BYTES * setting.wire_lanes
        if needed > link.mtu_bytes:
            most = max((link.mtu_bytes - header) // LANE_BYTES, 0)
            raise PlanError(
                (KEY, "wire_lanes" if setting.wire_lanes != setting.lanes else "lanes"),
                f"{link.a}-{link.b}",
                f"a packet of {setting.wire_lanes} lanes has {needed} bytes, and the link's MTU "
                f"(job {job.name}) is {link.mtu_bytes}",
                f"{most} lanes, or mtu: {needed}B",
            )

    # ------------------------------------------------------------ trees

    def _trees(
        self,
        job: Job,
        workers: Sequence[Interface],
        server: Interface | None,
        used_by_index: Sequence[Any],
    ) -> tuple[Tree, ...]:
        beneath: dict[int, list[tuple[int, int]]] = {}
        for rank, each in enumerate(workers):
            beneath.setdefault(self.graph.index[each.switch], []).append((rank, each.port))
        roots = self._roots(job, list(beneath), server)
        sizes = [len(self.links)] * 4 + [len(self.graph.names)] * 2
        usage = _Usage(*(np.zeros(size, dtype=np.int64) for size in sizes))
        fixed: dict[int, _Shape] = {}
        seen: set[tuple[int, bytes]] = set()
        found: list[Tree] = []
        crowded: PlanError | None = None
        while len(found) < KEPT:
            usage.same_index = used_by_index[len(found)]
            usage.others = sum(used_by_index) - usage.of_job
            best: tuple[Any, _Shape] | None = None
            for order, root in enumerate(roots):
                shape = fixed.get(root) or self._shape(root, list(beneath), usage)
                if shape.only:
                    fixed[root] = shape
                if (root, shape.links.tobytes()) in seen:
                    continue
                score = (*self._score(shape, usage), order)
                if best is None or score < best[0]:
                    best = score, shape
            if best is None:
                break
            shape = best[1]
            seen.add((shape.root, shape.links.tobytes()))
            try:
                tree = self._tree(job, shape, beneath, server)
            except PlanError as error:
                crowded = error
                continue
            used_by_index[len(found)][shape.links] += 1
            usage.of_job[shape.links] += 1
            usage.last[:] = 0
            usage.last[shape.links] = 1
            usage.switches[shape.inner] += 1
            usage.last_switches[:] = 0
            usage.last_switches[shape.inner] = 1
            found.append(tree)
        if not found:
            assert crowded is not None, "a root has a tree"
            raise crowded
        self._ask_trees_mtu(job, found)
        return tuple(found)

    def _ask_trees_mtu(self, job: Job, trees: Sequence[Tree]) -> None:
        setting = self.topology.setting(KEY)
        links = {link for tree in trees for link in tree.links}
        for link in self.links:
            if link in links:
                self._ask_mtu(setting, job, link)

    def _roots(self, job: Job, leaves: Sequence[int], server: Interface | None) -> list[int]:
        """Return the switches whose farthest leaf is nearest, of the level that the job asks.

        Of a best-effort job its server's.
        """
        far = np.array(self.graph.distances)[:, leaves].max(axis=1)
        path: FieldPath = (KEY, "jobs", job.name)
        if server is not None:
            root = self.graph.index[server.switch]
            if not np.isfinite(far[root]):
                raise PlanError((*path, "server"), f"job {job.name}",
                                f"its workers do not all reach {server.host}",
                                "a host that they can reach by their first interfaces")  # fmt: skip
            return [root]
        if not np.isfinite(far).any():
            apart = self._apart(leaves)
            raise PlanError((*path, "workers"), f"job {job.name}",
                            f"no tree reaches both {apart}", "workers that can reach each other "
                            "by their first interfaces")  # fmt: skip
        if job.level is not None:
            roles = _ROLES[job.level]
            others = [n for n, s in enumerate(self.topology.switches) if s.role not in roles]
            far[others] = np.inf
            if not np.isfinite(far).any():
                raise PlanError((*path, "level"), f"job {job.name}",
                                f"no {job.level} switch reaches all its workers",
                                "another level, or none")  # fmt: skip
        return [int(number) for number in np.flatnonzero(far == far.min())]

    def _apart(self, leaves: Sequence[int]) -> str:
        islands = self.graph.islands
        names = [self.graph.names[leaf] for leaf in leaves]
        other = next(name for name in names if islands[name] != islands[names[0]])
        return f"{names[0]} and {other}"

    def _shape(self, root: int, leaves: Sequence[int], usage: _Usage) -> _Shape:
        """Return the tree of shortest paths from a root that is the least used so far."""
        hops = self.graph.distances[root]
        layers: dict[int, dict[int, None]] = {}
        for leaf in leaves:
            layers.setdefault(int(hops[leaf]), {})[leaf] = None
        up: dict[int, tuple[int, int, int, int]] = {}
        only = True
        for distance in range(max(layers), 0, -1):
            above = layers.setdefault(distance - 1, {})
            for here in layers.get(distance, ()):
                ways = [step for step in self._steps[here] if hops[step[1]] == distance - 1]
                if len(ways) > 1:
                    only = False
                    ways.sort(key=lambda step: self._preference(step, above, usage))
                up[here] = ways[0]
                above[ways[0][1]] = None
        links = np.array(sorted(way[3] for way in up.values()), dtype=np.int64)
        inner = np.array(sorted({root, *up} - set(leaves)), dtype=np.int64)
        return _Shape(root, up, links, inner, only)

    def _preference(
        self, step: tuple[int, int, int, int], above: Mapping[int, None], usage: _Usage
    ) -> tuple[int, ...]:
        port, there, _, link = step
        return (
            -int(self.rates[link]),
            int(usage.of_job[link]),
            int(usage.same_index[link]),
            int(usage.others[link]),
            0 if there in above else 1,
            port,
        )

    def _score(self, shape: _Shape, usage: _Usage) -> tuple[int, ...]:
        """Return how bad it is to have a tree next: the lowest is taken."""
        links, inner = shape.links, shape.inner
        if not len(links):
            return (0,)
        return (
            -int(self.rates[links].min()),
            int(usage.last_switches[inner].sum()),
            int(usage.last[links].sum()),
            int(usage.switches[inner].sum()),
            int(usage.of_job[links].sum()),
            int(usage.same_index[links].max()),
            int(usage.same_index[links].sum()),
            int(usage.others[links].max()),
            int(usage.others[links].sum()),
        )

    def _tree(
        self,
        job: Job,
        shape: _Shape,
        beneath: Mapping[int, Sequence[tuple[int, int]]],
        server: Interface | None,
    ) -> Tree:
        children: dict[int, list[tuple[int, int]]] = {
            leaf: [(1 << rank, port) for rank, port in found] for leaf, found in beneath.items()
        }
        hops = self.graph.distances[shape.root]
        for here in sorted(shape.up, key=lambda switch: -hops[switch]):
            _, parent, port, _ = shape.up[here]
            cover = sum(each for each, _ in children[here])
            children.setdefault(parent, []).append((cover, port))
        nodes: dict[str, Node] = {}
        for here, found in children.items():
            name = self.graph.names[here]
            if len(found) > CHILDREN:
                raise PlanError(
                    (KEY, "jobs", job.name),
                    f"job {job.name}",
                    f"{name} would have {len(found)} children, and a bitmap has {CHILDREN} bits",
                    f"a job with at most {CHILDREN} beneath each switch",
                )
            found.sort(key=lambda child: child[0] & -child[0])
            way = shape.up.get(here)
            above = None if server is None else server.port
            nodes[name] = Node(
                above if way is None else way[0],
                tuple(port for _, port in found),
                tuple(cover for cover, _ in found),
            )
        links = frozenset(self.links[number] for number in shape.links)
        return Tree(self.graph.names[shape.root], nodes, links)


# ---------------------------------------------------------------- slots


def _in_slots(setting: AllReduce, jobs: Sequence[JobPlan]) -> Iterator[JobPlan]:
    """Give each job its slots: where it asks for them, else the first that are free.

    Jobs that wait to be started get none yet. Raises PlanError.
    """
    said = {job.name: job for job in setting.jobs}
    placed: dict[str, JobPlan] = {}
    now = [job for job in jobs if said[job.name].start]
    for job in sorted(now, key=lambda job: said[job.name].base is None):
        placed[job.name] = in_free_slots(setting, job, list(placed.values()))
    return (placed.get(job.name, job) for job in jobs)


def in_free_slots(setting: AllReduce, job: JobPlan, others: Sequence[JobPlan]) -> JobPlan:
    """Return a job with slots that none of the others has where they meet. Raises PlanError.

    Jobs that meet at no switch, in no tree, may have the same ones.
    """
    asked = next(each.base for each in setting.jobs if each.name == job.name)
    if job.server is not None:
        return replace(job, base=0)
    here = job.switches()
    taken = [
        (each.base, each)
        for each in others
        if each.base is not None and each.server is None and not here.isdisjoint(each.switches())
    ]
    taken.sort(key=lambda found: found[0])
    if asked is not None:
        for begin, other in taken:
            if begin < asked + job.slots and asked < begin + other.slots:
                raise PlanError(
                    (KEY, "jobs", job.name, "base"),
                    f"job {job.name}",
                    f"its slots {asked} to {asked + job.slots - 1} overlap those of job "
                    f"{other.name}, {begin} to {begin + other.slots - 1}",
                    "give them ranges of their own, or no base",
                )
        return replace(job, base=asked)
    base = 0
    for begin, other in taken:
        if begin >= base + job.slots:
            break
        base = max(base, begin + other.slots)
    if base + job.slots > setting.slots:
        raise PlanError(
            (KEY, "jobs", job.name),
            f"job {job.name}",
            f"{job.slots} slots beside those of other jobs end at {base + job.slots}, and "
            f"a switch has {setting.slots}",
            f"slots: {base + job.slots}, or fewer a job",
        )
    return replace(job, base=base)
