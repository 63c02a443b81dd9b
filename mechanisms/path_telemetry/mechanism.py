"""Path telemetry as a mechanism: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controller.entries import Entry
from controller.parts import View
from mechanisms.contract import Mechanism, PathRecords
from mechanisms.path_telemetry.entries import (
    MOST_HOPS,
    NAME,
    PORT_TABLE,
    USE_TABLE,
    entries,
    hop_numbers,
)
from mechanisms.path_telemetry.settings import KEY, PATH_TELEMETRY
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology


@dataclass(frozen=True)
class PathTelemetryMechanism(Mechanism):
    """Switches that write into packets what these meet; senders' algorithms read it."""

    def features(self, topology: Topology) -> Iterable[str]:
        """Return the use of lines, where a class collects that."""
        settings = (each.setting(KEY) for each in topology.classes)
        return ("PATH_USE",) if any(s and s.format == "most-used" for s in settings) else ()

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield what ports count and write."""
        return entries(view)

    def path_records(self, topology: Topology) -> PathRecords:
        """Return which ports records name, and whose packets bring them."""
        settings = [(each, each.setting(KEY)) for each in topology.classes]
        found = [(each, s) for each, s in settings if s is not None and s.format == "hops"]
        places: dict[int, list[tuple[str, int]]] = {}
        for place, number in hop_numbers(topology).items() if found else ():
            places.setdefault(number, []).append(place)
        return PathRecords(
            {number: of[0] for number, of in places.items() if len(of) == 1},
            frozenset(dscp for each, _ in found for dscp in each.dscps),
            frozenset(dscp for each, setting in found if setting.monitor for dscp in each.dscps),
            f"give its class {KEY}: {{format: hops, monitor: true}}",
        )

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield fabrics whose ports have not enough numbers, and averages over several times."""
        settings = {each.name: each.setting(KEY) for each in topology.classes}
        told = {name: setting for name, setting in settings.items() if setting is not None}
        if not told:
            return
        ports = sum(len(topology.ports_of(switch.name)) for switch in topology.switches)
        if ports > MOST_HOPS:
            name = next(iter(told))
            message = f"numbers hops from 1 to {MOST_HOPS}, and switches have {ports} ports"
            right = "some share one: a sender may take two paths for one"
            path = (*prefix, "classes", name, KEY)
            yield Remark(Severity.WARNING, path, f"class {name}", message, right)
        averaged = {name: each for name, each in told.items() if each.format == "most-used"}
        if len({each.round_trip_ps for each in averaged.values()}) > 1:
            name = next(iter(averaged))
            message = "a port has one utilisation, averaged over the longest round_trip of all"
            right = f"give classes {', '.join(averaged)} the same round_trip"
            path = (*prefix, "classes", name, KEY)
            yield Remark(Severity.WARNING, path, f"class {name}", message, right)


MECHANISM = PathTelemetryMechanism(
    NAME,
    "path telemetry",
    settings=(PATH_TELEMETRY,),
    tables=frozenset({PORT_TABLE, USE_TABLE}),
)
