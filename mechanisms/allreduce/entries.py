"""What switches hold for AllReduce (p4src/modules/allreduce.p4): neighbours, groups, trees.

allreduce_port, multicast groups     of all trees, those not in use too: planned
allreduce_edge, allreduce_tree       of the trees that have tree bits: learned, as these change
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.entries import Entry, Exact, MulticastGroup, TableEntry, call, match
from controller.parts import View
from controller.target_facts import TargetFacts
from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.servers import PATIENCE_MOST, PATIENCE_PS, PATIENCE_SHIFT, place_in_pool
from mechanisms.allreduce.settings import KEY
from mechanisms.allreduce.trees import JobPlan, Node, Plan, Tree, plan_of

NAME = KEY
PORT_TABLE = "allreduce_port"
EDGE_TABLE = "allreduce_edge"
TREE_TABLE = "allreduce_tree"


def entries(view: View) -> Iterator[Entry]:
    """Yield what one switch holds whichever trees are in use.

    Nothing while switched off, or where jobs do not fit: lint says why, and so does a controller
    that starts (`mechanism.learner`).
    """
    if view.topology.setting(KEY) is None or NAME in view.policy.off:
        return
    try:
        plan = plan_of(view.topology)
    except PlanError:
        return
    if not plan.jobs:
        return
    for ports, group in plan.groups.get(view.switch.name, {}).items():
        yield MulticastGroup(group, tuple((port, port) for port in ports))
    yield from _neighbours(view)


def _neighbours(view: View) -> Iterator[Entry]:
    """Yield how packets are addressed by the port that they leave by."""
    topology, mac = view.topology, _number(view.switch.mac)
    hosts = {each.port: each for each in topology.interfaces_of(view.switch.name)}
    for port in topology.ports_of(view.switch.name):
        host = hosts.get(port.number)
        if host is None:
            address = call("address_allreduce_to_neighbour", src_mac=mac)
        else:
            address = call(
                "address_allreduce_to_host",
                src_mac=mac,
                dst_mac=_number(host.mac),
                address=int(host.address.ip),
            )
        yield TableEntry(PORT_TABLE, match(port=Exact(port.number)), address)


def tree_entries(
    plan: Plan, job: JobPlan, bits: int, tree: Tree, facts: TargetFacts
) -> dict[str, tuple[TableEntry, ...]]:
    """Return what the switches of a tree hold that has a job's tree bits."""
    return {
        name: tuple(_node_entries(plan, job, bits, name, node, facts))
        for name, node in tree.nodes.items()
    }


def _node_entries(
    plan: Plan, job: JobPlan, bits: int, switch: str, node: Node, facts: TargetFacts
) -> Iterator[TableEntry]:
    assert job.base is not None, "a job that runs has slots"
    groups = plan.groups[switch]
    key = {"job": Exact(job.number), "tree": Exact(bits)}
    common = {
        "slots": job.slots,
        "parent": node.parent or 0,
        "children_group": groups[node.children],
        "flood_group": groups[node.neighbours],
        "class_of_service": min(plan.queue, facts.priorities - 1),
    }
    if job.server is None:
        children = (1 << len(node.ports)) - 1
        root = 1 if node.parent is None else 0
        use = call("set_allreduce_tree", base=job.base, children=children, root=root, **common)
        joins = [call("join_from_child", index=index) for index in range(len(node.ports))]
    else:
        ticks = facts.ticks(PATIENCE_PS) >> PATIENCE_SHIFT
        use = call(
            "set_allreduce_pool",
            **place_in_pool(job.number, plan.setting.best_effort.pool),
            workers=sum(node.covers),
            patience=min(max(ticks, 1), PATIENCE_MOST),
            **common,
        )
        joins = [call("join_pool_from_child", workers=cover) for cover in node.covers]
    yield TableEntry(TREE_TABLE, match(**key), use)
    for port, child in zip(node.ports, joins, strict=True):
        yield TableEntry(EDGE_TABLE, match(port=Exact(port), **key), child)
    if node.parent is not None:
        parent = call("join_from_parent")
        yield TableEntry(EDGE_TABLE, match(port=Exact(node.parent), **key), parent)


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)
