"""Entities by name: P4Runtime messages built from names and plain values, with P4Info at hand.

For tests, tools and the in-process switch; a controller that has P4Info can use finsy's own.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import TypeVar

from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.p4runtime.schema import ControllerHeader, Field, MatchKind, Param, Schema, Table
from softswitch.p4runtime.strings import value_of

Value = int | str | bytes
"""A value: a number, "0x1f", "10.0.0.1", "2001:db8::1", "02:00:00:00:00:01", or raw bytes."""

MatchValue = Value | tuple[Value, Value]
"""A match: a value, or (value, prefix length), (value, mask), (low, high) by the field's kind."""

T = TypeVar("T")


class UnknownName(Exception):
    """A name that P4Info does not have, or a value that can't be one."""


class Names:
    """Builds entities of one pipeline. Full names and unique aliases are both understood."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        info = schema.p4info
        self._tables = _index(info.tables)
        self._actions = _index(info.actions)
        self._profiles = _index(info.action_profiles)
        self._counters = _index(info.counters)
        self._meters = _index(info.meters)
        self._registers = _index(info.registers)
        self._digests = _index(info.digests)
        self._value_sets = _index(info.value_sets)

    def table(self, name: str) -> Table:
        """Return the table called `name`. Raises UnknownName."""
        return self.schema.tables[_find(self._tables, name, "table")]

    def counter_id(self, name: str) -> int:
        """Return the id of the indirect counter called `name`."""
        return _find(self._counters, name, "counter")

    def register_id(self, name: str) -> int:
        """Return the id of the register called `name`."""
        return _find(self._registers, name, "register")

    def meter_id(self, name: str) -> int:
        """Return the id of the indirect meter called `name`."""
        return _find(self._meters, name, "meter")

    def digest_id(self, name: str) -> int:
        """Return the id of the digest called `name`."""
        return _find(self._digests, name, "digest")

    def value_set_id(self, name: str) -> int:
        """Return the id of the parser value set called `name`."""
        return _find(self._value_sets, name, "value set")

    def profile_id(self, name: str) -> int:
        """Return the id of the action profile called `name`."""
        return _find(self._profiles, name, "action profile")

    def action(self, name: str, params: Mapping[str, Value] | None = None) -> p4r.Action:
        """Return an action with its parameters given by name."""
        action = self.schema.actions[_find(self._actions, name, "action")]
        message = p4r.Action(action_id=action.id)
        known = {p.name: p for p in action.params}
        for param_name, value in (params or {}).items():
            param = known.get(param_name)
            if param is None:
                raise _unknown("parameter", param_name, known, f"action {name!r}")
            message.params.add(param_id=param.id, value=_given(param, value))
        return message

    def key(
        self, table_name: str, match: Mapping[str, MatchValue], priority: int = 0
    ) -> p4r.TableEntry:
        """Return a table entry with nothing but its key; "don't care" values are left out."""
        table = self.table(table_name)
        entry = p4r.TableEntry(table_id=table.id, priority=priority)
        known = {f.name: f for f in table.fields}
        for name in match:
            if name not in known:
                raise _unknown("match field", name, known, f"table {table.name!r}")
        for field in table.fields:
            if field.name in match:
                self._add_match(entry, field, match[field.name])
        return entry

    def entry(
        self,
        table_name: str,
        match: Mapping[str, MatchValue] | None,
        action: str | None = None,
        params: Mapping[str, Value] | None = None,
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
    ) -> p4r.TableEntry:
        """Return a table entry; `match` None means the default entry."""
        if match is None:
            table_id = self.table(table_name).id
            entry = p4r.TableEntry(table_id=table_id, is_default_action=True)
        else:
            entry = self.key(table_name, match, priority)
        if member is not None:
            entry.action.action_profile_member_id = member
        elif group is not None:
            entry.action.action_profile_group_id = group
        elif action is not None:
            entry.action.action.CopyFrom(self.action(action, params))
        return entry

    def packet_out(self, payload: bytes, metadata: Mapping[str, Value]) -> p4r.PacketOut:
        """Return a packet-out with metadata given by name."""
        message = p4r.PacketOut(payload=payload)
        header = self.schema.packet_out
        known = {f.name: f for f in header.fields} if header is not None else {}
        for name, value in metadata.items():
            field = known.get(name)
            if field is None:
                raise _unknown("metadata", name, known, "packet_out")
            message.metadata.add(metadata_id=field.id, value=_given(field, value))
        return message

    def _add_match(self, entry: p4r.TableEntry, field: Field, value: MatchValue) -> None:
        full = (1 << field.bitwidth) - 1
        match = p4r.FieldMatch(field_id=field.id)
        match field.kind:
            case MatchKind.EXACT:
                match.exact.value = _given(field, _single(field, value))
            case MatchKind.OPTIONAL:
                match.optional.value = _given(field, _single(field, value))
            case MatchKind.LPM:
                first, length = _pair(value, field.bitwidth)
                if length == 0:
                    return
                match.lpm.value = encode(first)
                match.lpm.prefix_len = length
            case MatchKind.TERNARY:
                first, mask = _pair(value, full)
                if mask == 0:
                    return
                match.ternary.value = encode(first)
                match.ternary.mask = encode(mask)
            case MatchKind.RANGE:
                first = number(value[0] if isinstance(value, tuple) else value)
                high = number(value[1]) if isinstance(value, tuple) else first
                if first == 0 and high == full:
                    return
                match.range.low = encode(first)
                match.range.high = encode(high)
        entry.match.append(match)


def metadata_names(header: ControllerHeader | None, message: p4r.PacketIn) -> dict[str, int]:
    """Return a packet-in's metadata by name."""
    fields = {f.id: f for f in header.fields} if header is not None else {}
    return {
        fields[m.metadata_id].name: value_of(fields[m.metadata_id], m.value, "metadata")
        for m in message.metadata
        if m.metadata_id in fields
    }


def number(value: Value) -> int:
    """Return the number that `value` stands for (see Value). Raises UnknownName."""
    match value:
        case int() if value >= 0:
            return int(value)
        case bytes():
            return int.from_bytes(value, "big")
        case str():
            try:
                if value.count(":") == 5:
                    return int(value.replace(":", ""), 16)
                if "." in value or ":" in value:
                    return int(ipaddress.ip_address(value))
                return int(value, 0)
            except ValueError:
                pass
    raise UnknownName(
        f"{value!r} is not a value: give a number >= 0, '0x1f', an IP or MAC address, or bytes"
    )


def _given(of: Field | Param, value: Value) -> bytes:
    """Return the bytes of a value in the controller's form.

    For a type with strings, a number (also as "0x1f") becomes the string of its decimal digits.
    """
    if of.strings is None:
        return encode(number(value))
    if isinstance(value, str) and not value.startswith("0x"):
        return value.encode()
    return str(number(value)).encode()


def _pair(value: MatchValue, default: int) -> tuple[int, int]:
    if isinstance(value, tuple):
        return number(value[0]), number(value[1])
    return number(value), default


def _single(field: Field, value: MatchValue) -> Value:
    if isinstance(value, tuple):
        raise UnknownName(f"match field {field.name!r} is {field.kind.name}: give one value")
    return value


def _index(
    objects: Iterable[
        p4i.Table
        | p4i.Action
        | p4i.ActionProfile
        | p4i.Counter
        | p4i.Meter
        | p4i.Register
        | p4i.Digest
        | p4i.ValueSet
    ],
) -> dict[str, int]:
    names: dict[str, int] = {}
    for thing in objects:
        names.setdefault(thing.preamble.alias, thing.preamble.id)
    for thing in objects:
        names[thing.preamble.name] = thing.preamble.id
    return names


def _find(names: Mapping[str, T], name: str, what: str) -> T:
    found = names.get(name)
    if found is None:
        raise _unknown(what, name, names, "P4Info")
    return found


def _unknown(what: str, name: str, known: Iterable[str], owner: str) -> UnknownName:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f" (it has: {', '.join(names) or 'none'})"
    return UnknownName(f"{owner} has no {what} {name!r}{hint}")
