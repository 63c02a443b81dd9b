"""Load balancing as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
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
    entries,
    group_entry,
    groups,
    ports_to_switches,
    share_entries,
)
from mechanisms.dlb.reports import LEAVES, MOST_LEAVES, room, routes_of, ticker
from mechanisms.dlb.reports import MODE_TABLE as REPORT_TABLE
from mechanisms.dlb.settings import (
    KEY,
    LOAD_BALANCING,
    PATH_REPORTS,
    PORTS,
    has_weights,
    reports_of,
)
from mechanisms.dlb.words import WORDS
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Switch, Topology
from topologies.tickers import Ticker


@dataclass(frozen=True)
class LoadBalancingMechanism(Mechanism):
    """Switches that choose among equally short paths by the policy of a packet's class."""

    def features(self, topology: Topology) -> Iterable[str]:
        """Return GLB where a policy compares paths, not ports alone; weights where one has them."""
        if reports_of(topology) is not None:
            yield "GLB"
        if has_weights(topology):
            yield "DLB_WEIGHTS"

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return room for all leaves in reports; the module has 64."""
        if reports_of(topology) is None or room(topology) == LEAVES:
            return {}
        return {"GLB_LEAVES": room(topology)}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield policies and ports."""
        return entries(view)

    def tickers(self, topology: Topology, switch: Switch) -> Iterator[Ticker]:
        """Yield what makes switches look at what lies behind their ports."""
        reports, ports = reports_of(topology), ports_to_switches(topology, switch)
        if reports is not None and 0 < len(ports) <= PORTS:
            yield ticker(topology, reports, len(ports))

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        """Return the ports of each group, by its number."""
        return groups(view, ways)

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        """Yield one group."""
        assert isinstance(key, int) and isinstance(value, tuple)
        yield group_entry(view, key, value)
        if has_weights(view.topology):
            yield from share_entries(view, key, value)

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that there are too many leaves, or a switch's links to others."""
        if not self.holds(topology):
            return
        leaves = 0 if reports_of(topology) is None else len(routes_of(topology).leaves)
        if leaves > MOST_LEAVES:
            message = (
                f"{topology.name} has {leaves} leaves and reports of paths have room for "
                f"{MOST_LEAVES}: packets take ports by their own state, as with packet-dlb"
            )
            yield Remark(Severity.WARNING, prefix, topology.name, message, "use fewer leaves")
        for switch in topology.switches:
            links = len(ports_to_switches(topology, switch))
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
    settings=(LOAD_BALANCING, PATH_REPORTS),
    tables=frozenset({CLASS_TABLE, MODE_TABLE, REPORT_TABLE}),
    counters=(COUNTER,),
    words=WORDS,
)
