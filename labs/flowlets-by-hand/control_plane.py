"""What the control plane writes into the learner's switch, as rows that any runtime can take.

host --+                  +-- way 0: a port, and the MAC address behind it
       |-- leaf: group ---+-- way 1
host --+   gap, live      +-- ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r

SLOTS = 12
"""As in starter.p4: of each group, spread evenly over the ways that are up."""

Prefix = tuple[int, int]
"""An IPv4 address and how many of its bits count."""


@dataclass(frozen=True)
class Hop:
    """Where a packet goes next: the port that it leaves by, and the MAC address behind it."""

    port: int
    mac: int


@dataclass(frozen=True)
class Group:
    """Equally short ways to the hosts of some prefixes.

    `gap`: a pause of so many ticks of the switch ends a flowlet. `down`: ways that are not there.
    """

    number: int
    gap: int
    ways: tuple[Hop, ...]
    prefixes: tuple[Prefix, ...]
    down: frozenset[int] = frozenset()

    @property
    def live(self) -> list[int]:
        """The ways that are up."""
        return [way for way in range(len(self.ways)) if way not in self.down]


@dataclass(frozen=True)
class Leaf:
    """A switch: its MAC address, the hosts that it reaches directly by address, its groups."""

    mac: int
    hosts: tuple[tuple[int, Hop], ...]
    groups: tuple[Group, ...] = ()

    def group(self, number: int) -> Group:
        """Return one of its groups."""
        return next(each for each in self.groups if each.number == number)

    def without(self, group: int, *ways: int) -> Leaf:
        """Return the same while just these ways of a group are down."""
        groups = tuple(
            replace(each, down=frozenset(ways)) if each.number == group else each
            for each in self.groups
        )
        return replace(self, groups=groups)


@dataclass(frozen=True)
class Row:
    """An entry of a table: its keys and parameters by name, in the program's order."""

    table: str
    match: tuple[tuple[str, int | Prefix], ...]
    action: str
    params: tuple[tuple[str, int], ...]

    @property
    def command(self) -> str:
        """The entry in simple_switch_CLI's words."""
        keys = " ".join(_shown(value) for _, value in self.match)
        params = " ".join(str(value) for _, value in self.params)
        return f"table_add {self.table} {self.action} {keys} => {params}"


def _shown(value: int | Prefix) -> str:
    if isinstance(value, int):
        return str(value)
    address, length = value
    return ".".join(str(byte) for byte in address.to_bytes(4)) + f"/{length}"


def rows(leaf: Leaf) -> list[Row]:
    """Return all entries of a switch."""
    return list(_rows(leaf))


def _rows(leaf: Leaf) -> Iterator[Row]:
    for address, hop in leaf.hosts:
        yield Row("route", (("dst", (address, 32)),), "forward", _forward(leaf, hop))
    for group in leaf.groups:
        key = ("group", group.number)
        for prefix in group.prefixes:
            yield Row("route", (("dst", prefix),), "to_group", (key,))
        live = group.live
        gap = (("live", sum(1 << way for way in live)), ("gap", group.gap))
        yield Row("ways", (key,), "spread_over", gap)
        for slot in range(SLOTS if live else 0):
            way = live[slot * len(live) // SLOTS]
            yield Row("way_of_slot", (key, ("slot", slot)), "take", (("way", way),))
        for way in live:
            forward = _forward(leaf, group.ways[way])
            yield Row("uplink", (key, ("way", way)), "forward", forward)


def _forward(leaf: Leaf, hop: Hop) -> tuple[tuple[str, int], ...]:
    return ("port", hop.port), ("src_mac", leaf.mac), ("dst_mac", hop.mac)


def updates(names: Names, before: Iterable[Row], after: Iterable[Row]) -> list[p4r.Update]:
    """Return what turns one list of entries into another. Raises UnknownName."""
    old = {(row.table, row.match): row for row in before}
    new = {(row.table, row.match): row for row in after}
    found = []
    # A way that is gone is taken by nobody any more when its entry goes: its deletion comes last.
    for key, row in new.items():
        if old.get(key) != row:
            kind = p4r.Update.MODIFY if key in old else p4r.Update.INSERT
            found.append(p4r.Update(type=kind, entity=_entity(names, row)))
    for key, row in old.items():
        if key not in new:
            found.append(p4r.Update(type=p4r.Update.DELETE, entity=_entity(names, row)))
    return found


def _entity(names: Names, row: Row) -> p4r.Entity:
    entry = names.entry(row.table, dict(row.match), row.action, dict(row.params))
    return p4r.Entity(table_entry=entry)
