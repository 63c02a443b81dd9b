"""BMv2's typed values: expressions, references and the other arguments of primitives.

Everything here is resolved and type-checked by `expr_loader`; names are those of the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What an expression yields, as BMv2 distinguishes it."""

    DATA = "an integer"
    BOOL = "a boolean"
    HEADER = "a header"
    STACK = "a header stack"
    UNION = "a header union"
    UNION_STACK = "a header union stack"


@dataclass(frozen=True)
class Const:
    """An integer literal of any size and sign."""

    value: int


@dataclass(frozen=True)
class BoolConst:
    """true or false."""

    value: bool


@dataclass(frozen=True)
class FieldRef:
    """A field of a header instance; `$valid$` is the hidden validity bit."""

    header: str
    field: str


@dataclass(frozen=True)
class LastField:
    """A field of the last header extracted into a stack."""

    stack: str
    field: str


@dataclass(frozen=True)
class LastUnionField:
    """A field of a member of the last union extracted into a union stack (transition keys only)."""

    stack: str
    member: int
    field: str


@dataclass(frozen=True)
class Local:
    """Action data by parameter index; in `length_exp`, a field of the header itself by index."""

    index: int


@dataclass(frozen=True)
class RegisterRef:
    """A cell of a register array."""

    register: str
    index: Expr


@dataclass(frozen=True)
class HeaderRef:
    """A header instance."""

    name: str


@dataclass(frozen=True)
class StackRef:
    """A header stack."""

    name: str


@dataclass(frozen=True)
class UnionRef:
    """A header union."""

    name: str


@dataclass(frozen=True)
class UnionStackRef:
    """A stack of header unions."""

    name: str


@dataclass(frozen=True)
class Lookahead:
    """Bits of the packet beyond what is parsed: `offset` bits on, `bits` wide."""

    offset: int
    bits: int


@dataclass(frozen=True)
class StackElement:
    """The header of a stack at an index known at run time."""

    stack: str
    index: Expr


@dataclass(frozen=True)
class UnionStackElement:
    """The union of a union stack at an index known at run time."""

    stack: str
    index: Expr


@dataclass(frozen=True)
class UnionMember:
    """The header of a union by position."""

    union: Expr
    member: int


@dataclass(frozen=True)
class HeaderField:
    """A field, by position, of a header that an expression yields."""

    header: Expr
    field: int


@dataclass(frozen=True)
class StackCount:
    """How many headers of a stack are in use; `last` gives that minus one."""

    stack: str
    last: bool


@dataclass(frozen=True)
class Op:
    """An arithmetic, comparison or logical operation; unary ones have no `left`."""

    op: str
    left: Expr | None
    right: Expr


@dataclass(frozen=True)
class Ternary:
    """cond ? left : right."""

    cond: Expr
    left: Expr
    right: Expr


@dataclass(frozen=True)
class ObjectRef:
    """A calculation, meter, counter or register array as a primitive's argument."""

    kind: str
    name: str


@dataclass(frozen=True)
class Text:
    """A string argument."""

    value: str


@dataclass(frozen=True)
class Vector:
    """A `parameters_vector`: values for log_msg."""

    items: tuple[Expr, ...]


Expr = (
    Const
    | BoolConst
    | FieldRef
    | LastField
    | LastUnionField
    | Local
    | RegisterRef
    | HeaderRef
    | StackRef
    | UnionRef
    | UnionStackRef
    | Lookahead
    | StackElement
    | UnionStackElement
    | UnionMember
    | HeaderField
    | StackCount
    | Op
    | Ternary
)
Argument = Expr | ObjectRef | Text | Vector

ARITHMETIC = frozenset(
    {
        "+",
        "-",
        "*",
        "/",
        "%",
        "<<",
        ">>",
        "&",
        "|",
        "^",
        "~",
        "two_comp_mod",
        "sat_cast",
        "usat_cast",
    }
)
COMPARISONS = frozenset({"==", "!=", ">", ">=", "<", "<="})
VALID_FIELD = "$valid$"
