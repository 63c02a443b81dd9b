"""Syntax tree of P4_16: nodes of annotations, type references and expressions.

`ast` is the module to import; it offers these together with statements and declarations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

from compiler.errors import Pos

if TYPE_CHECKING:
    from compiler.syntax.ast import Decl, EnumDecl, StructLikeDecl
    from compiler.types import types as ty

__all__ = [
    "Annotation",
    "Argument",
    "BaseTypeRef",
    "Binary",
    "BinaryOp",
    "Binding",
    "BoolLiteral",
    "Call",
    "CallKind",
    "Cast",
    "ConstValue",
    "DefaultExpr",
    "DefaultKey",
    "Expr",
    "Index",
    "InlineTypeRef",
    "IntLiteral",
    "InvalidExpr",
    "ListExpr",
    "ListTypeRef",
    "Mask",
    "Member",
    "MemberKind",
    "Name",
    "NamedExpr",
    "NamedTypeRef",
    "Node",
    "Range",
    "Slice",
    "StackTypeRef",
    "StringLiteral",
    "StructExpr",
    "Ternary",
    "ThisExpr",
    "TupleTypeRef",
    "TypeExpr",
    "TypeRef",
    "Unary",
    "UnaryOp",
    "Wildcard",
]

ConstValue: TypeAlias = "int | bool | str"


@dataclass(eq=False, slots=True)
class Node:
    """Anything with a position."""

    pos: Pos = field(repr=False)


# ---------------------------------------------------------------- annotations


@dataclass(eq=False, slots=True)
class Annotation(Node):
    """`@name`, `@name(tokens)` (unstructured) or `@name[...]` (structured).

    `text` is the body as written, `tokens` its tokens' texts. `exprs` / `pairs` hold the parsed
    body for structured annotations and for unstructured ones that are expression lists or
    `k = v` lists (so for `@name("x")`, `@id(3)`, `@field_list(1, 2)`); `values` / `value_pairs`
    are those folded by the checker (items that are no constants are left out).
    """

    name: str
    text: str = ""
    tokens: list[str] = field(default_factory=list, repr=False)
    exprs: list[Expr] = field(default_factory=list)
    pairs: list[tuple[str, Expr]] = field(default_factory=list)
    structured: bool = False
    values: list[ConstValue] = field(default_factory=list, init=False, repr=False)
    value_pairs: list[tuple[str, ConstValue]] = field(default_factory=list, init=False, repr=False)


# ---------------------------------------------------------------- type references


@dataclass(eq=False, slots=True)
class TypeRef(Node):
    """A type as written; `type` is what it means."""

    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class BaseTypeRef(TypeRef):
    """`bool error string match_kind void int _` or `bit<w> int<w> varbit<w>`.

    `width` is an IntLiteral or any constant expression; None for types without one.
    """

    name: str
    width: Expr | None = None


@dataclass(eq=False, slots=True)
class NamedTypeRef(TypeRef):
    """`name`, `.name` or `name<args>`."""

    name: str
    args: list[TypeRef] = field(default_factory=list)
    absolute: bool = False
    decl: Decl | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class StackTypeRef(TypeRef):
    """`element[size]`."""

    element: TypeRef
    size: Expr


@dataclass(eq=False, slots=True)
class TupleTypeRef(TypeRef):
    """`tuple<...>`."""

    elements: list[TypeRef]


@dataclass(eq=False, slots=True)
class ListTypeRef(TypeRef):
    """`list<element>`."""

    element: TypeRef


@dataclass(eq=False, slots=True)
class InlineTypeRef(TypeRef):
    """A struct, header, union or enum declared inside a typedef."""

    decl: EnumDecl | StructLikeDecl


# ---------------------------------------------------------------- expressions


@dataclass(eq=False, slots=True)
class Expr(Node):
    """Any expression."""

    type: ty.Type | None = field(default=None, init=False, repr=False)
    const_value: ConstValue | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class BoolLiteral(Expr):
    value: bool


@dataclass(eq=False, slots=True)
class IntLiteral(Expr):
    """`width` None: `int`. `text` is the literal as written. A sized value is within its range
    after checking (with a warning if it was not); `const_value` is the value to use.
    """

    value: int
    width: int | None = None
    signed: bool = False
    text: str = ""


@dataclass(eq=False, slots=True)
class StringLiteral(Expr):
    value: str


@dataclass(eq=False, slots=True)
class Name(Expr):
    """A name, `.name` (`absolute`), or `error` before `.member`.

    `decl` is the declaration: VarDecl, ConstDecl, Parameter, InstanceDecl, TableDecl, ActionDecl,
    FunctionDecl, MethodDecl, ParserState, ValueSetDecl, or (with a `TypeName` type) a type's
    declaration.
    """

    name: str
    absolute: bool = False
    decl: Decl | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class TypeExpr(Expr):
    """A type where an expression stands: `bit<8>`-like or specialised callee `reg<bit<8>>(..)`."""

    ref: TypeRef


class MemberKind(Enum):
    """What `base.member` is."""

    FIELD = auto()  # of a struct, header, union; decl: FieldDecl
    TUPLE_FIELD = auto()  # not in the grammar of P4_16 1.2.x, reserved
    ENUM_MEMBER = auto()  # decl: EnumMember; also serializable enums (const_value is set there)
    ERROR_MEMBER = auto()  # error.X; decl: EnumMember
    STACK_NEXT = auto()
    STACK_LAST = auto()
    STACK_LAST_INDEX = auto()  # bit<32>
    STACK_SIZE = auto()  # constant
    TABLE_HIT = auto()  # base is a Call of kind TABLE_APPLY
    TABLE_MISS = auto()
    TABLE_ACTION_RUN = auto()
    METHOD = auto()  # callee of a Call: look at the call


@dataclass(eq=False, slots=True)
class Member(Expr):
    """`base.member`. `pos` is where the whole expression starts, `member_pos` the last name."""

    base: Expr
    member: str
    member_pos: Pos
    kind: MemberKind | None = field(default=None, init=False, repr=False)
    decl: Node | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class Index(Expr):
    """`base[index]`: of a header stack (index may be a run-time value) or a tuple (constant)."""

    base: Expr
    index: Expr


@dataclass(eq=False, slots=True)
class Slice(Expr):
    """`base[hi:lo]`; both bounds have a `const_value`.

    `plus` is true for `base[lo +: width]`: there `lo` may be a run-time value and `hi` is the
    width (a constant).
    """

    base: Expr
    hi: Expr
    lo: Expr
    plus: bool = False


class UnaryOp(Enum):
    NOT = "!"
    COMPLEMENT = "~"
    MINUS = "-"
    PLUS = "+"


class BinaryOp(Enum):
    MUL = "*"
    DIV = "/"
    MOD = "%"
    ADD = "+"
    SUB = "-"
    ADD_SAT = "|+|"
    SUB_SAT = "|-|"
    CONCAT = "++"
    SHL = "<<"
    SHR = ">>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "=="
    NE = "!="
    BIT_AND = "&"
    BIT_XOR = "^"
    BIT_OR = "|"
    AND = "&&"
    OR = "||"


@dataclass(eq=False, slots=True)
class Unary(Expr):
    op: UnaryOp
    operand: Expr


@dataclass(eq=False, slots=True)
class Binary(Expr):
    """Both operands have the same type after checking (except shifts and `++`).

    `==`/`!=` also compare bool, enum, error, struct, header, stack and tuple values.
    """

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(eq=False, slots=True)
class Ternary(Expr):
    """`cond ? then : otherwise`; both branches have the type of the whole."""

    cond: Expr
    then: Expr
    otherwise: Expr


@dataclass(eq=False, slots=True)
class Cast(Expr):
    """`(to)operand`; the target is `type`. `to` is None where the checker put it (`implicit`).

    Kinds: numeric of any widths, bit<1> <-> bool, int -> sized, to and from a NewType's base or a
    SerEnum's base, and the no-op cast to the same type. A list or struct expression gets its
    target as its own type, without a Cast.
    """

    to: TypeRef | None
    operand: Expr
    implicit: bool = False


@dataclass(eq=False, slots=True)
class ListExpr(Expr):
    """`{a, b, ...}`. After checking `type` is a Tuple, or a Struct, Header or Stack with
    `elements` in the order of its fields, each converted to the field's type.

    `rest` is true for a trailing `...`: the fields without an element have their default value.
    """

    elements: list[Expr]
    rest: bool = False


@dataclass(eq=False, slots=True)
class StructExpr(Expr):
    """`{a = x, b = y}` or `(T){a = x}` / `T {..}`: `type` is a Struct or Header; fields in the
    order written, each converted to its field's type. `rest` as in ListExpr.
    """

    fields: list[NamedExpr]
    type_ref: TypeRef | None = None
    rest: bool = False


@dataclass(eq=False, slots=True)
class NamedExpr(Node):
    """`name = value` in a StructExpr."""

    name: str
    value: Expr


@dataclass(eq=False, slots=True)
class InvalidExpr(Expr):
    """`{#}`: an invalid header or header union; `type` says which."""


@dataclass(eq=False, slots=True)
class DefaultExpr(Expr):
    """`...` as a whole initialiser: the default value of `type`."""


@dataclass(eq=False, slots=True)
class ThisExpr(Expr):
    """`this`, in methods of extern instances."""


@dataclass(eq=False, slots=True)
class Wildcard(Expr):
    """`_`: don't care, as a keyset or as an argument of an `out` parameter."""


@dataclass(eq=False, slots=True)
class DefaultKey(Expr):
    """`default` as a keyset or a switch label."""


@dataclass(eq=False, slots=True)
class Mask(Expr):
    """Keyset `value &&& mask`."""

    value: Expr
    mask: Expr


@dataclass(eq=False, slots=True)
class Range(Expr):
    """Keyset `low .. high`, both included."""

    low: Expr
    high: Expr


class CallKind(Enum):
    """What a Call does. `decl` and `receiver` of the Call are given in brackets."""

    ACTION = auto()  # decl: ActionDecl
    FUNCTION = auto()  # decl: FunctionDecl
    EXTERN_FUNCTION = auto()  # decl: MethodDecl at top level (verify is VERIFY)
    VERIFY = auto()  # core.p4's verify(bool, error)
    STATIC_ASSERT = auto()  # checked; const_value True; to be ignored by lowering
    EXTERN_METHOD = auto()  # decl: MethodDecl; receiver: the instance (Name of InstanceDecl, ..)
    PACKET_EXTRACT = auto()  # receiver: packet_in; one argument, or two for varbit headers
    PACKET_LOOKAHEAD = auto()  # the type read is the type of the Call
    PACKET_ADVANCE = auto()
    PACKET_LENGTH = auto()
    PACKET_EMIT = auto()  # receiver: packet_out
    TABLE_APPLY = auto()  # decl: TableDecl; receiver: the table's Name
    CONTROL_APPLY = auto()  # decl: ControlDecl; receiver: Name (InstanceDecl), or see `direct`
    PARSER_APPLY = auto()  # decl: ParserDecl
    CONSTRUCTOR = auto()  # makes an Extern, Control, Parser or Package; decl: its declaration
    IS_VALID = auto()  # receiver: header or header union
    SET_VALID = auto()
    SET_INVALID = auto()
    PUSH_FRONT = auto()  # receiver: stack; the count has a const_value
    POP_FRONT = auto()
    SIZE_IN_BITS = auto()  # min/maxSizeInBits/Bytes: const_value is set


@dataclass(eq=False, slots=True)
class Argument(Node):
    """An argument as written; `name` for `name = value`. `value` may be a Wildcard."""

    name: str | None
    value: Expr


@dataclass(eq=False, slots=True)
class Binding:
    """A parameter (its type specialised for this call) with its argument.

    `arg` is converted to the parameter's type; it is the default value where none was written,
    a Wildcard for `_`, and None if an @optional parameter was omitted.
    """

    param: ty.Param
    arg: Expr | None


@dataclass(eq=False, slots=True)
class Call(Expr):
    """`callee<type_args>(args)`.

    After checking: `kind`; `decl` the called declaration (with overloads: the one chosen);
    `receiver` the object before the last dot; `binding` in the order of the parameters;
    `type_args` values of the called declaration's own type parameters, by name. For
    CONTROL_APPLY / PARSER_APPLY of a type (`C.apply(..)`), `direct` is true and `receiver` is
    a Name or TypeExpr with a TypeName type. `binding` is empty for built-in methods.
    """

    callee: Expr
    type_args: list[TypeRef]
    args: list[Argument]
    kind: CallKind | None = field(default=None, init=False, repr=False)
    decl: Decl | None = field(default=None, init=False, repr=False)
    receiver: Expr | None = field(default=None, init=False, repr=False)
    direct: bool = field(default=False, init=False, repr=False)
    binding: list[Binding] = field(default_factory=list, init=False, repr=False)
    bound_type_args: dict[str, ty.Type] = field(default_factory=dict, init=False, repr=False)
