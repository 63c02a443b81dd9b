"""Table entries of a test as P4Runtime's: names by their ends, values by the key's kind and text.

A name is the full one or the only one that ends with it. A key that is not named matches anything
(an exact one: 0). `*` digits of a hexadecimal or binary value are wild: of a ternary key those
digits, of an LPM key the rest after the prefix, of an optional one all of them: it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from compat.stf.statements import Add, Call, SetDefault, StfError, number
from softswitch.p4runtime.names import MatchValue, Names, UnknownName
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Field, MatchKind, Table

_DIGIT_BITS = {"0x": 4, "0b": 1}


class Named(Protocol):
    """Anything that has a name."""

    @property
    def name(self) -> str:
        """The full name."""
        ...


N = TypeVar("N", bound=Named)


def find(objects: Iterable[N], name: str, what: str) -> N:
    """Return the object of that name, or the only one whose name ends with it. Raises StfError."""
    all_of_them = list(objects)
    for one in all_of_them:
        if one.name == name:
            return one
    candidates = [one for one in all_of_them if one.name.endswith(name)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(one.name for one in candidates)
        raise StfError(f"{what} {name!r} may be {names}")
    names = ", ".join(one.name for one in all_of_them) or "none"
    raise StfError(f"there is no {what} {name!r}; there are: {names}")


def table_entry(names: Names, statement: Add) -> p4r.TableEntry:
    """Return the entry of an `add`. Raises StfError."""
    table = find(names.schema.tables.values(), statement.table, "table")
    match: dict[str, MatchValue] = {
        field.name: 0 for field in table.fields if field.kind is MatchKind.EXACT
    }
    for key, text in statement.match:
        field = _field(table, key)
        value = match_value(field, text)
        if value is None:
            match.pop(field.name, None)
        else:
            match[field.name] = value
    if table.needs_priority and statement.priority is None:
        raise StfError(f"table {table.name} needs a priority after its name")
    # STF begins at 0, P4Runtime at 1; in both, more wins.
    priority = (statement.priority or 0) + 1 if table.needs_priority else 0
    action, arguments = _action(names, table, statement.call)
    try:
        return names.entry(table.name, match, action, arguments, priority=priority)
    except UnknownName as error:
        raise StfError(str(error)) from None


def default_entry(names: Names, statement: SetDefault) -> p4r.TableEntry:
    """Return the default entry of a `setdefault`. Raises StfError."""
    table = find(names.schema.tables.values(), statement.table, "table")
    action, arguments = _action(names, table, statement.call)
    return names.entry(table.name, None, action, arguments)


def match_value(field: Field, text: str) -> MatchValue | None:
    """Return what a key's text means for that field; None: anything. Raises StfError."""
    value, slash, length = text.partition("/")
    wild = "*" in value
    if slash and field.kind is not MatchKind.LPM:
        raise StfError(f"key {field.name} is {field.kind.name.lower()}: it takes no prefix length")
    match field.kind:
        case MatchKind.LPM:
            if slash:
                return number(value), number(length)
            return number(value.replace("*", "0")), _prefix(field, value)
        case MatchKind.TERNARY:
            return number(value.replace("*", "0")), _mask(field, value)
        case MatchKind.OPTIONAL if wild and not value[2:].strip("*"):
            return None
        case _ if wild:
            raise StfError(f"key {field.name} is {field.kind.name.lower()}: no digit may be *")
        case MatchKind.RANGE:
            return number(value), number(value)
        case _:
            return number(value)


def _prefix(field: Field, value: str) -> int:
    """Return the bits of the digits before the wild ones: as many as are written."""
    bits = _DIGIT_BITS.get(value[:2].lower())
    if bits is None:
        return field.bitwidth
    digits = value[2:]
    if "*" in digits.rstrip("*"):
        raise StfError(f"key {field.name} is lpm: only its last digits may be *")
    return min(field.bitwidth, bits * len(digits.rstrip("*")))


def _mask(field: Field, value: str) -> int:
    """Return ones where a digit is written; omitted digits are wild, as p4c's runner has it."""
    bits = _DIGIT_BITS.get(value[:2].lower())
    if bits is None:
        return (1 << field.bitwidth) - 1
    mask = 0
    for digit in value[2:]:
        mask = mask << bits | (0 if digit == "*" else (1 << bits) - 1)
    return mask & (1 << field.bitwidth) - 1


def _field(table: Table, key: str) -> Field:
    """Return the key field that a test calls `key`; `a$2.b` is an element of a stack."""
    key = re.sub(r"\$([0-9]+)", r"[\1]", key)
    known = {field.name: field for field in table.fields}
    spellings = [key, f"{key}$", f"{key}.$valid$"]
    if key.endswith("valid"):
        spellings.append(f"{key.removesuffix('valid').removesuffix('.')}.$valid$")
    for spelling in spellings:
        if spelling in known:
            return known[spelling]
    ends = [f".{spelling}" for spelling in spellings]
    if key == "valid":
        ends.append("$valid$")
    found = [field for name, field in known.items() if name.endswith(tuple(ends))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(known) or "none"
    problem = "names several of" if found else "is none of"
    raise StfError(f"key {key!r} {problem} the keys of table {table.name}: {names}")


def _action(names: Names, table: Table, call: Call) -> tuple[str, Mapping[str, int]]:
    """Return the full name of the action called, and its arguments. Raises StfError."""
    actions = [reference.action for reference in table.actions.values()]
    action = find(actions, call.action, f"action of table {table.name}")
    known = [param.name for param in action.params]
    arguments = {name: number(value) for name, value in call.arguments}
    for name in arguments:
        if name not in known:
            of = ", ".join(known) or "none"
            raise StfError(f"action {action.name} has no argument {name!r}; it has: {of}")
    missing = [name for name in known if name not in arguments]
    if missing:
        raise StfError(f"action {action.name} lacks {', '.join(missing)}")
    return action.name, arguments
