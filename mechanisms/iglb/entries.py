"""What switches hold for iGLB whatever the plan is: ports that pins name, and whose flows have one.

The plan's own entries are `mechanisms.iglb.pins`.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.entries import ActionSet, Entry, Exact, TableEntry, call, match
from controller.parts import View
from mechanisms.iglb.settings import KEY, Pinning, setting_of
from topologies.model import Topology
from workloads.schema import ROCE_DSCP

NAME = KEY
PLAN_TABLE = "iglb_plan"
PIN_TABLE = "iglb_pin"
PORT_TABLE = "iglb_port"
SOURCE_TABLE = "iglb_source"
IGNORE_PLANS = call("ignore_plans")


def entries(view: View) -> Iterator[Entry]:
    """Yield all that one switch holds; it depends on no route.

    Where source ports lead flows, they have no pins, and none is missed.
    """
    topology = view.topology
    setting = setting_of(topology)
    if setting is None:
        return
    ports = topology.ports_of(view.switch.name)
    for port in ports:
        if topology.is_switch(port.peer.node):
            use = ((call("use_pinned_port", next_hop=port.number), 1),)
            watch = (port.number,) if view.facts.watches_ports else ()
            yield TableEntry(PORT_TABLE, match(next_hop=Exact(port.number)), ActionSet(use, watch))
    for port in ports if setting.pinning is Pinning.ENTRIES else ():
        if not topology.is_switch(port.peer.node):
            for dscp in planned_dscps(topology):
                key = match(port=Exact(port.number), dscp=Exact(dscp))
                yield TableEntry(SOURCE_TABLE, key, call("expect_pins"))


def planned_dscps(topology: Topology) -> tuple[int, ...]:
    """Return the DSCPs of packets whose flows jobs declare: of lossless classes, or RoCE's own."""
    lossless = [dscp for each in topology.classes if each.lossless for dscp in each.dscps]
    return tuple(lossless) or (ROCE_DSCP,)
