"""Load balancing as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from controller.entries import Entry
from controller.leaf_routes import Ways
from controller.parts import View
from mechanisms.contract import Mechanism
from mechanisms.dlb.counters import DLB as COUNTER
from mechanisms.dlb.entries import (
    CLASS_TABLE,
    MODE_TABLE,
    NAME,
    PORTS,
    entries,
    group_entry,
    groups,
)
from mechanisms.dlb.settings import KEY, LOAD_BALANCING
from mechanisms.dlb.words import WORDS
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology


@dataclass(frozen=True)
class LoadBalancingMechanism(Mechanism):
    """Switches that choose among equally short paths by the policy of a packet's class."""

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield policies and ports."""
        return entries(view)

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        """Return the ports of each group, by its number."""
        return groups(view, ways)

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        """Yield one group."""
        assert isinstance(key, int) and isinstance(value, tuple)
        yield group_entry(view, key, value)

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that a switch has too many links to others."""
        if not self.holds(topology):
            return
        for switch in topology.switches:
            ports = topology.ports_of(switch.name)
            links = sum(topology.is_switch(port.peer.node) for port in ports)
            if links > PORTS:
                message = (
                    f"{switch.name} has {links} links to switches and {KEY} serves {PORTS}: its "
                    "packets take ECMP, which is the same where it has one way to each leaf"
                )
                yield Remark(Severity.WARNING, prefix, switch.name, message, "use smaller switches")
                return


MECHANISM = LoadBalancingMechanism(
    NAME,
    "load balancing",
    settings=(LOAD_BALANCING,),
    tables=frozenset({CLASS_TABLE, MODE_TABLE}),
    counters=(COUNTER,),
    words=WORDS,
)
