"""What a compiled pipeline says of itself, copied out of its C descriptors.

Lists are in index order: an index here is the number that the methods of `SwitchCore` take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


class MatchKind(IntEnum):
    """How a key, or a whole table, matches (enum wp_match)."""

    EXACT = 0
    LPM = 1
    TERNARY = 2
    RANGE = 3
    VALID = 4
    OPTIONAL = 5


class TableType(IntEnum):
    """Where a table's actions are (enum wp_table_type)."""

    SIMPLE = 0
    INDIRECT = 1
    INDIRECT_WS = 2


@dataclass(frozen=True, slots=True)
class KeyDescriptor:
    """One field of a key: `size` bytes, big endian, from `offset` in the table's key."""

    name: str
    match: MatchKind
    bitwidth: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class TableDescriptor:
    name: str
    index: int
    match: MatchKind
    type: TableType
    max_size: int
    keys: tuple[KeyDescriptor, ...]
    key_bytes: int
    with_counters: bool
    support_timeout: bool
    profile: int | None
    """Index of the action profile."""
    direct_meter: int | None
    """Index of the direct meter."""
    json_id: int


@dataclass(frozen=True, slots=True)
class ActionDescriptor:
    name: str
    index: int
    param_bits: tuple[int, ...]
    limbs: int
    """64-bit words of all parameters."""
    json_id: int


@dataclass(frozen=True, slots=True)
class ProfileDescriptor:
    name: str
    index: int
    max_size: int
    with_selector: bool


@dataclass(frozen=True, slots=True)
class RegisterDescriptor:
    name: str
    index: int
    size: int
    bitwidth: int


@dataclass(frozen=True, slots=True)
class CounterDescriptor:
    name: str
    index: int
    size: int
    """0 for direct counters, which live in the entries."""
    direct_table: int | None


@dataclass(frozen=True, slots=True)
class MeterDescriptor:
    name: str
    index: int
    size: int
    counts_bytes: bool
    rates: int
    direct_table: int | None


@dataclass(frozen=True, slots=True)
class LearnDescriptor:
    name: str
    index: int
    json_id: int
    field_bits: tuple[int, ...]
    size: int
    """Bytes of one message."""

    def split(self, data: bytes) -> list[int]:
        """Return the field values of one digest message."""
        values, at = [], 0
        for bits in self.field_bits:
            size = (bits + 7) // 8
            values.append(int.from_bytes(data[at : at + size], "big"))
            at += size
        return values


@dataclass(frozen=True, slots=True)
class ValueSetDescriptor:
    """One parser value set; `part_bits` are the widths of the select expression's parts."""

    name: str
    index: int
    max_size: int
    part_bits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PipelineDescriptor:
    """Everything that a compiled pipeline declares."""

    tables: tuple[TableDescriptor, ...]
    actions: tuple[ActionDescriptor, ...]
    profiles: tuple[ProfileDescriptor, ...]
    registers: tuple[RegisterDescriptor, ...]
    counters: tuple[CounterDescriptor, ...]
    meters: tuple[MeterDescriptor, ...]
    learns: tuple[LearnDescriptor, ...]
    value_sets: tuple[ValueSetDescriptor, ...]

    def table(self, name: str) -> TableDescriptor:
        """Return the table called `name`. Raises KeyError."""
        return _named(self.tables, name)

    def action(self, name: str) -> ActionDescriptor:
        """Return the first action called `name` (names may repeat, json_ids do not).

        Raises KeyError.
        """
        return _named(self.actions, name)

    def profile(self, name: str) -> ProfileDescriptor:
        """Return the action profile called `name`. Raises KeyError."""
        return _named(self.profiles, name)

    def register(self, name: str) -> RegisterDescriptor:
        """Return the register array called `name`. Raises KeyError."""
        return _named(self.registers, name)

    def counter(self, name: str) -> CounterDescriptor:
        """Return the counter called `name`. Raises KeyError."""
        return _named(self.counters, name)

    def meter(self, name: str) -> MeterDescriptor:
        """Return the meter called `name`. Raises KeyError."""
        return _named(self.meters, name)


def _named(items: Iterable[T], name: str) -> T:
    for item in items:
        if item.name == name:
            return item
    raise KeyError(name)


def _index(value: int) -> int | None:
    return None if value < 0 else value


def read_descriptor(ffi: Any, pipeline: Any) -> PipelineDescriptor:
    """Copy `const struct wp_pipeline *pipeline`; the result holds no pointers into C."""

    def text(pointer: Any) -> str:
        return str(ffi.string(pointer).decode())

    def table(i: int) -> TableDescriptor:
        t = pipeline.tables[i]
        keys = tuple(
            KeyDescriptor(text(k.name), MatchKind(k.match), k.bitwidth, k.offset, k.bytes)
            for k in (t.keys[j] for j in range(t.n_keys))
        )
        return TableDescriptor(
            name=text(t.name),
            index=i,
            match=MatchKind(t.match),
            type=TableType(t.type),
            max_size=t.max_size,
            keys=keys,
            key_bytes=t.key_bytes,
            with_counters=bool(t.with_counters),
            support_timeout=bool(t.support_timeout),
            profile=_index(t.profile),
            direct_meter=_index(t.direct_meter),
            json_id=t.json_id,
        )

    def action(i: int) -> ActionDescriptor:
        a = pipeline.actions[i]
        bits = tuple(a.param_bits[j] for j in range(a.n_params))
        return ActionDescriptor(text(a.name), i, bits, a.limbs, a.json_id)

    def profile(i: int) -> ProfileDescriptor:
        p = pipeline.profiles[i]
        return ProfileDescriptor(text(p.name), i, p.max_size, bool(p.with_selector))

    def register(i: int) -> RegisterDescriptor:
        r = pipeline.registers[i]
        return RegisterDescriptor(text(r.name), i, r.size, r.bitwidth)

    def counter(i: int) -> CounterDescriptor:
        c = pipeline.counters[i]
        return CounterDescriptor(text(c.name), i, c.size, _index(c.direct_table))

    def meter(i: int) -> MeterDescriptor:
        m = pipeline.meters[i]
        return MeterDescriptor(
            text(m.name), i, m.size, bool(m.bytes), m.rates, _index(m.direct_table)
        )

    def learn(i: int) -> LearnDescriptor:
        d = pipeline.learns[i]
        bits = tuple(d.field_bits[j] for j in range(d.n_fields))
        return LearnDescriptor(text(d.name), i, d.json_id, bits, d.bytes)

    def value_set(i: int) -> ValueSetDescriptor:
        v = pipeline.value_sets[i]
        bits = tuple(v.part_bits[j] for j in range(v.n_parts))
        return ValueSetDescriptor(text(v.name), i, v.max_size, bits)

    return PipelineDescriptor(
        tables=tuple(table(i) for i in range(pipeline.n_tables)),
        actions=tuple(action(i) for i in range(pipeline.n_actions)),
        profiles=tuple(profile(i) for i in range(pipeline.n_profiles)),
        registers=tuple(register(i) for i in range(pipeline.n_registers)),
        counters=tuple(counter(i) for i in range(pipeline.n_counters)),
        meters=tuple(meter(i) for i in range(pipeline.n_meters)),
        learns=tuple(learn(i) for i in range(pipeline.n_learns)),
        value_sets=tuple(value_set(i) for i in range(pipeline.n_value_sets)),
    )
