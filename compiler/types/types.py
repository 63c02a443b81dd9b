"""Semantic types of P4_16 (spec section 7), as the checker computes them.

Types are immutable values and compare by `==`: structural for base types, tuples and stacks, by
name and type arguments for declared ones. `str(t)` is how messages show a type.

    Bit Int InfInt Bool Varbit Error MatchKind String Void      base types
    Struct Header HeaderUnion Stack Tuple ListType             aggregates
    Enum SerEnum NewType                                       derived
    Extern Parser Control Package Table Action Function State  things with behaviour
    TypeVar DontCare TypeName                                  generics and names used as types
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum as PyEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.syntax import ast


class Direction(PyEnum):
    """Direction of a parameter (spec 6.8); NONE is directionless."""

    NONE = ""
    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True)
class Type:
    """Base of all semantic types."""


@dataclass(frozen=True)
class Bit(Type):
    """`bit<width>`; width 0 is legal."""

    width: int

    def __str__(self) -> str:
        return f"bit<{self.width}>"


@dataclass(frozen=True)
class Int(Type):
    """`int<width>`, two's complement."""

    width: int

    def __str__(self) -> str:
        return f"int<{self.width}>"


@dataclass(frozen=True)
class InfInt(Type):
    """`int`: arbitrary precision, compile time only."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class Bool(Type):
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Varbit(Type):
    """`varbit<width>`: at most `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class Error(Type):
    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class MatchKind(Type):
    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True)
class String(Type):
    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class Void(Type):
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class DontCare(Type):
    """`_` as a type argument, before inference replaces it."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Unknown(Type):
    """Type of an expression already reported as wrong; fits everything, reports nothing."""

    def __str__(self) -> str:
        return "<unknown>"


@dataclass(frozen=True)
class Field:
    """Field of a struct, header or union; `decl` holds position and annotations."""

    name: str
    type: Type
    decl: ast.FieldDecl | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class StructLike(Type):
    """Common part of `Struct`, `Header` and `HeaderUnion`: equal by kind, name and arguments."""

    name: str
    fields: tuple[Field, ...] = field(compare=False, repr=False)
    args: tuple[Type, ...] = ()
    decl: ast.StructLikeDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.args:
            return f"{self.name}<{', '.join(map(str, self.args))}>"
        return self.name

    def field_named(self, name: str) -> Field | None:
        """Return the field of this name, or None."""
        for each in self.fields:
            if each.name == name:
                return each
        return None


@dataclass(frozen=True)
class Struct(StructLike):
    """`struct`; a name starting with "<" is the anonymous type of a `{a = 1}` without a target."""


@dataclass(frozen=True)
class Header(StructLike):
    """`header`: a struct with a validity bit."""


@dataclass(frozen=True)
class HeaderUnion(StructLike):
    """`header_union`: at most one member header is valid."""


@dataclass(frozen=True)
class Stack(Type):
    """`H[size]`: a stack of headers or header unions, or an array of anything else."""

    element: Type
    size: int

    @property
    def is_array(self) -> bool:
        """Whether it has elements only: no validity, `next`, `last` or `push_front`."""
        return not isinstance(self.element, Header | HeaderUnion)

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Tuple(Type):
    """`tuple<...>`, also the type of a list expression `{...}` that has no struct as target."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True)
class ListType(Type):
    """`list<element>`: compile time only."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class SetType(Type):
    """Type of a keyset (mask, range, value set) over `element`; never the type of a variable."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True)
class Enum(Type):
    """`enum` without representation; members are `decl.members`, in order."""

    name: str
    decl: ast.EnumDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SerEnum(Type):
    """`enum bit<w> E {A = 1}`; `base` is Bit or Int; `decl.members[i].value` the constants."""

    name: str
    base: Type = field(compare=False)
    decl: ast.EnumDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class NewType(Type):
    """`type T name`: its own type over `base` (which may itself be a NewType)."""

    name: str
    base: Type = field(compare=False)
    decl: ast.NewtypeDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TypeVar(Type):
    """A type parameter inside the generic declaration; `uid` distinguishes equal names."""

    name: str
    uid: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Param:
    """A parameter with its resolved type; `decl.default` is its default value, if any."""

    name: str
    direction: Direction
    type: Type
    optional: bool = field(default=False, compare=False)
    decl: ast.Parameter | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        prefix = f"{self.direction.value} " if self.direction.value else ""
        return f"{prefix}{self.type} {self.name}"


@dataclass(frozen=True)
class Function(Type):
    """Type of anything called with (): functions, extern methods, apply, constructors."""

    name: str
    type_params: tuple[TypeVar, ...]
    params: tuple[Param, ...]
    result: Type

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"


@dataclass(frozen=True)
class Action(Type):
    """Type of an action's name. Directionless parameters come from the control plane."""

    name: str
    params: tuple[Param, ...] = field(compare=False)
    decl: ast.ActionDecl | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"action {self.name}"


@dataclass(frozen=True)
class Table(Type):
    """Type of a table's name."""

    name: str
    decl: ast.TableDecl | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"table {self.name}"


@dataclass(frozen=True)
class ApplyResult(Type):
    """Type of `table.apply()`: a struct of `hit`, `miss` and `action_run`."""

    table: Table

    def __str__(self) -> str:
        return f"result of {self.table.name}.apply()"


@dataclass(frozen=True)
class ActionRun(Type):
    """Type of `table.apply().action_run`: an enumeration of the table's actions."""

    table: Table

    def __str__(self) -> str:
        return f"action_run of {self.table.name}"


@dataclass(frozen=True)
class Behaviour(Type):
    """Common part of the types that are instantiated: equal by kind, name and arguments."""

    name: str
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.args:
            return f"{self.name}<{', '.join(map(str, self.args))}>"
        return self.name


@dataclass(frozen=True)
class Extern(Behaviour):
    """An instance of an extern object type, e.g. `register<bit<32>, bit<32>>`."""

    decl: ast.ExternDecl | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Parser(Behaviour):
    """A parser with a body (`decl`: ParserDecl), or a parser type without (ParserTypeDecl)."""

    params: tuple[Param, ...] = field(default=(), compare=False, repr=False)
    decl: ast.ParserDecl | ast.ParserTypeDecl | None = field(
        default=None, compare=False, repr=False
    )


@dataclass(frozen=True)
class Control(Behaviour):
    """A control with a body (`decl`: ControlDecl), or a control type without (ControlTypeDecl)."""

    params: tuple[Param, ...] = field(default=(), compare=False, repr=False)
    decl: ast.ControlDecl | ast.ControlTypeDecl | None = field(
        default=None, compare=False, repr=False
    )


@dataclass(frozen=True)
class Package(Behaviour):
    """A package type, e.g. `V1Switch<H, M>` with its arguments inferred."""

    params: tuple[Param, ...] = field(default=(), compare=False, repr=False)
    decl: ast.PackageDecl | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class State(Type):
    """Type of a parser state's name."""

    name: str

    def __str__(self) -> str:
        return f"state {self.name}"


@dataclass(frozen=True)
class TypeName(Type):
    """Type of a name that denotes a type, as `E` in `E.member` or `C` in `C.apply()`."""

    type: Type

    def __str__(self) -> str:
        return f"type {self.type}"


BOOL, INFINT, ERROR, MATCH_KIND = Bool(), InfInt(), Error(), MatchKind()
STRING, VOID, DONT_CARE, UNKNOWN = String(), Void(), DontCare(), Unknown()

Substitution = Mapping[TypeVar, Type]


def substitute(t: Type, binding: Substitution) -> Type:
    """Return `t` with type variables replaced. Needed to lower the body of a generic function."""
    if not binding:
        return t

    def many(types: tuple[Type, ...]) -> tuple[Type, ...]:
        return tuple(substitute(each, binding) for each in types)

    match t:
        case TypeVar():
            found = binding.get(t, t)
            return found if found == t else substitute(found, binding)
        case StructLike():
            if not t.args:
                return t
            fields = tuple(replace(f, type=substitute(f.type, binding)) for f in t.fields)
            return replace(t, fields=fields, args=many(t.args))
        case Stack() | ListType() | SetType():
            return replace(t, element=substitute(t.element, binding))
        case Tuple():
            return Tuple(many(t.elements))
        case Parser() | Control() | Package():
            if not t.args:
                return t
            params = tuple(substitute_param(p, binding) for p in t.params)
            return replace(t, args=many(t.args), params=params)
        case Extern():
            return replace(t, args=many(t.args)) if t.args else t
        case TypeName():
            return TypeName(substitute(t.type, binding))
        case Function():
            params = tuple(substitute_param(p, binding) for p in t.params)
            return replace(t, params=params, result=substitute(t.result, binding))
        case _:
            return t


def substitute_param(param: Param, binding: Substitution) -> Param:
    """Return `param` with type variables replaced in its type."""
    return replace(param, type=substitute(param.type, binding))


def underlying(t: Type) -> Type:
    """Return the underlying type: NewType and SerEnum are replaced by their representation."""
    while isinstance(t, NewType | SerEnum):
        t = t.base
    return t


def width_of(t: Type) -> int | None:
    """Return the width in bits of a scalar or of a fixed aggregate; None where it has none (varbit:
    max).

    Unions count their widest member, as `maxSizeInBits` does; validity bits count nothing.
    """
    t = underlying(t)
    match t:
        case Bit() | Int() | Varbit():
            return t.width
        case Bool():
            return 1
        case HeaderUnion():
            widths = [width_of(f.type) for f in t.fields]
            return None if None in widths else max((w for w in widths if w is not None), default=0)
        case StructLike():
            return _sum_widths(tuple(f.type for f in t.fields))
        case Tuple():
            return _sum_widths(t.elements)
        case Stack():
            each = width_of(t.element)
            return None if each is None else each * t.size
        case _:
            return None


def _sum_widths(types: tuple[Type, ...]) -> int | None:
    total = 0
    for each in types:
        width = width_of(each)
        if width is None:
            return None
        total += width
    return total
