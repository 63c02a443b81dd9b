"""The types of the programs that are made here: P4's, as far as v1model can carry them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bits:
    """`bit<width>`, or `int<width>` when signed."""

    width: int
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Bool:
    """`bool`."""


@dataclass(frozen=True, slots=True)
class Enum:
    """An `enum`; serializable, with values of `width` bits, unless width is 0."""

    name: str
    members: tuple[tuple[str, int], ...]
    width: int = 0


@dataclass(frozen=True, slots=True)
class Error:
    """`error`: a value is the name of a member."""


@dataclass(frozen=True, slots=True)
class Varbit:
    """`varbit<width>`."""

    width: int


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct, header or header_union, by `kind`."""

    name: str
    fields: tuple[tuple[str, Type], ...]
    kind: str = "struct"


@dataclass(frozen=True, slots=True)
class Stack:
    """`element[size]` of headers."""

    element: Struct
    size: int


Type = Bits | Bool | Enum | Error | Varbit | Struct | Stack
Leaf = Bits | Bool | Enum | Error | Varbit

BOOL = Bool()
ERROR = Error()


def bit(width: int) -> Bits:
    """`bit<width>`."""
    return Bits(width)


def width_of(type_: Type) -> int:
    """Bits that a fixed-width type takes in a packet; a varbit counts 0."""
    match type_:
        case Bits(width=width):
            return width
        case Bool():
            return 1
        case Enum(width=width):
            return width
        case Struct(fields=fields):
            return sum(width_of(field) for _, field in fields)
        case Stack(element=element, size=size):
            return width_of(element) * size
    return 0


def has_varbit(type_: Type) -> bool:
    """Whether there is a varbit field in it."""
    match type_:
        case Varbit():
            return True
        case Struct(fields=fields):
            return any(has_varbit(field) for _, field in fields)
        case Stack(element=element):
            return has_varbit(element)
    return False
