"""BMv2's multicast nodes and LAGs, of which P4Runtime's groups of replicas are made.

They are kept in the switch's ledger. Groups from another client are taken as one node for each
instance that they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compat.bmv2_cli.ledger import Section
from softswitch.diagnostics import DiagnosticsClient

Replicas = list[tuple[int, int]]
"""(egress port, instance)."""

LAG_HASH = 0xFF
"""What BMv2 picks a LAG's member by: always this, so always the same one."""


@dataclass(slots=True)
class Node:
    """A node: its ports and LAGs, and the group that it is in."""

    rid: int
    ports: list[int]
    lags: list[int] = field(default_factory=list)
    group: int | None = None
    place: int = 0
    """Its turn in the group."""


class Nodes:
    """The nodes, LAGs and groups of a switch; `mirrored` has groups by mirroring session."""

    def __init__(self, diagnostics: DiagnosticsClient) -> None:
        self.nodes: dict[int, Node] = {}
        self.lags: dict[int, list[int]] = {}
        self.groups: dict[int, int] = {}  # when each was made
        self.mirrored: dict[int, int] = {}
        self._section = Section(diagnostics, "multicast")

    def meet(self, groups: dict[int, Replicas]) -> None:
        """Take over what other sessions kept, and make it true to the groups that are there."""
        if self._section.look():
            self._read()
        for gone in set(self.groups) - set(groups):
            self.drop_group(gone)
        for number, replicas in groups.items():
            self.groups.setdefault(number, self._turn())
            if sorted(self.replicas(number)) == sorted(replicas):
                continue
            for handle in [h for h, node in self.nodes.items() if node.group == number]:
                del self.nodes[handle]
            by_rid: dict[int, list[int]] = {}
            for port, rid in replicas:
                by_rid.setdefault(rid, []).append(port)
            for rid, ports in by_rid.items():
                node = Node(rid, sorted(ports), group=number, place=self._turn())
                self.nodes[self.free_handle()] = node

    def free_handle(self) -> int:
        """Return the lowest free node handle."""
        return next(number for number in range(len(self.nodes) + 1) if number not in self.nodes)

    def add_group(self, number: int) -> None:
        """Add a new group."""
        self.groups.setdefault(number, self._turn())

    def drop_group(self, number: int) -> None:
        """Remove a group; as in BMv2 its nodes stay and then belong to no group."""
        self.groups.pop(number, None)
        for node in self.of_group(number):
            node.group = None

    def associate(self, node: Node, group: int) -> None:
        """Put a node at the end of a group."""
        node.group, node.place = group, self._turn()

    def of_group(self, number: int) -> list[Node]:
        """Return a group's nodes in order."""
        found = [node for node in self.nodes.values() if node.group == number]
        return sorted(found, key=lambda node: node.place)

    def replicas(self, number: int) -> Replicas:
        """Return the replicas that a group's nodes and LAGs amount to."""
        return [
            (port, node.rid)
            for node in self.of_group(number)
            for port in [*node.ports, *self._of_lags(node.lags)]
        ]

    def newest_groups(self) -> list[int]:
        """Return the groups in BMv2's order of a dump: the newest first."""
        return sorted(self.groups, key=lambda number: -self.groups[number])

    def keep(self) -> None:
        """Write everything into the switch's ledger."""
        rows: dict[str, object] = {}
        for handle, node in self.nodes.items():
            rows[f"n{handle}"] = [node.rid, node.ports, node.lags, node.group, node.place]
        for number, ports in self.lags.items():
            rows[f"l{number}"] = ports
        for number, turn in self.groups.items():
            rows[f"g{number}"] = turn
        for number, group in self.mirrored.items():
            rows[f"m{number}"] = group
        before = self._section.rows
        changed = {name: row for name, row in rows.items() if before.get(name) != row}
        self._section.change(changed, set(before) - set(rows))

    def _read(self) -> None:
        for known in (self.nodes, self.lags, self.groups, self.mirrored):
            known.clear()
        for name, row in self._section.rows.items():
            number = int(name[1:])
            match name[0]:
                case "n":
                    self.nodes[number] = Node(*row)
                case "l":
                    self.lags[number] = row
                case "g":
                    self.groups[number] = row
                case _:
                    self.mirrored[number] = row

    def _turn(self) -> int:
        turns = [*self.groups.values(), *(node.place for node in self.nodes.values())]
        return max(turns, default=0) + 1

    def _of_lags(self, numbers: Sequence[int]) -> Iterable[int]:
        for number in numbers:
            ports = self.lags.get(number)
            if ports:
                yield ports[LAG_HASH % len(ports)]
