"""Syntax tree of P4_16.

The parser builds it; the checker (`frontend.check`) annotates it in place. Fields with
`init=False` are those annotations: they are None/empty after parsing and set after checking. The
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
from typing import TYPE_CHECKING

from compiler.errors import Pos
from compiler.syntax.ast_expr import *  # noqa: F403
from compiler.syntax.ast_expr import (
    Annotation,
    Argument,
    BinaryOp,
    Binding,
    Call,
    Expr,
    Name,
    Node,
    TypeRef,
)

if TYPE_CHECKING:
    from compiler.types import types as ty


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
    table: TableDecl | None = field(default=None, init=False, repr=False)
    in_action: bool = field(default=False, init=False, repr=False)


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

    var: VarDecl
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
        """Return the annotation of this name, or None."""
        for each in self.annotations:
            if each.name == name:
                return each
        return None


@dataclass(eq=False, slots=True)
class Parameter(Decl):
    """`direction` is "", "in", "out" or "inout". `of_constructor`: bound at instantiation."""

    direction: str
    type_ref: TypeRef
    default: Expr | None = None
    of_constructor: bool = field(default=False, init=False)
    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class TypeParam(Decl):
    """A type parameter of a generic declaration."""

    type: ty.TypeVar | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ConstDecl(Decl):
    """`const T name = init;`. `init.const_value` has the value of scalars."""

    type_ref: TypeRef
    init: Expr
    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class VarDecl(Decl):
    """`T name = init;`, local."""

    type_ref: TypeRef
    init: Expr | None
    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class InstanceDecl(Decl):
    """`T(args) name;` or `T(args) name = {methods};`, of an extern, control, parser or package.

    `call` is the constructor call (kind CONSTRUCTOR): its `binding` are the constructor's.
    """

    call: Call
    methods: list[Decl] | None = None
    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ActionDecl(Decl):
    params: list[Parameter]
    body: Block
    type: ty.Action | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class FunctionDecl(Decl):
    type_params: list[TypeParam]
    result: TypeRef
    params: list[Parameter]
    body: Block
    type: ty.Function | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class MethodDecl(Decl):
    """A method or constructor of an extern object, or (at top level) an extern function."""

    type_params: list[TypeParam]
    result: TypeRef | None
    params: list[Parameter]
    abstract: bool = False
    is_constructor: bool = False
    type: ty.Function | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ExternDecl(Decl):
    type_params: list[TypeParam]
    methods: list[MethodDecl]
    type: ty.Extern | None = field(default=None, init=False, repr=False)


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
    type: ty.State | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ParserTypeDecl(Decl):
    """`parser Name<T>(params);`, a type."""

    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Parser | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ParserDecl(Decl):
    """A parser with a body. `locals` are VarDecl, ConstDecl, InstanceDecl and ValueSetDecl."""

    type_params: list[TypeParam]
    params: list[Parameter]
    ctor_params: list[Parameter]
    locals: list[Decl]
    states: list[ParserState]
    type: ty.Parser | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ControlTypeDecl(Decl):
    """`control Name<T>(params);`, a type."""

    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Control | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ControlDecl(Decl):
    """A control with a body. `locals`: VarDecl, ConstDecl, InstanceDecl, ActionDecl, TableDecl."""

    type_params: list[TypeParam]
    params: list[Parameter]
    ctor_params: list[Parameter]
    locals: list[Decl]
    body: Block
    type: ty.Control | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class PackageDecl(Decl):
    type_params: list[TypeParam]
    params: list[Parameter]
    type: ty.Package | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class FieldDecl(Decl):
    type_ref: TypeRef


@dataclass(eq=False, slots=True)
class StructLikeDecl(Decl):
    """Base of StructDecl, HeaderDecl and HeaderUnionDecl."""

    type_params: list[TypeParam]
    fields: list[FieldDecl]
    type: ty.StructLike | None = field(default=None, init=False, repr=False)


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
    index: int = field(default=0, init=False, repr=False)


@dataclass(eq=False, slots=True)
class EnumDecl(Decl):
    """`base` is set for serializable enums."""

    base: TypeRef | None
    members: list[EnumMember]
    type: ty.Enum | ty.SerEnum | None = field(default=None, init=False, repr=False)


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
    type: ty.Type | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class NewtypeDecl(Decl):
    """`type T name;`"""

    type_ref: TypeRef
    type: ty.NewType | None = field(default=None, init=False, repr=False)


@dataclass(eq=False, slots=True)
class ValueSetDecl(Decl):
    """`value_set<T>(size) name;`; `element` is T's type, `size.const_value` the size."""

    type_ref: TypeRef
    size: Expr
    element: ty.Type | None = field(default=None, init=False, repr=False)


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
    decl: ActionDecl | None = field(default=None, init=False, repr=False)
    binding: list[Binding] = field(default_factory=list, init=False, repr=False)


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
    keys_pos: Pos | None = None
    entries_pos: Pos | None = None
    entries_annotations: list[Annotation] = field(default_factory=list)
    type: ty.Table | None = field(default=None, init=False, repr=False)

    def prop(self, name: str) -> Property | None:
        """Return the property of this name, or None."""
        for each in self.properties:
            if each.name == name:
                return each
        return None


@dataclass(eq=False, slots=True)
class Program(Node):
    """Top-level declarations in source order, core.p4's and the architecture's included."""

    decls: list[Decl]
