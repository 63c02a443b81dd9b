"""Where values live after flattening: headers, stacks, unions, structs made of fields.

A `Value` is a scalar expression of `ir` or one of the aggregates below. Aggregates of places are
l-values; a `StructValue` may also hold computed values, then it is only read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from compiler.bmv2 import ir
from compiler.passes.elaborate import Instance
from compiler.syntax import ast
from compiler.types import types as ty


@dataclass(frozen=True, slots=True)
class HeaderPlace:
    """BMv2 header instance `name`."""

    name: str
    type: ty.Header


@dataclass(frozen=True, slots=True)
class StackPlace:
    """BMv2 header stack (or union stack) `name` of `size` elements."""

    name: str
    element: ty.Header | ty.HeaderUnion
    size: int


@dataclass(frozen=True, slots=True)
class UnionPlace:
    """BMv2 header union `name`; its members are the headers `name.member`."""

    name: str
    type: ty.HeaderUnion


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """Element of a stack of headers at an index known at run time only."""

    stack: StackPlace
    index: ir.Expr

    @property
    def type(self) -> ty.Header:
        assert isinstance(self.stack.element, ty.Header)
        return self.stack.element


ONLY_EXTRACTED = "next of a stack is what extract fills: it can't be read or assigned to"


@dataclass(frozen=True, slots=True)
class NextPlace:
    """`stack.next`, or (with `member`) `stack.next.member` of a stack of unions."""

    stack: StackPlace
    member: str | None = None


@dataclass(frozen=True, slots=True)
class LastPlace:
    """`stack.last` in a parser."""

    stack: StackPlace


@dataclass(frozen=True, slots=True)
class SlicePlace:
    """Bits `high`..`low` of the scalar place `base`, as an `out` or `inout` argument."""

    base: ir.Expr
    high: int
    low: int


@dataclass(frozen=True, slots=True)
class StructValue:
    """A struct or tuple taken apart; tuple components are named "0", "1", ..."""

    fields: dict[str, Value]


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A header expression `{...}`: valid, with these fields."""

    type: ty.Header
    fields: dict[str, Value]


@dataclass(frozen=True, slots=True)
class StackValue:
    """A stack expression `{ {...}, {...} }`."""

    elements: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """`{#}`."""


@dataclass(frozen=True, slots=True)
class ExternObject:
    """An instance of an extern: where it is declared, and its name for the control plane."""

    decl: ast.InstanceDecl
    instance: Instance | None
    name: str
    type: ty.Extern


@dataclass(frozen=True, slots=True)
class Packet:
    """`packet_in` or `packet_out`."""


@dataclass(frozen=True, slots=True)
class Unset:
    """Value of an `out` argument that is `_`: assigning it does nothing."""


Value: TypeAlias = (
    ir.Expr
    | HeaderPlace
    | StackPlace
    | UnionPlace
    | ElementPlace
    | NextPlace
    | LastPlace
    | SlicePlace
    | StructValue
    | HeaderValue
    | StackValue
    | InvalidValue
    | ExternObject
    | Packet
    | Unset
)

SCALARS = (
    ir.Const,
    ir.Text,
    ir.Field,
    ir.ElementField,
    ir.LastField,
    ir.LastIndex,
    ir.ActionParam,
    ir.Lookahead,
    ir.UnionValid,
    ir.Unary,
    ir.Binary,
    ir.Mux,
    ir.Convert,
)
SIMPLE = (ir.Const, ir.Text, ir.Field, ir.ActionParam)


def scalar_type(t: ty.Type) -> ir.ScalarType | None:
    """Return how BMv2 holds a value of `t`; None if `t` is no scalar.

    Plain enums and errors are 32-bit numbers, as in p4c.
    """
    t = ty.underlying(t)
    match t:
        case ty.Bit(width=width):
            return ir.ScalarType(ir.Kind.BIT, width)
        case ty.Int(width=width):
            return ir.ScalarType(ir.Kind.INT, width)
        case ty.Bool():
            return ir.BOOL
        case ty.Enum() | ty.Error():
            return ir.BIT32
        case ty.Varbit(width=width):
            return ir.ScalarType(ir.Kind.VARBIT, width)
        case ty.String():
            return ir.STRING
        case _:
            return None


NO_BITS = ir.Const(0, ir.bit(0))
"""Place and value of everything of type bit<0>: BMv2 holds nothing for it."""


def has_no_bits(t: ir.ScalarType) -> bool:
    """Return whether `t` is `bit<0>`, whose only value is 0."""
    return t.kind is ir.Kind.BIT and t.width == 0


def header_fields(header: ty.Header) -> list[tuple[str, ir.ScalarType]]:
    """Return the fields of a header in order, structs inside taken apart (`s.f`), without those of
    bit<0>.
    """
    flat = [entry for f in header.fields for entry in _flat(f.name, f.type)]
    return [(name, t) for name, t in flat if not has_no_bits(t)]


def _flat(name: str, t: ty.Type) -> list[tuple[str, ir.ScalarType]]:
    scalar = scalar_type(t)
    if scalar is not None:
        return [(name, scalar)]
    assert isinstance(t, ty.Struct), f"{t} in a header"
    return [entry for f in t.fields for entry in _flat(f"{name}.{f.name}", f.type)]


def header_member(header: str, name: str, t: ty.Type) -> Value:
    """Return the field `name` of header instance `header`: a Field, or a StructValue of Fields."""
    scalar = scalar_type(t)
    if scalar is not None:
        return NO_BITS if has_no_bits(scalar) else ir.Field(header, name, scalar)
    assert isinstance(t, ty.Struct), f"{t} in a header"
    return StructValue(
        {f.name: header_member(header, f"{name}.{f.name}", f.type) for f in t.fields}
    )


def stack_element(stack: StackPlace, index: int) -> HeaderPlace | UnionPlace:
    """Return the element number `index` (not checked here)."""
    name = f"{stack.name}[{index}]"
    if isinstance(stack.element, ty.Header):
        return HeaderPlace(name, stack.element)
    return UnionPlace(name, stack.element)


def union_member(union: UnionPlace, member: str) -> HeaderPlace:
    """Return the header of a union's member."""
    found = union.type.field_named(member)
    assert found is not None
    assert isinstance(found.type, ty.Header)
    return HeaderPlace(f"{union.name}.{member}", found.type)


def roots(value: Value) -> set[str]:
    """Return the roots of what a value reads or an l-value names.

    Roots are header instances (elements count as their stack), and `header.field` for single
    fields.
    Two l-values can only overlap if their roots meet.
    """
    match value:
        case HeaderPlace(name, _):
            return {_stack_of(name)}
        case StackPlace(name, _, _) | UnionPlace(name, _):
            return {_stack_of(name)}
        case ElementPlace(stack, index):
            return {stack.name} | roots(index)
        case NextPlace(stack, _) | LastPlace(stack):
            return {stack.name}
        case StructValue(fields):
            return set().union(*(roots(v) for v in fields.values()))
        case HeaderValue(_, fields):
            return set().union(*(roots(v) for v in fields.values()))
        case StackValue(elements):
            return set().union(*(roots(v) for v in elements))
        case ir.Field(header, name, _):
            return {_stack_of(header), f"{_stack_of(header)}/{name}"}
        case ir.ElementField(stack_name, index, _, _):
            return {stack_name} | roots(index)
        case ir.LastField(stack_name, _, _) | ir.LastIndex(stack_name, _):
            return {stack_name}
        case ir.UnionValid(union, _):
            return {_stack_of(union)}
        case ir.Unary(_, operand, _) | ir.Convert(operand, _):
            return roots(operand)
        case ir.Binary(_, left, right, _):
            return roots(left) | roots(right)
        case ir.Mux(cond, then, otherwise, _):
            return roots(cond) | roots(then) | roots(otherwise)
        case SlicePlace(base, _, _):
            return roots(base)
        case _:
            return set()


def _stack_of(header: str) -> str:
    return header.split("[", 1)[0].split(".", 1)[0] if "[" in header else header


def overlap(a: Value, b: Value) -> bool:
    """Return whether two values may share storage (conservative)."""
    return any(_meets(x, y) for x in _leaves(a) for y in _leaves(b))


def _leaves(value: Value) -> list[tuple[str, str | None]]:
    """Return (instance, field or None for the whole) of everything in `value`."""
    match value:
        case StructValue(fields) | HeaderValue(_, fields):
            return [leaf for v in fields.values() for leaf in _leaves(v)]
        case SlicePlace(base, _, _):
            return _leaves(base)
        case ir.Field(header, name, _):
            return [(header, name)]
        case _:
            return [(root, None) for root in roots(value) if "/" not in root]


def _meets(a: tuple[str, str | None], b: tuple[str, str | None]) -> bool:
    if a[0] == b[0]:
        return a[1] is None or b[1] is None or a[1] == b[1]
    inner, outer = (a[0], b[0]) if len(a[0]) > len(b[0]) else (b[0], a[0])
    return inner.startswith((outer + "[", outer + "."))
