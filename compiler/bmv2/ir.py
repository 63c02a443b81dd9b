"""What the lowering produces before it becomes BMv2 JSON: scalar expressions, operations, blocks.

Everything is flat here: structs are taken apart, calls are inlined, names are those of BMv2's
header instances. Values are the numbers that P4 means; the masks that BMv2's unbounded integers
need are put in by `bmv2_expr`, from the types kept here.

A `Block` is straight-line code with one terminator, used for parser states, for the apply
bodies of controls and for action bodies alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from compiler.errors import Pos

if TYPE_CHECKING:
    from compiler.bmv2.lower_table import LoweredTable
    from compiler.syntax import ast


class Kind(Enum):
    """How a scalar's bits are read."""

    BIT = "bit"
    INT = "int"
    BOOL = "bool"
    VARBIT = "varbit"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """`width` in bits (VARBIT: the maximum; STRING: 0)."""

    kind: Kind
    width: int

    @property
    def signed(self) -> bool:
        return self.kind is Kind.INT

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL


BOOL = ScalarType(Kind.BOOL, 1)
BIT32 = ScalarType(Kind.BIT, 32)
STRING = ScalarType(Kind.STRING, 0)


def bit(width: int) -> ScalarType:
    """Return `bit<width>`."""
    return ScalarType(Kind.BIT, width)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    """A known value; bool as 0 and 1. `member` is the enum member it stands for, if any."""

    value: int
    type: ScalarType
    member: ast.EnumMember | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    value: str
    type: ScalarType = STRING


@dataclass(frozen=True, slots=True)
class Field:
    """Field `name` of header instance `header`; `$valid$` is its validity bit."""

    header: str
    name: str
    type: ScalarType


@dataclass(frozen=True, slots=True)
class ElementField:
    """Field of `stack[index]` with an index known at run time; `position` counts its fields."""

    stack: str
    index: Expr
    position: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class LastField:
    """Field of the element extracted last, in a parser."""

    stack: str
    name: str
    type: ScalarType


@dataclass(frozen=True, slots=True)
class LastIndex:
    """`stack.lastIndex`."""

    stack: str
    type: ScalarType = BIT32


@dataclass(frozen=True, slots=True)
class ActionParam:
    """Run-time data number `index` of the enclosing action."""

    index: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Lookahead:
    """`type.width` bits of the packet, `offset` bits after the cursor; only in a parser's set."""

    offset: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class UnionValid:
    """Validity of a header union."""

    union: str
    type: ScalarType = BOOL


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is `~` or `not`."""

    op: str
    operand: Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` as in P4 (`and`, `or` for the logical ones); `type` is the result's."""

    op: str
    left: Expr
    right: Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Mux:
    """`cond ? then : otherwise`. `bounds`: it keeps an index (`then`) inside of a stack."""

    cond: Expr
    then: Expr
    otherwise: Expr
    type: ScalarType
    bounds: bool = False


@dataclass(frozen=True, slots=True)
class Convert:
    """Numeric conversion (widening, narrowing, change of sign) to `type`."""

    operand: Expr
    type: ScalarType


Expr: TypeAlias = (
    Const
    | Text
    | Field
    | ElementField
    | LastField
    | LastIndex
    | ActionParam
    | Lookahead
    | UnionValid
    | Unary
    | Binary
    | Mux
    | Convert
)


def valid(header: str) -> Field:
    """Return the validity bit of a header instance."""
    return Field(header, "$valid$", BOOL)


# ---------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class HeaderRef:
    """A header, stack or union by name; `type` is BMv2's word for it ("header", ...).

    `index` is set for the element of stack `name` at a run-time index.
    """

    type: str
    name: str
    index: Expr | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A reference to another JSON object: `type` "register_array", "calculation", ..."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A list of values as one argument (log_msg)."""

    items: tuple[Expr, ...]


Arg: TypeAlias = Expr | HeaderRef | Named | Vector


@dataclass(frozen=True, slots=True)
class Op:
    """A BMv2 primitive with its arguments. In parsers `assign` becomes `set`."""

    name: str
    args: tuple[Arg, ...]
    pos: Pos


@dataclass(frozen=True, slots=True)
class Extract:
    """Parser: extract into a header, a stack's next element or (`union_stack`) its member.

    `length` is the size of the varbit field in bits.
    """

    kind: str
    target: str
    pos: Pos
    member: str | None = None
    length: Expr | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Parser: skip `bits` (a constant or a field)."""

    bits: Expr
    pos: Pos


@dataclass(frozen=True, slots=True)
class Verify:
    """Parser: stop with `error` unless `cond`."""

    cond: Expr
    error: Expr
    pos: Pos


@dataclass(frozen=True, slots=True)
class Inline:
    """A graph that must stay in one action with what stands around it.

    Where `after` ends, the operations behind this one follow; a Stop elsewhere ends the action.
    """

    entry: Block
    after: Block
    pos: Pos


AnyOp: TypeAlias = Op | Extract | Advance | Verify | Inline


# ---------------------------------------------------------------- blocks


@dataclass(eq=False, slots=True)
class Block:
    """Straight-line code. `name` is set for parser states only."""

    pos: Pos
    name: str | None = None
    ops: list[AnyOp] = field(default_factory=list)
    end: Terminator | None = None


@dataclass(eq=False, slots=True)
class Goto:
    target: Block


@dataclass(eq=False, slots=True)
class Branch:
    cond: Expr
    then: Block
    otherwise: Block
    pos: Pos


@dataclass(eq=False, slots=True)
class Stop:
    """End of the pipeline, the action or (accept) the parser. `reject`: an explicit reject."""

    reject: bool = False


@dataclass(eq=False, slots=True)
class ApplyTable:
    """Apply a table. Either `hit`/`miss` or `next` with `by_action` (action name -> block)."""

    table: LoweredTable
    pos: Pos
    next: Block | None = None
    by_action: dict[str, Block] = field(default_factory=dict)
    hit: Block | None = None
    miss: Block | None = None

    def successors(self) -> list[Block]:
        """Return all blocks that may follow."""
        found = [self.next, self.hit, self.miss, *self.by_action.values()]
        return [block for block in found if block is not None]


@dataclass(frozen=True, slots=True)
class Match:
    """One key of a select case: `value` and `mask` (None: exact), or don't care (mask 0)."""

    value: int
    mask: int | None


@dataclass(eq=False, slots=True)
class SelectTarget:
    """A case of a select: matches in key order, or the name of a value set; empty: default."""

    matches: tuple[Match, ...]
    target: Block
    value_set: str | None = None


@dataclass(eq=False, slots=True)
class Select:
    """Parser transition. Keys are Field, LastField or Lookahead."""

    keys: list[Expr]
    cases: list[SelectTarget]
    pos: Pos


Terminator: TypeAlias = Goto | Branch | Stop | ApplyTable | Select


def successors(block: Block) -> list[Block]:
    """Return the blocks that may follow `block`, in the order of its terminator."""
    match block.end:
        case Goto(target):
            return [target]
        case Branch(_, then, otherwise, _):
            return [then, otherwise]
        case ApplyTable() as apply:
            return apply.successors()
        case Select(_, cases, _):
            return [case.target for case in cases]
        case _:
            return []


def reachable(entry: Block) -> list[Block]:
    """Return the blocks reachable from `entry`, depth first in program order."""
    seen: set[int] = set()
    order: list[Block] = []
    stack = [entry]
    while stack:
        block = stack.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        order.append(block)
        stack.extend(reversed(successors(block)))
    return order
