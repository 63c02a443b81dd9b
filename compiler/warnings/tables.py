"""Warnings on tables: keys, sizes, entries and their priorities."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import Reporter
from compiler.syntax import ast

BMV2_UNKNOWN = ("largest_priority_wins", "priority_delta")
"""Properties of the language that BMv2's back end has no use for after the front end."""


def warn_tables(tables: Iterable[ast.TableDecl], reporter: Reporter) -> None:
    """Report on each table that a program needs."""
    for table in tables:
        _keys(table, reporter)
        _size(table, reporter)
        _priorities(table, reporter)
        _entries(table, reporter)


def _keys(table: ast.TableDecl, reporter: Reporter) -> None:
    for key in table.keys or []:
        if is_constant(key.expr):
            reporter.warn(key.expr.pos, "a key that is constant", "ignore-prop")
            if key.expr.const_value is not None:
                reporter.warn(key.expr.pos, "a key that is the same for all packets", "mismatch")


def is_constant(expr: ast.Expr) -> bool:
    """Return whether the value of `expr` is known to the compiler."""
    if isinstance(expr, ast.Cast):
        return is_constant(expr.operand)
    members = (ast.MemberKind.ENUM_MEMBER, ast.MemberKind.ERROR_MEMBER)
    return expr.const_value is not None or (isinstance(expr, ast.Member) and expr.kind in members)


def _size(table: ast.TableDecl, reporter: Reporter) -> None:
    size = table.prop("size")
    if size is None or size.value is None:
        return
    value = size.value.const_value
    if not table.keys and value != 1:
        text = f'table "{table.name}" has no key: its size {value} is ignored'
        reporter.warn(table.pos, text, "mismatch")
    elif table.entries is not None and table.entries_const:
        text = f'table "{table.name}" has constant entries: its size {value} is ignored'
        reporter.warn(table.pos, text, "mismatch")


def _priorities(table: ast.TableDecl, reporter: Reporter) -> None:
    """Warn of entries with the same priority, and of the first that is out of its priority's
    order.
    """
    entries = table.entries or []
    for name in BMV2_UNKNOWN:
        found = table.prop(name)
        if found is not None:
            reporter.warn(found.pos, f'table property "{name}" is unknown to BMv2', "ignore-prop")
    if all(entry.priority is None for entry in entries):
        return
    wins, delta = table.prop("largest_priority_wins"), table.prop("priority_delta")
    largest = wins is None or wins.value is None or wins.value.const_value is not False
    value = delta.value.const_value if delta is not None and delta.value is not None else 1
    step = (value if isinstance(value, int) else 1) * (-1 if largest else 1)
    used: dict[int, ast.Entry] = {}
    current, previous, told = 1, 0, False
    for number, entry in enumerate(entries):
        if entry.priority is not None and isinstance(entry.priority.const_value, int):
            current = entry.priority.const_value
        if current in used:
            text = f"this entry and one behind it have the same priority {current}"
            reporter.warn(used[current].pos, text, "duplicate-priorities")
        used.setdefault(current, entry)
        wrong = current > previous if largest else current < previous
        if number > 0 and wrong and not told:
            told = True
            text = f"this entry (priority {previous}) and the next ({current}) are out of order"
            reporter.warn(entries[number - 1].pos, text, "entries-out-of-priority-order")
        previous = current
        current += step


def _entries(table: ast.TableDecl, reporter: Reporter) -> None:
    kinds = [key.match_kind.name for key in table.keys or []]
    for entry in table.entries or []:
        if any(each.name == "priority" for each in entry.annotations):
            reporter.warn(entry.pos, "@priority has no effect: use priority = ...", "deprecated")
        for kind, keyset in zip(kinds, entry.keysets, strict=False):
            if kind not in ("lpm", "ternary") or not isinstance(keyset, ast.Mask):
                continue
            value, mask = keyset.value.const_value, keyset.mask.const_value
            if isinstance(value, int) and isinstance(mask, int) and value & mask != value:
                text = f"bits outside of the mask of this {kind} key are set to 0 for P4Runtime"
                reporter.warn(keyset.value.pos, text, "mismatch")
