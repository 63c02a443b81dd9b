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
    DualPlaneFile,
    FatTreeFile,
    LeafSpineFile,
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
        case TwoDcFile():
            _two_dc(plan, spec)
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
    plan.fits_spine(spec.groups * spec.rails if spec.spines else 0, "groups")
    plan.settings_for("link")
    groups = [plan.switches(spec.rails, "leaf", group=f"group {1 + g}") for g in range(spec.groups)]
    spines = plan.switches(spec.spines, "spine")
    for g, leaves in enumerate(groups):
        for host in plan.hosts(spec.hosts_per_group, group=f"group {1 + g}"):
            for rail, leaf in enumerate(leaves):
                plan.link(f"{host}:{rail}", leaf, "host_link")
    _mesh(plan, [leaf for leaves in groups for leaf in leaves], spines)


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
    # Spine j of every pod meets the j-th half of the cores; a core's port n leads to pod n.
    for of_pod in spines:
        for j, spine in enumerate(of_pod):
            for core in cores[j * half : (j + 1) * half]:
                plan.link(spine, core, "core_link")


def _dual_plane(plan: Plan, spec: DualPlaneFile) -> None:
    plan.fits_leaf(spec.hosts_per_leaf, spec.spines, "hosts_per_leaf")
    plan.fits_spine(spec.leaves, "leaves")
    plan.settings_for("link")
    names = ("plane A", "plane B")
    leaves = [plan.switches(spec.leaves, "leaf", group=plane) for plane in names]
    spines = [plan.switches(spec.spines, "spine", group=plane) for plane in names]
    hosts = plan.hosts(spec.leaves * spec.hosts_per_leaf)
    for i, host in enumerate(hosts):
        for plane in range(len(names)):
            plan.link(f"{host}:{plane}", leaves[plane][i // spec.hosts_per_leaf], "host_link")
    for below, above in zip(leaves, spines, strict=True):
        _mesh(plan, below, above)


def _two_dc(plan: Plan, spec: TwoDcFile) -> None:
    plan.fits_leaf(spec.hosts_per_leaf, spec.spines, "hosts_per_leaf")
    plan.fits_spine(spec.leaves + spec.borders, "leaves")
    plan.fits_spine(spec.spines + 1, "spines")
    for kind in ("link", "border_link", "long_link"):
        plan.settings_for(kind)
    names = ("dc 1", "dc 2")
    leaves = [plan.switches(spec.leaves, "leaf", group=dc) for dc in names]
    spines = [plan.switches(spec.spines, "spine", group=dc) for dc in names]
    borders = [plan.switches(spec.borders, "border", group=dc) for dc in names]
    for dc, name in enumerate(names):
        _hosts_of_leaves(plan, leaves[dc], spec.hosts_per_leaf, group=name)
        _mesh(plan, leaves[dc], spines[dc])
        _mesh(plan, spines[dc], borders[dc], kind="border_link")
    for here, there in zip(*borders, strict=True):
        plan.link(here, there, "long_link")


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
