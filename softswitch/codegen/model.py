"""The typed model of a BMv2 JSON program.

`Bmv2Program.from_json` is the only way in; it checks every reference, so that the generator and
the P4Runtime side need not. Lists keep the document's order: an object's `index` is its place in
the descriptor arrays of `pipeline_abi.h`. Format: docs/JSON_format.md of behavioral-model, 2.x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softswitch.codegen.expressions import Argument, Expr, FieldRef, HeaderField


@dataclass(frozen=True)
class Field:
    """A field of a header type. `bits` is 0 for a varbit field: its length is known at run time."""

    name: str
    bits: int
    signed: bool = False
    saturating: bool = False
    varbit: bool = False


@dataclass(frozen=True)
class HeaderType:
    """A header's layout. `max_bytes` bounds the whole header where one field is varbit, else 0."""

    name: str
    fields: tuple[Field, ...]
    max_bytes: int
    length_exp: Expr | None

    @property
    def fixed_bits(self) -> int:
        """Bits of all fields but the varbit one."""
        return sum(field.bits for field in self.fields)

    @property
    def varbit(self) -> Field | None:
        """The varbit field, if there is one."""
        return next((field for field in self.fields if field.varbit), None)

    def field(self, name: str) -> Field | None:
        """Return the field called `name`, or None."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True)
class Header:
    """A header or metadata instance."""

    name: str
    id: int
    type: HeaderType
    metadata: bool


@dataclass(frozen=True)
class HeaderStack:
    """A header stack; `headers` in index order. `dynamic`: indexed by an expression somewhere."""

    name: str
    type: HeaderType
    headers: tuple[Header, ...]
    dynamic: bool = False


@dataclass(frozen=True)
class UnionType:
    """A header union's members: (member name, header type)."""

    name: str
    members: tuple[tuple[str, HeaderType], ...]


@dataclass(frozen=True)
class HeaderUnion:
    """A header union instance; `headers` in member order."""

    name: str
    id: int
    type: UnionType
    headers: tuple[Header, ...]


@dataclass(frozen=True)
class UnionStack:
    """A stack of header unions."""

    name: str
    type: UnionType
    unions: tuple[HeaderUnion, ...]


@dataclass(frozen=True)
class Source:
    """Where something stands in the P4 program, and its text, as the document quotes it."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Primitive:
    """One primitive call; the argument kinds fit `primitives.SIGNATURES`."""

    op: str
    args: tuple[Argument, ...]
    source: Source | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ExtractTarget:
    """Where `extract` puts a header: `kind` is regular, stack or union_stack."""

    kind: str
    name: str
    member: int
    type: HeaderType


@dataclass(frozen=True)
class Extract:
    """Parser op: extract; `length` (bits) for extract_VL."""

    target: ExtractTarget
    length: Expr | None


@dataclass(frozen=True)
class Set:
    """Parser op: set a field."""

    target: FieldRef
    source: Expr


@dataclass(frozen=True)
class Verify:
    """Parser op: verify `condition`, else stop with the error code that `error` yields."""

    condition: Expr
    error: Expr


@dataclass(frozen=True)
class Advance:
    """Parser op: skip `bits` (advance; `shift` counts bytes and is converted)."""

    bits: Expr


@dataclass(frozen=True)
class ParserCall:
    """Parser op: a primitive."""

    primitive: Primitive


ParserOp = Extract | Set | Verify | Advance | ParserCall


@dataclass(frozen=True)
class Transition:
    """A parser transition. `kind` is default, hexstr or parse_vset; `value` and `mask` cover the
    byte-padded transition key; `next` is None at the end."""

    kind: str
    value: bytes
    mask: bytes | None
    value_set: str
    next: str | None


@dataclass(frozen=True)
class ParseState:
    """A parser state. `key` holds the transition key's parts with their widths in bits."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[tuple[Expr, int], ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True)
class Parser:
    """A parser; `init_state` is None for one that does nothing."""

    name: str
    init_state: str | None
    states: dict[str, ParseState]


@dataclass(frozen=True)
class ValueSet:
    """A parser value set; `key` are the widths in bits of the parts that are matched with it."""

    name: str
    index: int
    size: int
    key: tuple[int, ...]


@dataclass(frozen=True)
class Deparser:
    """A deparser: header instances in order, and primitives run before they are written."""

    name: str
    order: tuple[Header, ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True)
class CalcInput:
    """A part of a calculation's input: kind is field, hexstr, header or payload."""

    kind: str
    header: str = ""
    field: str = ""
    value: int = 0
    bits: int = 0


@dataclass(frozen=True)
class CustomCrc:
    """What a custom CRC computes, when its parameters were changed."""

    polynomial: int
    initial: int
    final: int
    reflects_data: bool
    reflects_remainder: bool


@dataclass(frozen=True)
class Calculation:
    """A hash or checksum over packet fields. `name` is empty for a selector's.

    `crc` stands for the parameters that a custom CRC begins with.
    """

    name: str
    algorithm: str
    inputs: tuple[CalcInput, ...]
    crc: CustomCrc | None = None


@dataclass(frozen=True)
class Checksum:
    """A checksum field, when to verify and update it; `calculation` None means type ipv4."""

    name: str
    target: FieldRef
    calculation: str | None
    verify: bool
    update: bool
    condition: Expr | None


@dataclass(frozen=True)
class Register:
    """A register array; `bits` per cell."""

    name: str
    id: int
    index: int
    size: int
    bits: int


@dataclass(frozen=True)
class Counter:
    """A counter array; `size` 0 and `table` set for a direct one."""

    name: str
    id: int
    index: int
    size: int
    table: str | None


@dataclass(frozen=True)
class Meter:
    """A meter array; `size` 0, `table` and `target` set for a direct one."""

    name: str
    id: int
    index: int
    size: int
    bytes: bool
    rates: int
    table: str | None
    target: FieldRef | None


@dataclass(frozen=True)
class LearnList:
    """A digest: its fields in order."""

    name: str
    id: int
    index: int
    fields: tuple[FieldRef, ...]


@dataclass(frozen=True)
class FieldList:
    """Fields that clone, resubmit and recirculate preserve."""

    id: int
    fields: tuple[FieldRef, ...]


@dataclass(frozen=True)
class Param:
    """An action parameter."""

    name: str
    bits: int


@dataclass(frozen=True)
class Action:
    """An action. p4c gives each table its own copy: names repeat, ids don't."""

    name: str
    id: int
    index: int
    params: tuple[Param, ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True)
class TableKey:
    """A key field. `match` is exact, lpm, ternary, range, optional or valid; `field` is None for
    `valid`; `mask` is the static mask or None. `element` is set where the program finds the header
    at run time: `header` then stands for all headers of that stack."""

    name: str
    match: str
    header: str
    field: str | None
    bits: int
    mask: int | None
    element: HeaderField | None = None

    @property
    def bytes(self) -> int:
        """Bytes the field takes in the key: one also for `bit<0>`, so that no key is empty."""
        return max(1, (self.bits + 7) // 8)


@dataclass(frozen=True)
class EntryKey:
    """One field of a const entry: `value`; `mask` for ternary, `prefix_length` for lpm, `high`
    for range (`value` is the low end)."""

    match: str
    value: int
    mask: int = 0
    prefix_length: int = 0
    high: int = 0


@dataclass(frozen=True)
class Entry:
    """An entry written in the program. A lower `priority` number wins, as in BMv2."""

    key: tuple[EntryKey, ...]
    action: Action
    args: tuple[int, ...]
    priority: int


@dataclass(frozen=True)
class DefaultEntry:
    """A table's initial default entry."""

    action: Action
    args: tuple[int, ...]
    action_const: bool
    entry_const: bool


@dataclass(frozen=True)
class Table:
    """A match-action table. `next` maps action ids to node names; `hit_next`/`miss_next` replace it
    where `next_is_hit_miss`. `immutable`: only the program may define entries."""

    name: str
    id: int
    index: int
    pipeline: str
    key: tuple[TableKey, ...]
    match_type: str
    type: str
    max_size: int
    with_counters: bool
    support_timeout: bool
    direct_meter: str | None
    action_profile: str | None
    actions: tuple[Action, ...]
    next: dict[int, str | None]
    next_is_hit_miss: bool
    hit_next: str | None
    miss_next: str | None
    base_default_next: str | None
    default_entry: DefaultEntry | None
    entries: tuple[Entry, ...]
    immutable: bool

    @property
    def fixed_action(self) -> Action | None:
        """The action of a table without keys whose default can't change: p4c's form of a call."""
        default = self.default_entry
        if self.key or self.type != "simple" or default is None or not default.entry_const:
            return None
        return default.action if not default.action.params and not self.entries else None


@dataclass(frozen=True)
class ActionProfile:
    """An action profile; `selector` is the member selection's hash, None without groups."""

    name: str
    id: int
    index: int
    max_size: int
    selector: Calculation | None


@dataclass(frozen=True)
class Conditional:
    """An `if` of a pipeline."""

    name: str
    expression: Expr
    true_next: str | None
    false_next: str | None
    source: Source | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ActionCall:
    """A direct call of an action without parameters."""

    name: str
    action: Action
    next: str | None


PipelineNode = Table | Conditional | ActionCall


@dataclass(frozen=True)
class Pipeline:
    """A pipeline: nodes by name, in document order."""

    name: str
    init_node: str | None
    nodes: dict[str, PipelineNode]

    def successors(self, name: str) -> list[str]:
        """Return the nodes that can follow a node, whatever the packet."""
        match self.nodes[name]:
            case Conditional(true_next=if_true, false_next=if_false):
                following = [if_true, if_false]
            case ActionCall(next=after):
                following = [after]
            case Table() as table:
                by_hit = [table.hit_next, table.miss_next]
                following = [*table.next.values(), *by_hit, table.base_default_next]
        return [node for node in following if node is not None]


@dataclass(frozen=True)
class Bmv2Program:
    """A checked BMv2 JSON program.

    `errors` holds the document's parser errors and, for core errors that it lacks, codes as BMv2
    gives them. `std_fields` maps (header, field) to the member of `struct wp_std` that holds it.
    """

    name: str
    header_types: dict[str, HeaderType]
    headers: dict[str, Header]
    stacks: dict[str, HeaderStack]
    unions: dict[str, HeaderUnion]
    union_stacks: dict[str, UnionStack]
    errors: dict[str, int]
    enums: dict[str, dict[str, int]]
    std_fields: dict[tuple[str, str], str]
    parser: Parser
    deparser: Deparser
    ingress: Pipeline
    egress: Pipeline
    value_sets: tuple[ValueSet, ...]
    calculations: dict[str, Calculation]
    checksums: tuple[Checksum, ...]
    registers: tuple[Register, ...]
    counters: tuple[Counter, ...]
    meters: tuple[Meter, ...]
    learn_lists: tuple[LearnList, ...]
    field_lists: tuple[FieldList, ...]
    actions: tuple[Action, ...]
    profiles: tuple[ActionProfile, ...]
    tables: tuple[Table, ...]

    @classmethod
    def from_json(cls, source: dict[str, Any] | str | bytes | Path) -> Bmv2Program:
        """Read and check a document: a parsed object, its text, or a path to it.

        Raises JsonError with the place and the problem; OSError when the file can't be read.
        """
        from softswitch.codegen.loader import load_program  # it imports this module

        return load_program(source)

    def field(self, ref: FieldRef) -> Field:
        """Return the type of a field reference; `$valid$` is one bit."""
        found = self.headers[ref.header].type.field(ref.field)
        return found if found is not None else Field(ref.field, 1)

    @property
    def reads_payload(self) -> bool:
        """Whether a hash or checksum covers the payload."""
        inputs = (item for found in self.calculations.values() for item in found.inputs)
        return any(item.kind == "payload" for item in inputs)
