"""A program as it is made: expressions with their types, statements, declarations.

This is what the oracle runs and what the printer writes as P4; nothing of the compiler is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.random_programs.types import BOOL, ERROR, Bits, Enum, Struct, Type

# --- expressions ----------------------------------------------------------------------------------


@dataclass
class Lit:
    """A constant; `bare`: written without its type."""

    type: Type
    value: int | bool | str
    bare: bool = False


@dataclass
class Var:
    """A variable or parameter by name."""

    type: Type
    name: str


@dataclass
class Field:
    """`base.name`."""

    type: Type
    base: Expr
    name: str


@dataclass
class Index:
    """`base[index]` of a stack."""

    type: Type
    base: Expr
    index: Expr


@dataclass
class Slice:
    """`base[high:low]`, also as the target of an assignment."""

    type: Type
    base: Expr
    high: int
    low: int


@dataclass
class Unary:
    """`op operand`: - ~ !."""

    type: Type
    op: str
    operand: Expr


@dataclass
class Binary:
    """`left op right`."""

    type: Type
    op: str
    left: Expr
    right: Expr


@dataclass
class Cast:
    """`(type) operand`."""

    type: Type
    operand: Expr


@dataclass
class Mux:
    """`condition ? yes : no`."""

    type: Type
    condition: Expr
    yes: Expr
    no: Expr


@dataclass
class Call:
    """A function, an action or `apply` of nothing else, with its arguments."""

    type: Type | None
    name: str
    args: list[Expr]


@dataclass
class IsValid:
    """`header.isValid()`, of a union too."""

    header: Expr
    type: Type = BOOL


@dataclass
class Hit:
    """`table.apply().hit`, or `.miss`."""

    table: str
    miss: bool = False
    type: Type = BOOL


@dataclass
class Tuple:
    """`{ items }` as a value of a struct or header type."""

    type: Type
    items: list[Expr]
    named: bool = False


@dataclass
class Lookahead:
    """`packet.lookahead<bit<N>>()`."""

    type: Type


Expr = (
    Lit | Var | Field | Index | Slice | Unary | Binary | Cast | Mux | Call | IsValid | Hit
    | Tuple | Lookahead
)  # fmt: skip

# --- statements -----------------------------------------------------------------------------------


@dataclass
class Declare:
    """`type name = value;`, or without a value."""

    name: str
    type: Type
    value: Expr | None


@dataclass
class Assign:
    """`target op= value;`, op mostly empty."""

    target: Expr
    value: Expr
    op: str = ""


@dataclass
class If:
    """`if (condition) ... else ...`."""

    condition: Expr
    yes: list[Stmt]
    no: list[Stmt] = field(default_factory=list)


@dataclass
class Case:
    """Labels (None: default) and a body (None: falls through to the next)."""

    labels: list[int | str | None]
    body: list[Stmt] | None


@dataclass
class Switch:
    """A switch on a value, or (value None) on the action that a table ran."""

    value: Expr | None
    table: str
    cases: list[Case]


@dataclass
class CallStmt:
    """A call whose value is not used."""

    call: Call


@dataclass
class Apply:
    """`table.apply();`."""

    table: str


@dataclass
class SetValidity:
    """`header.setValid()` or `.setInvalid()`."""

    header: Expr
    valid: bool


@dataclass
class Push:
    """`stack.push_front(count)`, `pop_front` when count is negative."""

    stack: Expr
    count: int


@dataclass
class For:
    """`for (type name in low .. high)`, or with a condition and a step."""

    name: str
    type: Bits
    low: int
    high: int
    body: list[Stmt]
    ranged: bool = True


@dataclass
class Jump:
    """`exit`, `return`, `break`, `continue`."""

    word: str
    value: Expr | None = None


@dataclass
class RegisterRead:
    """`register.read(target, index)`."""

    register: str
    target: Expr
    index: Expr


@dataclass
class RegisterWrite:
    """`register.write(index, value)`."""

    register: str
    index: Expr
    value: Expr


@dataclass
class Count:
    """`counter.count(index)`."""

    counter: str
    index: Expr


@dataclass
class Hash:
    """`hash(target, algorithm, base, { items }, limit)`."""

    target: Expr
    algorithm: str
    base: Expr
    items: list[Expr]
    limit: Expr


@dataclass
class Drop:
    """`mark_to_drop(std)`."""


@dataclass
class Extract:
    """`packet.extract(target)`; `next`: of a stack; `length`: bits of its varbit field."""

    target: Expr
    next: bool = False
    length: Expr | None = None


@dataclass
class Verify:
    """`verify(condition, error)`."""

    condition: Expr
    error: str


@dataclass
class SubParser:
    """`name.apply(packet, args)`."""

    name: str
    args: list[Expr]


@dataclass
class Clone:
    """`clone(type, session)`, or (with a list) `clone_preserving_field_list(type, session, N)`.

    `kind`: I2E in ingress, E2E in egress.
    """

    kind: str
    session: Expr
    field_list: int | None


@dataclass
class Again:
    """`resubmit_preserving_field_list(N)` in ingress, `recirculate_...` in egress, by `word`."""

    word: str
    field_list: int


@dataclass
class Digest:
    """`digest<type>(1, { items })`."""

    type: Struct
    items: list[Expr]


@dataclass
class ExecuteMeter:
    """`meter.execute_meter(index, target)`."""

    meter: str
    index: Expr
    target: Expr


@dataclass
class ReadMeter:
    """`meter.read(target)` of a table's direct meter, in its actions."""

    meter: str
    target: Expr


Stmt = (
    Declare | Assign | If | Switch | CallStmt | Apply | SetValidity | Push | For | Jump
    | RegisterRead | RegisterWrite | Count | Hash | Drop | Extract | Verify | SubParser
    | Clone | Again | Digest | ExecuteMeter | ReadMeter
)  # fmt: skip

# --- declarations ---------------------------------------------------------------------------------


@dataclass
class Param:
    """A parameter; direction "" means from the control plane."""

    direction: str
    name: str
    type: Type


@dataclass
class Function:
    """A function, or (in a control) an action."""

    name: str
    params: list[Param]
    result: Type | None
    body: list[Stmt]


@dataclass
class Match:
    """What one key of an entry or of a select case accepts.

    kind: value, mask, range, prefix (`low` is the value, `high` the mask, end or length), any.
    """

    kind: str
    low: int = 0
    high: int = 0


@dataclass
class Key:
    """`expr : kind @name(name)`."""

    name: str
    expr: Expr
    kind: str


Rates = tuple[int, int, int, int]
"""A meter's cir, cburst, pir, pburst; rates are by second."""


@dataclass
class Entry:
    """An entry of a table; a higher priority wins. `rates`: of its direct meter."""

    matches: list[Match]
    action: str
    args: list[int]
    priority: int = 0
    rates: Rates | None = None


@dataclass
class Table:
    """A table of a control; `bound`: arguments that its action list gives, by action.

    A table with a direct meter has actions that read it into `color` before all else, and a default
    action that no entry has.
    """

    name: str
    keys: list[Key]
    actions: list[str]
    default: str
    default_args: list[int]
    const_default: bool = False
    entries: list[Entry] = field(default_factory=list)
    counter: str = ""
    meter: Meter | None = None
    color: Expr | None = None
    bound: dict[str, list[Expr]] = field(default_factory=dict)


@dataclass
class Meter:
    """`meter(size, bytes or packets)`, or a direct one."""

    name: str
    size: int
    bytes: bool


@dataclass
class Register:
    """`register<type>(size)`."""

    name: str
    type: Bits
    size: int


@dataclass
class Counter:
    """`counter(size, packets_and_bytes)`."""

    name: str
    size: int


@dataclass
class Control:
    """Ingress or egress."""

    name: str
    locals: list[Declare] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    actions: list[Function] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)


@dataclass
class SelectCase:
    """Key sets and the state they lead to."""

    matches: list[Match]
    state: str
    set_name: str = ""


@dataclass
class Select:
    """`select(exprs) { cases }`."""

    exprs: list[Expr]
    cases: list[SelectCase]


@dataclass
class State:
    """A parser state; `next` names a state or is a select."""

    name: str
    body: list[Stmt]
    next: str | Select


@dataclass
class Parser:
    """The parser or a sub-parser, which has parameters of its own after the packet."""

    name: str
    params: list[Param]
    locals: list[Declare]
    states: list[State]


@dataclass
class Checksum:
    """`update_checksum(condition, { items }, target, algorithm)` with csum16, and verified too."""

    condition: Expr
    items: list[Expr]
    target: Expr
    verify: bool
    update: bool


@dataclass
class Program:
    """All of a program. `headers` and `metadata` are the two structs of v1model.

    `field_lists`: the lists that fields of `metadata` are in.
    """

    seed: int
    enums: list[Enum]
    structs: list[Struct]
    headers: Struct
    metadata: Struct
    functions: list[Function]
    parser: Parser
    sub_parsers: list[Parser]
    value_sets: dict[str, tuple[Bits, int]]
    ingress: Control
    egress: Control
    emits: list[Expr]
    checksums: list[Checksum] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    digests: list[Struct] = field(default_factory=list)
    field_lists: dict[str, tuple[int, ...]] = field(default_factory=dict)


HDR, META, STD = "hdr", "meta", "std"

STANDARD = Struct(
    "standard_metadata_t",
    (
        ("ingress_port", Bits(9)),
        ("egress_spec", Bits(9)),
        ("egress_port", Bits(9)),
        ("instance_type", Bits(32)),
        ("packet_length", Bits(32)),
        ("mcast_grp", Bits(16)),
        ("egress_rid", Bits(16)),
        ("checksum_error", Bits(1)),
        ("parser_error", ERROR),
    ),
)
"""The fields of v1model's standard_metadata that programs here use."""
