"""Syntax tree of P4_16.

The parser builds it; the checker (`frontend.check`) annotates it in place. Fields made with
`_note()` are those annotations: they are None/empty after parsing and set after checking. The
lowering reads them and never infers anything itself:

    Expr.type          semantic type of the expression
    Expr.const_value   int, bool or str where the value is known at compile time (serializable
                       enum members: their int; plain enum and error members: None, see Member)
    Name.decl          what the name resolves to
    Member.kind        what `base.member` means, and `Member.decl`
    Call.kind/.decl/.binding/.type_args/.receiver   what is called, with which arguments
    Cast               also inserted for every implicit conversion (`implicit=True`)
    TypeRef.type       the resolved semantic type

Nodes compare and hash by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from softswitch.compiler.errors import Pos

if TYPE_CHECKING:
    from softswitch.compiler import types as ty

ConstValue: TypeAlias = "int | bool | str"


def _note(default: Any = None) -> Any:
    """A field that the checker fills in."""
    return field(default=default, init=False, repr=False)


def _notes() -> Any:
    """A list field that the checker fills in."""
    return field(default_factory=list, init=False, repr=False)


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
    values: list[ConstValue] = _notes()
    value_pairs: list[tuple[str, ConstValue]] = _notes()


# ---------------------------------------------------------------- type references


@dataclass(eq=False, slots=True)
class TypeRef(Node):
    """A type as written; `type` is what it means."""

    type: ty.Type | None = _note()


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
    decl: Decl | None = _note()


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


# ---------------------------------------------------------------- expressions


@dataclass(eq=False, slots=True)
class Expr(Node):
    """Any expression."""

    type: ty.Type | None = _note()
    const_value: ConstValue | None = _note()


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
    decl: Decl | None = _note()


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
    """`base.member`."""

    base: Expr
    member: str
    kind: MemberKind | None = _note()
    decl: Node | None = _note()


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
    kind: CallKind | None = _note()
    decl: Decl | None = _note()
    receiver: Expr | None = _note()
    direct: bool = _note(False)
    binding: list[Binding] = _notes()
    bound_type_args: dict[str, ty.Type] = field(default_factory=dict, init=False, repr=False)


# ---------------------------------------------------------------- statements


@dataclass(eq=False, slots=True)
class Stmt(Node):
    """Any statement."""


@dataclass(eq=False, slots=True)
class Assign(Stmt):
    """`left = right;` or `left op= right;` (`op` is then the operator)."""

    left: Expr
    right: Expr
    op: BinaryOp | None = None


@dataclass(eq=False, slots=True)
class CallStmt(Stmt):
    """A call as a statement. A `t.apply().hit;`-like expression is no statement in P4."""

    call: Call


@dataclass(eq=False, slots=True)
class Block(Stmt):
    """`{ ... }`."""

    statements: list[Stmt]
    annotations: list[Annotation] = field(default_factory=list)
    end: Pos | None = None


@dataclass(eq=False, slots=True)
class If(Stmt):
    cond: Expr
    then: Stmt
    otherwise: Stmt | None


@dataclass(eq=False, slots=True)
class SwitchCase(Node):
    """`label: body`; without a body it falls through to the next one. label may be DefaultKey."""

    label: Expr
    body: Block | None


@dataclass(eq=False, slots=True)
class Switch(Stmt):
    """`table` is set for `switch (t.apply().action_run)`: labels are then Names whose decl is an
    ActionDecl. Else the labels are constants of the type of `expr`.
    """

    expr: Expr
    cases: list[SwitchCase]
    table: TableDecl | None = _note()


@dataclass(eq=False, slots=True)
class Exit(Stmt):
    pass


@dataclass(eq=False, slots=True)
class Return(Stmt):
    value: Expr | None


@dataclass(eq=False, slots=True)
class Empty(Stmt):
    """`;`"""


@dataclass(eq=False, slots=True)
class DeclStmt(Stmt):
    """A VarDecl, ConstDecl or InstanceDecl among statements."""

    decl: VarDecl | ConstDecl | InstanceDecl


@dataclass(eq=False, slots=True)
class For(Stmt):
    """`for (init; cond; update) body`."""

    init: list[Stmt]
    cond: Expr
    update: list[Stmt]
    body: Stmt
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class ForIn(Stmt):
    """`for (type var in collection) body`; collection is a Range, a stack or a list."""

    var: VarDecl | Name
    collection: Expr
    body: Stmt
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Break(Stmt):
    pass


@dataclass(eq=False, slots=True)
class Continue(Stmt):
    pass


# ---------------------------------------------------------------- declarations


@dataclass(eq=False, slots=True)
class Decl(Node):
    """Anything that has a name. `pos` is the place of the name."""

    name: str
    annotations: list[Annotation] = field(default_factory=list, kw_only=True, repr=False)

    def annotation(self, name: str) -> Annotation | None:
        """The annotation of this name, or None."""
        for each in self.annotations:
            if each.name == name:
                return each
        return None


@dataclass(eq=False, slots=True)
class Parameter(Decl):
    """`direction` is "", "in", "out" or "inout"."""

    direction: str
    type_ref: TypeRef
    default: Expr | None = None
    type: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class TypeParam(Decl):
    """A type parameter of a generic declaration."""

    type: ty.TypeVar | None = _note()


@dataclass(eq=False, slots=True)
class ConstDecl(Decl):
    """`const T name = init;`. `init.const_value` has the value of scalars."""

    type_ref: TypeRef
    init: Expr
    type: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class VarDecl(Decl):
    """`T name = init;`, local."""

    type_ref: TypeRef
    init: Expr | None
    type: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class InstanceDecl(Decl):
    """`T(args) name;` or `T(args) name = {methods};`, of an extern, control, parser or package.

    `call` is the constructor call (kind CONSTRUCTOR): its `binding` are the constructor's.
    """

    call: Call
    methods: list[Decl] | None = None
    type: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class ActionDecl(Decl):
    params: list[Parameter]
    body: Block
    type: ty.Action | None = _note()


@dataclass(eq=False, slots=True)
class FunctionDecl(Decl):
    type_params: list[TypeParam]
    result: TypeRef
    params: list[Parameter]
    body: Block
    type: ty.Function | None = _note()


@dataclass(eq=False, slots=True)
class MethodDecl(Decl):
    """A method or constructor of an extern object, or (at top level) an extern function."""

    type_params: list[TypeParam]
    result: TypeRef | None
    params: list[Parameter]
    abstract: bool = False
    is_constructor: bool = False
    type: ty.Function | None = _note()


@dataclass(eq=False, slots=True)
class ExternDecl(Decl):
    type_params: list[TypeParam]
    methods: list[MethodDecl]
    type: ty.Extern | None = _note()


@dataclass(eq=False, slots=True)
class SelectCase(Node):
    """`keysets: target;`. One keyset per select expression, or a lone Wildcard / DefaultKey."""

    keysets: list[Expr]
    target: Name


@dataclass(eq=False, slots=True)
class Select(Node):
    """`transition select(exprs) { cases }`. Keysets are converted to the types of `exprs`."""

    exprs: list[Expr]
    cases: list[SelectCase]


@dataclass(eq=False, slots=True)
class ParserState(Decl):
    """`transition` is a Name (of a ParserState; `accept` and `reject` are ParserStates without
    position), a Select, or None: an omitted transition, which means reject.
    """

    statements: list[Stmt]
    transition: Name | Select | None
    type: ty.State | None = _note()


@dataclass(eq=False, slots=True)
class ParserTypeDecl(Decl):
    """`parser Name<T>(params);`, a type."""

    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Parser | None = _note()


@dataclass(eq=False, slots=True)
class ParserDecl(Decl):
    """A parser with a body. `locals` are VarDecl, ConstDecl, InstanceDecl and ValueSetDecl."""

    type_params: list[TypeParam]
    params: list[Parameter]
    ctor_params: list[Parameter]
    locals: list[Decl]
    states: list[ParserState]
    type: ty.Parser | None = _note()


@dataclass(eq=False, slots=True)
class ControlTypeDecl(Decl):
    """`control Name<T>(params);`, a type."""

    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Control | None = _note()


@dataclass(eq=False, slots=True)
class ControlDecl(Decl):
    """A control with a body. `locals` are VarDecl, ConstDecl, InstanceDecl, ActionDecl, TableDecl."""

    type_params: list[TypeParam]
    params: list[Parameter]
    ctor_params: list[Parameter]
    locals: list[Decl]
    body: Block
    type: ty.Control | None = _note()


@dataclass(eq=False, slots=True)
class PackageDecl(Decl):
    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Package | None = _note()


@dataclass(eq=False, slots=True)
class FieldDecl(Decl):
    type_ref: TypeRef


@dataclass(eq=False, slots=True)
class StructLikeDecl(Decl):
    """Base of StructDecl, HeaderDecl and HeaderUnionDecl."""

    type_params: list[TypeParam]
    fields: list[FieldDecl]
    type: ty.StructLike | None = _note()


@dataclass(eq=False, slots=True)
class StructDecl(StructLikeDecl):
    pass


@dataclass(eq=False, slots=True)
class HeaderDecl(StructLikeDecl):
    pass


@dataclass(eq=False, slots=True)
class HeaderUnionDecl(StructLikeDecl):
    pass


@dataclass(eq=False, slots=True)
class EnumMember(Decl):
    """A member of an enum, of `error` or of `match_kind`.

    `value` is None but for serializable enums; `index` is the place in the declaration (for
    `error`: in the whole program, NoError is 0).
    """

    value: Expr | None = None
    index: int = _note(0)


@dataclass(eq=False, slots=True)
class EnumDecl(Decl):
    """`base` is set for serializable enums."""

    base: TypeRef | None
    members: list[EnumMember]
    type: ty.Enum | ty.SerEnum | None = _note()


@dataclass(eq=False, slots=True)
class ErrorDecl(Decl):
    """One `error { ... }`; a program may have several."""

    members: list[EnumMember]


@dataclass(eq=False, slots=True)
class MatchKindDecl(Decl):
    """One `match_kind { ... }`."""

    members: list[EnumMember]


@dataclass(eq=False, slots=True)
class TypedefDecl(Decl):
    """`typedef T name;`: `type` is T's."""

    type_ref: TypeRef
    type: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class NewtypeDecl(Decl):
    """`type T name;`"""

    type_ref: TypeRef
    type: ty.NewType | None = _note()


@dataclass(eq=False, slots=True)
class ValueSetDecl(Decl):
    """`value_set<T>(size) name;`; `element` is T's type, `size.const_value` the size."""

    type_ref: TypeRef
    size: Expr
    element: ty.Type | None = _note()


@dataclass(eq=False, slots=True)
class TableKey(Node):
    """`expr : match_kind @annotations;`; `match_kind.decl` is its EnumMember."""

    expr: Expr
    match_kind: Name
    annotations: list[Annotation]


@dataclass(eq=False, slots=True)
class ActionRef(Node):
    """An action in `actions`, `default_action` or an entry: `path` or `path(args)`.

    `decl` is the action. `binding`: in `actions` the parameters bound there (those with a
    direction, and others only if written); in `default_action` and entries all parameters.
    """

    path: Name
    args: list[Argument] | None
    annotations: list[Annotation] = field(default_factory=list)
    decl: ActionDecl | None = _note()
    binding: list[Binding] = _notes()


@dataclass(eq=False, slots=True)
class Entry(Node):
    """`[const] [priority = p:] keysets : action @annotations;`.

    `keysets` has one item a key (or a lone Wildcard / DefaultKey for all of them), converted to
    the keys' types. `priority.const_value` where written.
    """

    keysets: list[Expr]
    action: ActionRef
    annotations: list[Annotation]
    is_const: bool = False
    priority: Expr | None = None


@dataclass(eq=False, slots=True)
class Property(Decl):
    """Any other table property: `[const] name = value;` (size, implementation, counters, ...).

    `value` may be a constructor Call, a Name of an instance, a constant, or None if the value
    was an initializer that is no expression.
    """

    value: Expr | None
    is_const: bool = False


@dataclass(eq=False, slots=True)
class TableDecl(Decl):
    """`keys` is None without `key = {..}`; `entries` is None without `entries = {..}`.

    `default_action` is None where the program has none (NoAction then, which is not in `actions`
    unless written). `size` and further ones are in `properties`, as written and in order.
    """

    keys: list[TableKey] | None
    actions: list[ActionRef]
    entries: list[Entry] | None
    entries_const: bool
    default_action: ActionRef | None
    default_action_const: bool
    properties: list[Property]
    actions_pos: Pos | None = None
    type: ty.Table | None = _note()

    def prop(self, name: str) -> Property | None:
        """The property of this name, or None."""
        for each in self.properties:
            if each.name == name:
                return each
        return None


@dataclass(eq=False, slots=True)
class Program(Node):
    """Top-level declarations in source order, core.p4's and the architecture's included."""

    decls: list[Decl]
