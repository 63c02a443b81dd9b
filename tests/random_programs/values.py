"""Values as the oracle holds them, and P4's arithmetic on them.

A leaf is an int (bit, int, serializable enum), a bool, a str (error, enum), a `Bitstring` (varbit),
or UNDEFINED. Structs and headers are mutable; assigning copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.random_programs.types import Bits, Bool, Enum, Error, Stack, Struct, Type, Varbit


class Undefined(Exception):
    """A value that the program never set decides something: there is nothing to compare."""


class _Nothing:
    def __repr__(self) -> str:
        return "UNDEFINED"

    def __deepcopy__(self, _memo: object) -> _Nothing:
        return self


UNDEFINED: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Bitstring:
    """A varbit's value."""

    bits: int
    value: int


@dataclass(slots=True)
class StructValue:
    """A struct."""

    type: Struct
    fields: dict[str, Value]


@dataclass(slots=True)
class HeaderValue:
    """A header."""

    type: Struct
    fields: dict[str, Value]
    valid: bool = False


@dataclass(slots=True)
class UnionValue:
    """A header_union: at most one of its headers is valid."""

    type: Struct
    fields: dict[str, HeaderValue]


@dataclass(slots=True)
class StackValue:
    """A header stack; `next` is its nextIndex."""

    type: Stack
    items: list[HeaderValue] = field(default_factory=list)
    next: int = 0


Value = (
    int | bool | str | Bitstring | _Nothing | StructValue | HeaderValue | UnionValue | StackValue
)


def fresh(type_: Type, zero: bool = False) -> Value:
    """Return a value of a variable that nothing was assigned to; user metadata begins as zero."""
    match type_:
        case Struct(kind="union"):
            made = {name: fresh(of, zero) for name, of in type_.fields}
            return UnionValue(type_, made)  # type: ignore[arg-type]
        case Struct(kind="header"):
            # Zero is for metadata's own fields: those of an invalid header stay undefined.
            return HeaderValue(type_, {name: fresh(of) for name, of in type_.fields})
        case Struct():
            return StructValue(type_, {name: fresh(of, zero) for name, of in type_.fields})
        case Stack(element=element, size=size):
            return StackValue(type_, [fresh(element) for _ in range(size)])  # type: ignore[misc]
        case Bool():
            return False if zero else UNDEFINED
        case Error():
            return "NoError" if zero else UNDEFINED
        case Varbit():
            return Bitstring(0, 0) if zero else UNDEFINED
        case Bits() | Enum():
            return 0 if zero else UNDEFINED


def copy(value: Value) -> Value:
    """Return a value that shares nothing with this one."""
    match value:
        case StructValue(type=type_, fields=fields):
            return StructValue(type_, {name: copy(of) for name, of in fields.items()})
        case HeaderValue(type=type_, fields=fields, valid=valid):
            return HeaderValue(type_, dict(fields), valid)
        case UnionValue(type=type_, fields=headers):
            made = {name: copy(of) for name, of in headers.items()}
            return UnionValue(type_, made)  # type: ignore[arg-type]
        case StackValue(type=type_, items=items, next=at):
            return StackValue(type_, [copy(item) for item in items], at)  # type: ignore[misc]
    return value


def wrap(type_: Bits, value: int) -> int:
    """Return the value modulo 2**width, as the type reads it."""
    value &= (1 << type_.width) - 1
    if type_.signed and value >> (type_.width - 1):
        value -= 1 << type_.width
    return value


def saturate(type_: Bits, value: int) -> int:
    """Return the nearest value that the type has."""
    low = -(1 << (type_.width - 1)) if type_.signed else 0
    high = (1 << (type_.width - 1)) - 1 if type_.signed else (1 << type_.width) - 1
    return max(low, min(high, value))


def raw(type_: Type, value: Value) -> int:
    """Return a leaf's bits as a number. Raises Undefined."""
    if value is UNDEFINED:
        raise Undefined
    match type_, value:
        case Bits(width=width), int():
            return value & ((1 << width) - 1)
        case (Bool(), bool()) | (Enum(), int()):
            return int(value)
        case Varbit(), Bitstring():
            return value.value
    raise TypeError(f"{type_} has no bits for {value}")


def of_raw(type_: Type, bits: int) -> Value:
    """Return a leaf from its bits."""
    match type_:
        case Bits():
            return wrap(type_, bits)
        case Bool():
            return bool(bits)
        case Enum(width=width):
            return bits & ((1 << width) - 1)
    raise TypeError(f"{type_} is no leaf of fixed width")


def cast(to: Type, of: Type, value: Value) -> Value:
    """`(to) value`."""
    if value is UNDEFINED:
        raise Undefined
    if isinstance(to, Bits) and isinstance(of, Bits | Enum):
        assert isinstance(value, int)
        return wrap(to, value)
    return of_raw(to, raw(of, value))


def binary(op: str, type_: Type, of: Type, left: Value, right: Value, right_of: Type) -> Value:
    """Apply an operator to two defined leaves of the type `of`; `type_` is the result's."""
    if op in ("==", "!="):
        return (left == right) == (op == "==")
    assert isinstance(left, int) and isinstance(right, int)
    match op:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    assert isinstance(type_, Bits) and isinstance(of, Bits)
    if op == "++":
        assert isinstance(right_of, Bits)
        return wrap(type_, (raw(of, left) << right_of.width) | raw(right_of, right))
    if op in ("|+|", "|-|"):
        return saturate(type_, left + right if op == "|+|" else left - right)
    return wrap(type_, _number(op, left, right, type_.width))


def _number(op: str, left: int, right: int, width: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right
        case "%":
            return left % right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<":
            return left << right if right < width else 0
        case ">>":
            return left >> min(right, width)
    raise ValueError(op)


def equal(left: Value, right: Value) -> bool:
    """`==` of two values of one type. Raises Undefined."""
    match left, right:
        case (StructValue(), StructValue()) | (UnionValue(), UnionValue()):
            same = [equal(left.fields[name], right.fields[name]) for name in left.fields]
            return all(same)
        case HeaderValue(), HeaderValue():
            if left.valid != right.valid:
                return False
            return not left.valid or all(
                equal(left.fields[name], right.fields[name]) for name in left.fields
            )
        case StackValue(), StackValue():
            return all(equal(a, b) for a, b in zip(left.items, right.items, strict=True))
    if left is UNDEFINED or right is UNDEFINED:
        raise Undefined
    return left == right
