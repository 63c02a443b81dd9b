"""Entries as rows to read: names instead of ids, addresses as addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.entries import (
    ActionCall,
    ActionSet,
    CloneSession,
    DefaultEntry,
    DigestSetting,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    MatchValue,
    Member,
    MemberRef,
    MulticastGroup,
    Range,
    TableAction,
    TableEntry,
    Ternary,
)
from controller.p4info import Field, P4Info
from controller.value_text import show_value


@dataclass(frozen=True)
class TableRow:
    """One row: the table (or action profile), its key, what it does, and its priority (0: none)."""

    table: str
    key: str
    action: str
    priority: int = 0


def table_rows(entries: Iterable[Entry], p4info: P4Info) -> list[TableRow]:
    """Return rows in the program's order of tables, then as the switch gave them."""
    order = {table.alias: i for i, table in enumerate(p4info.tables.all)}
    rows = [_row(entry, p4info) for entry in entries]
    return sorted(rows, key=lambda row: order.get(row.table, len(order)))


def _row(entry: Entry, p4info: P4Info) -> TableRow:
    match entry:
        case TableEntry():
            table = p4info.tables[entry.table]
            key = ", ".join(
                f"{name} {_match(value, p4info.field(table, name))}" for name, value in entry.match
            )
            return TableRow(
                entry.table, key or "any", _action(entry.action, p4info), entry.priority
            )
        case DefaultEntry():
            return TableRow(entry.table, "(default)", _action(entry.action, p4info))
        case Member():
            key = f"member {entry.member}"
            return TableRow(entry.profile, key, _action(entry.action, p4info))
        case Group():
            members = ", ".join(
                str(member) if weight == 1 else f"{member} x{weight}"
                for member, weight in entry.members
            )
            return TableRow(entry.profile, f"group {entry.group}", f"one of members {members}")
        case CloneSession():
            ports = ", ".join(f"port {port}" for port, _ in entry.replicas)
            return TableRow("clone session", str(entry.session), f"to {ports}")
        case MulticastGroup():
            ports = ", ".join(f"port {port}" for port, _ in entry.replicas)
            return TableRow("multicast group", str(entry.group), f"to {ports}")
        case DigestSetting():
            lists = f"lists of {entry.max_list}, after {entry.max_wait_ns} ns at most"
            return TableRow("digest", entry.digest, lists)


def _action(action: TableAction, p4info: P4Info) -> str:
    match action:
        case ActionCall(name, arguments):
            given = dict(arguments)
            shown = ", ".join(
                f"{param.name}={show_value(given[param.name], param.meaning)}"
                for param in p4info.actions[name].params
                if param.name in given
            )
            return f"{name}({shown})"
        case MemberRef(member):
            return f"member {member}"
        case GroupRef(group):
            return f"group {group}"
        case ActionSet(actions, watch):
            ports = watch or (0,) * len(actions)
            return "one of " + ", ".join(
                _action(one, p4info)
                + (f" x{weight}" if weight != 1 else "")
                + (f" while port {port} is up" if port else "")
                for (one, weight), port in zip(actions, ports, strict=True)
            )


def _match(value: MatchValue, field: Field) -> str:
    match value:
        case Exact(number):
            return show_value(number, field.meaning)
        case Lpm(number, length):
            return f"{show_value(number, field.meaning)}/{length}"
        case Ternary(number, mask) if mask == (1 << field.bits) - 1:
            return show_value(number, field.meaning)
        case Ternary(number, mask):
            return f"{show_value(number, field.meaning)} & {mask:#x}"
        case Range(low, high):
            return f"{show_value(low, field.meaning)}..{show_value(high, field.meaning)}"
