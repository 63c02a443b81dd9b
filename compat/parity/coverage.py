"""What packets met on their way through a program, and how much of the program that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compat.parity.cases import Packet, Seen
from softswitch.p4runtime.schema import Schema
from softswitch.tracing.records import Condition, Lookup, PacketTrace, Parsed, State

Mark = tuple[object, ...]
"""A branch of the program that a packet took: a parser's state, one side of an `if`, a table with
hit or miss and the action that ran, or how the packet ended."""

TableKey = tuple[str, tuple[int, ...]]
"""A table, and the values that a packet was looked up with, in the JSON's order."""


@dataclass(frozen=True)
class Watched:
    """What one packet met: `marks`, the `keys` that it was looked up with, those of them that were
    `missed`, and whether anything came out (`answered`)."""

    marks: frozenset[Mark] = frozenset()
    keys: tuple[TableKey, ...] = ()
    missed: frozenset[TableKey] = frozenset()
    answered: bool = False

    @staticmethod
    def of(trace: PacketTrace, answered: bool) -> Watched:
        """Return what a trace covers."""
        marks: set[Mark] = set()
        keys: list[TableKey] = []
        missed: set[TableKey] = set()
        for branch in trace.branches:
            marks.add((branch.origin, branch.outcome))
            for step in branch.steps:
                match step:
                    case State():
                        marks.add(("state", step.name))
                    case Parsed():
                        marks.add(("parsed", step.error, step.checksum_error))
                    case Condition():
                        marks.add(("if", step.where, step.text, step.value))
                    case Lookup():
                        marks.add(("table", step.table, step.hit, step.action))
                        key = step.table, tuple(part.value for part in step.key)
                        keys.append(key)
                        if not step.hit:
                            missed.add(key)
        return Watched(frozenset(marks), tuple(keys), frozenset(missed), answered)


def marks_of(watched: Iterable[Watched]) -> frozenset[Mark]:
    """Return all branches that any of these packets took."""
    found: set[Mark] = set()
    for one in watched:
        found |= one.marks
    return frozenset(found)


@dataclass
class Coverage:
    """What all packets of a run together did to a program.

    Packets: those of which a copy left as it came (`unchanged`), left otherwise (`changed`), and
    those that were `dropped`. Of the program's tables (`of_tables`) those that an entry was `hit`
    in, and of each table's actions (`of_actions`) those that `ran` there.
    """

    changed: int = 0
    unchanged: int = 0
    dropped: int = 0
    of_tables: int = 0
    of_actions: int = 0
    hit: set[str] = field(default_factory=set)
    ran: set[tuple[str, str]] = field(default_factory=set)

    @staticmethod
    def of(schema: Schema) -> Coverage:
        """Return the coverage of no packets."""
        tables = schema.tables.values()
        return Coverage(of_tables=len(tables), of_actions=sum(len(t.actions) for t in tables))

    def add(
        self,
        schema: Schema,
        packets: Iterable[Packet],
        seen: Iterable[Seen],
        watched: Iterable[Watched],
    ) -> None:
        """Count a round in."""
        for packet, answer in zip(packets, seen, strict=True):
            payloads = [payload for payload, _ in answer.packet_ins]
            came_out = [frame for frames in answer.frames.values() for frame in frames] + payloads
            if not answer.count:
                self.dropped += 1
            elif packet.data in came_out:
                self.unchanged += 1
            else:
                self.changed += 1
        actions = {
            table.name: {ref.action.name for ref in table.actions.values()}
            for table in schema.tables.values()
        }
        for mark in marks_of(watched):
            match mark:
                case ("table", str(table), hit, str(action)) if table in actions:
                    if hit:
                        self.hit.add(table)
                    if action in actions[table]:
                        self.ran.add((table, action))

    def tables_text(self) -> str:
        """Return how many tables and actions the packets met, of how many."""
        return (
            f"{len(self.hit)} of {self.of_tables} tables hit, "
            f"{len(self.ran)} of {self.of_actions} actions run"
        )

    def as_json(self) -> dict[str, int]:
        """Return the coverage's numbers."""
        return {
            "changed": self.changed,
            "unchanged": self.unchanged,
            "dropped": self.dropped,
            "tables_hit": len(self.hit),
            "tables": self.of_tables,
            "actions_run": len(self.ran),
            "actions": self.of_actions,
        }
