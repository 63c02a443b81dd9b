"""The class that packets of AllReduce travel in: its DSCP and its queue."""

from __future__ import annotations

from topologies.model import Topology, TrafficClass
from workloads.schema import ROCE_DSCP

_DSCPS = 64


def class_of(topology: Topology, name: str | None) -> TrafficClass | None:
    """Return the class called `name`; without a name that of RoCE data, else the lowest one.

    None where a topology has no classes. Raises KeyError for a name that no class has.
    """
    if name is not None:
        return {each.name: each for each in topology.classes}[name]
    roce = next((each for each in topology.classes if ROCE_DSCP in each.dscps), None)
    return roce or min(topology.classes, key=lambda each: each.queue or 0, default=None)


def dscp_of(topology: Topology, of: TrafficClass | None) -> int:
    """Return the DSCP by which a packet is in a class: its first, or one that no other class has.

    0 where there are no classes.
    """
    if of is None:
        return 0
    if of.dscps:
        return of.dscps[0]
    others = {dscp for each in topology.classes for dscp in each.dscps}
    return next((dscp for dscp in range(_DSCPS) if dscp not in others), 0)
