"""Pins: from a plan to the entries that make switches send its flows along their paths. Pure.

A flow has a pin wherever the whole fabric offers it several ways: at its leaf, and in three tiers
at the aggregation switch that its leaf sends it to. From the top down there is one way, and only a
flow that is planned around a failure, and takes another, has a pin there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.entries import DefaultEntry, Entry, Exact, TableEntry, call, match
from controller.leaf_routes import Routes
from mechanisms.iglb.entries import IGNORE_PLANS, PIN_TABLE, PLAN_TABLE
from topologies.model import Topology

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Flow: TypeAlias = tuple[int, int, int]
"""Addresses of source and target, and the UDP source port."""

SwitchPins: TypeAlias = Mapping[Flow, int]
"""What one switch does with flows: the port that each takes."""

Key: TypeAlias = tuple[int, Flow]
"""Of a pin: version and flow."""

VERSIONS = (1 << 16) - 1


@dataclass(frozen=True)
class Pins:
    """The ports of flows by switch: at the switch that they come in by, and at those behind it."""

    first: Mapping[str, SwitchPins] = field(default_factory=dict)
    further: Mapping[str, SwitchPins] = field(default_factory=dict)

    @property
    def switches(self) -> set[str]:
        """Those that have any."""
        return {*self.first, *self.further}

    def at(self, switch: str) -> dict[Flow, int]:
        """Return all of one switch."""
        return {**self.first.get(switch, {}), **self.further.get(switch, {})}

    def of_all(self) -> dict[str, dict[Flow, int]]:
        """Return all by switch."""
        return {switch: self.at(switch) for switch in sorted(self.switches)}


NO_PINS = Pins()


class PinMaker:
    """Makes the pins of plans in one fabric."""

    def __init__(self, topology: Topology) -> None:
        routes = Routes.of(topology)
        names = [switch.name for switch in topology.switches]
        leaf = {switch.name: place for place, switch in enumerate(routes.leaves)}
        interfaces = tuple(topology.interfaces())
        ends = [end for link in topology.links for end in (link.a, link.b)]
        number = {name: n for n, name in enumerate(names)}
        self._names = names
        self._leaf = np.array([leaf[each.switch] for each in interfaces], dtype=np.int64)
        self._address = [int(each.address.ip) for each in interfaces]
        self._tail = np.array([number.get(end.node, -1) for end in ends], dtype=np.int64)
        self._port = np.array([end.port for end in ends], dtype=np.int64)
        self._only = np.array(
            [
                [way.ports[0] if way is not None and len(way.ports) == 1 else -1 for way in row]
                for row in map(routes.row, names)
            ],
            dtype=np.int64,
        ).reshape(len(names), len(leaf))

    def choices(self, target: Ints, arcs: Ints) -> Bools:
        """Say at which hops flows have several ways, or take another: n x hops, as `arcs`."""
        tail = self._tail[arcs]
        only = self._only[tail, self._leaf[target][:, None]]
        found: Bools = (only != self._port[arcs]) & (arcs >= 0) & (tail >= 0)
        return found

    def through(self, arcs: Ints, switches: set[str]) -> Bools:
        """Say which flows leave one of these switches for another."""
        known = np.array([name in switches for name in self._names], dtype=np.bool_)
        found: Bools = np.asarray(((arcs >= 0) & known[self._tail[arcs]]).any(axis=1))
        return found

    def pins(self, source: Ints, target: Ints, udp_port: Ints, arcs: Ints, by_entry: Bools) -> Pins:
        """Return the pins of flows that are to have some: arrays of n flows, `arcs` n x hops."""
        first: dict[str, dict[Flow, int]] = {}
        further: dict[str, dict[Flow, int]] = {}
        chooses = self.choices(target, arcs) & by_entry[:, None]
        address = self._address
        flows: list[Flow] = [
            (address[a], address[b], port)
            for a, b, port in zip(source.tolist(), target.tolist(), udp_port.tolist(), strict=True)
        ]
        for hop in range(arcs.shape[1]):
            where = np.flatnonzero(chooses[:, hop])
            arc = arcs[where, hop]
            into = further if hop else first
            for flow, switch, port in zip(
                where.tolist(), self._tail[arc].tolist(), self._port[arc].tolist(), strict=True
            ):
                into.setdefault(self._names[switch], {})[flows[flow]] = port
        return Pins(first, further)


def pin(version: int, flow: Flow, port: int) -> TableEntry:
    """Return the entry by which a switch that follows a version sends a flow to a port."""
    source, target, udp_port = flow
    key = match(
        version=Exact(version), src=Exact(source), dst=Exact(target), udp_port=Exact(udp_port)
    )
    return TableEntry(PIN_TABLE, key, call("pin_flow", next_hop=port))


def follow(version: int) -> DefaultEntry:
    """Return what makes a switch follow a version; 0: none."""
    use = call("follow_plan", number=version) if version else IGNORE_PLANS
    return DefaultEntry(PLAN_TABLE, use)


def followed(there: Iterable[Entry]) -> int:
    """Return the version that a switch follows which holds `there`; 0: none."""
    told = (e for e in there if isinstance(e, DefaultEntry) and e.table == PLAN_TABLE)
    return next((dict(entry.action.arguments).get("number", 0) for entry in told), 0)


def after(version: int) -> int:
    """Return the version behind one; never 0."""
    return version % VERSIONS + 1


def missing(wanted: SwitchPins, there: SwitchPins) -> dict[Flow, int]:
    """Return the pins of `wanted` that are not among `there`, or lead elsewhere."""
    return {flow: port for flow, port in wanted.items() if there.get(flow) != port}


def entries(version: int, pins: SwitchPins) -> Iterator[TableEntry]:
    """Yield the entries of one switch's pins."""
    return (pin(version, flow, port) for flow, port in pins.items())


def entries_of(keys: Mapping[str, set[Key]]) -> dict[str, tuple[TableEntry, ...]]:
    """Return entries with these keys, to take them away."""
    return {
        switch: tuple(pin(version, flow, 0) for version, flow in sorted(each))
        for switch, each in keys.items()
    }


def all_missing(
    wanted: Mapping[str, SwitchPins], there: Mapping[str, SwitchPins]
) -> dict[str, dict[Flow, int]]:
    """Return what is missing by switch, where there is any."""
    found = {switch: missing(each, there.get(switch, {})) for switch, each in wanted.items()}
    return {switch: each for switch, each in sorted(found.items()) if each}


def different(before: Pins, behind: Pins) -> int:
    """Return how many flows of both go elsewhere."""
    flows: set[Flow] = set()
    known = {flow for each in before.first.values() for flow in each}
    for old, new in ((before.first, behind.first), (before.further, behind.further)):
        for each in all_missing(new, old).values():
            flows |= each.keys() & known
    return len(flows)


def all_but(pins: Pins, old: Pins, stay: set[Flow]) -> Pins:
    """Return pins with those of some flows as they were."""

    def of(
        new: Mapping[str, SwitchPins], before: Mapping[str, SwitchPins]
    ) -> dict[str, dict[Flow, int]]:
        return {
            switch: {
                **{f: p for f, p in new.get(switch, {}).items() if f not in stay},
                **{f: p for f, p in before.get(switch, {}).items() if f in stay},
            }
            for switch in new.keys() | before.keys()
        }

    return Pins(of(pins.first, old.first), of(pins.further, old.further))
