"""Names and ids of a program's objects.

Objects are found by full name ('FabricIngress.routing.ipv4_route') or by alias, which is the
shortest suffix that is unique in the program ('ipv4_route').
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from controller.errors import UnknownName
from controller.value_text import Meaning, meaning
from softswitch.p4runtime.protos import p4i


class MatchKind(Enum):
    """How a field of a table's key matches."""

    EXACT = p4i.MatchField.EXACT
    LPM = p4i.MatchField.LPM
    TERNARY = p4i.MatchField.TERNARY
    RANGE = p4i.MatchField.RANGE
    OPTIONAL = p4i.MatchField.OPTIONAL


@dataclass(frozen=True)
class Field:
    """A match field (`kind` is set), an action parameter or a controller header's field."""

    id: int
    name: str
    bits: int
    kind: MatchKind | None = None
    meaning: Meaning = Meaning.NUMBER


class Named(Protocol):
    """What objects share."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def alias(self) -> str: ...


@dataclass(frozen=True)
class Action:
    """An action and its parameters."""

    id: int
    name: str
    alias: str
    params: tuple[Field, ...]


@dataclass(frozen=True)
class Table:
    """A table: key, actions it may run, and the action profile behind it (id, 0 for none)."""

    id: int
    name: str
    alias: str
    fields: tuple[Field, ...]
    action_ids: tuple[int, ...]
    profile_id: int
    is_const: bool
    const_default: bool
    size: int

    @property
    def needs_priority(self) -> bool:
        """Say whether entries carry a priority (P4Runtime 9.1.1)."""
        ordered = (MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL)
        return any(field.kind in ordered for field in self.fields)


@dataclass(frozen=True)
class Profile:
    """An action profile or selector."""

    id: int
    name: str
    alias: str
    with_selector: bool


@dataclass(frozen=True)
class Counter:
    """An indirect counter array."""

    id: int
    name: str
    alias: str
    size: int


@dataclass(frozen=True)
class Register:
    """A register array: its cells, and the bits of each."""

    id: int
    name: str
    alias: str
    size: int
    bits: int


@dataclass(frozen=True)
class Digest:
    """A digest and the members of its messages, none if those aren't structs of bit strings."""

    id: int
    name: str
    alias: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class PacketHeader:
    """A controller header ('packet_in' or 'packet_out')."""

    id: int
    name: str
    alias: str
    fields: tuple[Field, ...]


T = TypeVar("T", bound=Named)


class Index(Generic[T]):
    """The objects of one kind, by id, name or alias."""

    def __init__(self, kind: str, objects: Iterable[T]) -> None:
        self.kind = kind
        self.all = tuple(objects)
        self._by_id = {item.id: item for item in self.all}
        self._by_name = {item.alias: item for item in self.all}
        self._by_name.update({item.name: item for item in self.all})

    def __getitem__(self, key: str | int) -> T:
        """Return the object with this id, name or alias. Raises UnknownName."""
        found = self._by_id.get(key) if isinstance(key, int) else self._by_name.get(key)
        if found is None:
            raise UnknownName(f"the program has no {self.kind} {key!r}{self._hint(key)}")
        return found

    def __contains__(self, key: str | int) -> bool:
        return key in self._by_id or key in self._by_name

    def _hint(self, key: str | int) -> str:
        names = [item.alias for item in self.all]
        close = difflib.get_close_matches(str(key), names, n=1)
        return (
            f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(names) or 'none'}"
        )


class P4Info:
    """A program's P4Info, indexed. `message` is the Protobuf message it came from."""

    def __init__(self, message: p4i.P4Info) -> None:
        self.message = message
        self.actions = Index("action", (_action(item) for item in message.actions))
        self.tables = Index("table", (_table(item) for item in message.tables))
        self.profiles = Index("action profile", (_profile(i) for i in message.action_profiles))
        self.counters = Index("counter", (_counter(item) for item in message.counters))
        self.registers = Index("register", (_register(item) for item in message.registers))
        self.digests = Index("digest", (_digest(item, message) for item in message.digests))
        self.packet_headers = Index(
            "controller header", (_header(i) for i in message.controller_packet_metadata)
        )

    def field(self, table: Table, name: str) -> Field:
        """Return a match field of a table by name. Raises UnknownName."""
        return _named(table.fields, name, f"table {table.alias!r} has no match field")

    def param(self, action: Action, name: str) -> Field:
        """Return a parameter of an action by name. Raises UnknownName."""
        return _named(action.params, name, f"action {action.alias!r} has no parameter")


def _named(fields: tuple[Field, ...], name: str, complaint: str) -> Field:
    for field in fields:
        if field.name == name:
            return field
    there = ", ".join(field.name for field in fields) or "none"
    raise UnknownName(f"{complaint} {name!r}: it has {there}")


def field_by_id(fields: tuple[Field, ...], number: int) -> Field:
    """Return the field with this id. Raises UnknownName."""
    for field in fields:
        if field.id == number:
            return field
    raise UnknownName(f"no field has id {number}")


def _action(item: p4i.Action) -> Action:
    pre = item.preamble
    params = tuple(
        Field(param.id, param.name, param.bitwidth, meaning=_meaning(param))
        for param in item.params
    )
    return Action(pre.id, pre.name, pre.alias, params)


def _table(item: p4i.Table) -> Table:
    pre = item.preamble
    return Table(
        id=pre.id,
        name=pre.name,
        alias=pre.alias,
        fields=tuple(
            Field(
                field.id, field.name, field.bitwidth, MatchKind(field.match_type), _meaning(field)
            )
            for field in item.match_fields
        ),
        action_ids=tuple(ref.id for ref in item.action_refs),
        profile_id=item.implementation_id,
        is_const=item.is_const_table,
        const_default=bool(item.const_default_action_id),
        size=item.size,
    )


def _meaning(item: p4i.MatchField | p4i.Action.Param) -> Meaning:
    return meaning(
        item.name, item.bitwidth, annotations=item.annotations, type_name=item.type_name.name
    )


def _profile(item: p4i.ActionProfile) -> Profile:
    pre = item.preamble
    return Profile(pre.id, pre.name, pre.alias, item.with_selector)


def _counter(item: p4i.Counter) -> Counter:
    pre = item.preamble
    return Counter(pre.id, pre.name, pre.alias, item.size)


def _register(item: p4i.Register) -> Register:
    pre, bits = item.preamble, item.type_spec.bitstring
    width = bits.bit.bitwidth or bits.int.bitwidth
    return Register(pre.id, pre.name, pre.alias, item.size, width)


def _digest(item: p4i.Digest, message: p4i.P4Info) -> Digest:
    pre = item.preamble
    struct = item.type_spec.struct.name
    known = message.type_info.structs
    members = known[struct].members if struct in known else ()
    fields = tuple(
        Field(number, member.name, member.type_spec.bitstring.bit.bitwidth)
        for number, member in enumerate(members, 1)
    )
    return Digest(pre.id, pre.name, pre.alias, fields)


def _header(item: p4i.ControllerPacketMetadata) -> PacketHeader:
    pre = item.preamble
    fields = tuple(Field(entry.id, entry.name, entry.bitwidth) for entry in item.metadata)
    return PacketHeader(pre.id, pre.name, pre.alias, fields)
