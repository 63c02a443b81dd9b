"""Regular fabrics from a few parameters. A generator writes the explicit form, nothing else.

Switches are s1, s2, ... with the leaves first; hosts are h1, h2, ... leaf by leaf. A switch's ports
are numbered downwards first: a leaf's are its hosts, then its spines, each in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from topologies.document import Document
from topologies.generator_schema import (
    AnyGenerated,
    CentresFile,
    DataCentresFile,
    DualPlaneFile,
    FatTreeFile,
    HpnFile,
    LeafSpineFile,
    PlanesFile,
    RailFile,
    SingleFile,
    TwoDcFile,
)
from topologies.plan import Plan
from topologies.schema import ExplicitFile


def generate(spec: AnyGenerated, document: Document) -> tuple[ExplicitFile, Plan]:
    """Return the explicit form of a generated fabric, and the plan that says where it comes from.

    Raises TopologyError, placed in `document`.
    """
    plan = Plan(spec, document)
    match spec:
        case SingleFile():
            _single(plan, spec)
        case LeafSpineFile():
            _leaf_spine(plan, spec)
        case RailFile():
            _rail(plan, spec)
        case FatTreeFile():
            _fat_tree(plan, spec)
        case DualPlaneFile():
            _dual_plane(plan, spec)
        case HpnFile():
            _hpn(plan, spec)
        case TwoDcFile():
            _centres(plan, spec, [(0, 1)])
        case DataCentresFile():
            _data_centres(plan, spec)
    return plan.explicit(), plan


def _single(plan: Plan, spec: SingleFile) -> None:
    plan.need(spec.hosts <= plan.addresses, "hosts", f"one switch takes {plan.addresses} hosts")
    plan.settings_for("link")
    switch = plan.switch("leaf")
    for host in plan.hosts(spec.hosts):
        plan.link(host, switch, "host_link")


def _leaf_spine(plan: Plan, spec: LeafSpineFile) -> None:
    uplinks = spec.spines * spec.links_per_spine
    plan.fits_leaf(spec.hosts_per_leaf, uplinks, "hosts_per_leaf")
    plan.fits_spine(spec.leaves * spec.links_per_spine, "leaves")
    plan.settings_for("link")
    leaves = plan.switches(spec.leaves, "leaf")
    spines = plan.switches(spec.spines, "spine")
    _hosts_of_leaves(plan, leaves, spec.hosts_per_leaf)
    _mesh(plan, leaves, spines, spec.links_per_spine)


def _rail(plan: Plan, spec: RailFile) -> None:
    plan.fits_leaf(spec.hosts_per_group, spec.spines, "hosts_per_group")
    below = spec.groups * (1 if spec.rail_only else spec.rails)
    plan.fits_spine(below if spec.spines else 0, "groups")
    plan.settings_for("link")
    groups = [plan.switches(spec.rails, "leaf", group=f"group {1 + g}") for g in range(spec.groups)]
    networks = [[leaf for leaves in groups for leaf in leaves]]
    if spec.rail_only:
        networks = [list(leaves) for leaves in zip(*groups, strict=True)]
    spines = [plan.switches(spec.spines, "spine") for _ in networks]
    for g, leaves in enumerate(groups):
        for host in plan.hosts(spec.hosts_per_group, group=f"group {1 + g}"):
            for rail, leaf in enumerate(leaves):
                plan.link(f"{host}:{rail}", leaf, "host_link")
    for lower, above in zip(networks, spines, strict=True):
        _mesh(plan, lower, above)


def _fat_tree(plan: Plan, spec: FatTreeFile) -> None:
    half = spec.k // 2
    hosts_per_leaf = half if spec.hosts_per_leaf is None else spec.hosts_per_leaf
    plan.need(spec.k % 2 == 0, "k", f"k must be even, not {spec.k}: half of the ports go up")
    plan.fits_spine(spec.k, "k")
    plan.fits_leaf(hosts_per_leaf, half, "hosts_per_leaf")
    plan.settings_for("link")
    plan.settings_for("core_link")
    leaves = [plan.switches(half, "leaf", group=f"pod {1 + pod}") for pod in range(spec.k)]
    pods = [f"pod {1 + pod}" for pod in range(spec.k)]  # after what refuses a k too large
    spines = [plan.switches(half, "spine", group=pod) for pod in pods]
    cores = plan.switches(half * half, "core")
    for pod, name in enumerate(pods):
        _hosts_of_leaves(plan, leaves[pod], hosts_per_leaf, group=name)
        _mesh(plan, leaves[pod], spines[pod])
    for of_pod in spines:
        _fan(plan, of_pod, cores)


def _dual_plane(plan: Plan, spec: DualPlaneFile) -> None:
    plan.fits_leaf(spec.hosts_per_leaf, spec.spines, "hosts_per_leaf")
    planes = _planes(plan, spec, spec.leaves, "leaves")
    for place in range(spec.pods * spec.leaves):
        for host in plan.hosts(spec.hosts_per_leaf):
            for plane, leaves in enumerate(planes.leaves):
                plan.link(f"{host}:{plane}", leaves[place], "host_link")
    planes.join()


def _hpn(plan: Plan, spec: HpnFile) -> None:
    plan.fits_leaf(spec.servers_per_segment, spec.spines, "servers_per_segment")
    planes = _planes(plan, spec, spec.segments * spec.rails, "segments")
    for segment, _ in itertools.product(
        range(spec.pods * spec.segments), range(spec.servers_per_segment)
    ):
        for rail, nic in enumerate(plan.hosts(spec.rails)):
            for plane, leaves in enumerate(planes.leaves):
                plan.link(f"{nic}:{plane}", leaves[segment * spec.rails + rail], "host_link")
    planes.join()


class _Planes:
    """The switches of all planes, by plane: `leaves` pod after pod; hosts are linked before all."""

    def __init__(self, plan: Plan, spec: PlanesFile, leaves: int) -> None:
        """`leaves`: of each plane and pod."""
        self._plan = plan
        self._pods = spec.pods
        names = [f"plane {chr(ord('A') + plane)}" for plane in range(spec.planes)]
        self.leaves = [plan.switches(spec.pods * leaves, "leaf", group=name) for name in names]
        self._spines = [
            plan.switches(spec.pods * spec.spines, "spine", group=name) for name in names
        ]
        self._cores = [plan.switches(spec.cores, "core", group=name) for name in names]

    def join(self) -> None:
        """Link leaves and spines of each pod, and the spines with the cores."""
        for leaves, spines, cores in zip(self.leaves, self._spines, self._cores, strict=True):
            for below, above in zip(self._by_pod(leaves), self._by_pod(spines), strict=True):
                _mesh(self._plan, below, above)
            for of_pod in self._by_pod(spines) if cores else ():
                _fan(self._plan, of_pod, cores)

    def _by_pod(self, switches: Sequence[str]) -> Sequence[Sequence[str]]:
        each = len(switches) // self._pods
        return [switches[at : at + each] for at in range(0, len(switches), each)]


def _planes(plan: Plan, spec: PlanesFile, leaves: int, key: str) -> _Planes:
    """Make the switches of all planes. `leaves`: of each plane and pod, which `key` says."""
    each = spec.cores // spec.spines
    joined = f"cores join the pods, the same number at each of {spec.spines} spines of a pod"
    plan.need((spec.pods > 1) is (spec.cores > 0), "pods", f"{joined}: give both pods and cores")
    plan.need(
        spec.cores % spec.spines == 0,
        "cores",
        f"{joined}: a multiple of {spec.spines}, not {spec.cores}",
    )
    plan.fits_spine(leaves + each, key)
    plan.fits_spine(spec.pods if spec.cores else 0, "pods")
    plan.settings_for("link")
    plan.settings_for("core_link")
    return _Planes(plan, spec, leaves)


def _data_centres(plan: Plan, spec: DataCentresFile) -> None:
    joined = _joined(spec)
    for i, between in enumerate(spec.long_links):
        pair = tuple(sorted(centre - 1 for centre in between.between))
        here = ("long_links", i, "between")
        shown = " and ".join(str(centre) for centre in between.between)
        message = f"no long link between {shown}: {spec.centres} centres, shape {spec.shape}"
        if pair not in joined:
            plan.problems.append(plan.document.problem(here, message))
    borders = _centres(plan, spec, joined)
    for i, between in enumerate(spec.long_links):
        one, other = (borders[centre - 1] for centre in between.between)
        for pair_of_borders in zip(one, other, strict=True):
            plan.override(pair_of_borders, between, ("long_links", i))


def _joined(spec: DataCentresFile) -> list[tuple[int, int]]:
    """Return which centres have long links between them, from 0 on, the lower number first."""
    if spec.shape == "full":
        return list(itertools.combinations(range(spec.centres), 2))
    pairs = list(itertools.pairwise(range(spec.centres)))
    closed = spec.shape == "ring" and spec.centres > 2  # two have one link, not two
    return [*pairs, (0, spec.centres - 1)] if closed else pairs


def _centres(
    plan: Plan, spec: CentresFile, joined: Sequence[tuple[int, int]]
) -> Sequence[Sequence[str]]:
    """Plan data centres, and long links between those `joined`; return each one's borders."""
    count = 1 + max(there for _, there in joined)
    most = max(sum(centre in pair for pair in joined) for centre in range(count))
    plan.fits_leaf(spec.hosts_per_leaf, spec.spines, "hosts_per_leaf")
    plan.fits_spine(spec.leaves + spec.borders, "leaves")
    plan.fits_spine(spec.spines + most, "spines")
    for kind in ("link", "border_link", "long_link"):
        plan.settings_for(kind)
    names = [f"dc {1 + dc}" for dc in range(count)]
    leaves = [plan.switches(spec.leaves, "leaf", group=dc) for dc in names]
    spines = [plan.switches(spec.spines, "spine", group=dc) for dc in names]
    borders = [plan.switches(spec.borders, "border", group=dc) for dc in names]
    for dc, name in enumerate(names):
        _hosts_of_leaves(plan, leaves[dc], spec.hosts_per_leaf, group=name)
        _mesh(plan, leaves[dc], spines[dc])
        _mesh(plan, spines[dc], borders[dc], kind="border_link")
    for one, other in joined:
        for here, there in zip(borders[one], borders[other], strict=True):
            plan.link(here, there, "long_link")
    return borders


def _hosts_of_leaves(plan: Plan, leaves: Sequence[str], each: int, group: str = "") -> None:
    for leaf in leaves:
        for host in plan.hosts(each, group=group):
            plan.link(host, leaf, "host_link")


def _mesh(
    plan: Plan, below: Sequence[str], above: Sequence[str], each: int = 1, kind: str = "link"
) -> None:
    """Link every switch of `below` to every one of `above`, `each` times."""
    for low, high, _ in itertools.product(below, above, range(each)):
        plan.link(low, high, kind)


def _fan(plan: Plan, spines: Sequence[str], cores: Sequence[str]) -> None:
    """Link spine j of a pod to the j-th part of the cores. A core's port n leads to pod n."""
    each = len(cores) // len(spines)
    for j, spine in enumerate(spines):
        for core in cores[j * each : (j + 1) * each]:
            plan.link(spine, core, "core_link")
