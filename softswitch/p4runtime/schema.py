"""P4Info joined with the loaded pipeline: what each P4Runtime id means to the core.

P4Info gives ids, names, match kinds and limits; the JSON's model gives the core's indices and key
layout, and which copy of an action a table uses (p4c makes one a table, with equal names). Names
are the bridge: a P4Info name is the JSON's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from softswitch.codegen import model as bmv2
from softswitch.codegen.model import Bmv2Program
from softswitch.p4runtime.protos import p4i
from softswitch.p4runtime.status import PipelineError
from softswitch.p4runtime.strings import Strings, Vocabulary, string_types


class MatchKind(IntEnum):
    """P4Info's match types that BMv2 has."""

    EXACT = p4i.MatchField.EXACT
    LPM = p4i.MatchField.LPM
    TERNARY = p4i.MatchField.TERNARY
    RANGE = p4i.MatchField.RANGE
    OPTIONAL = p4i.MatchField.OPTIONAL


class Scope(IntEnum):
    """Where a table may use an action."""

    TABLE_AND_DEFAULT = p4i.ActionRef.TABLE_AND_DEFAULT
    TABLE_ONLY = p4i.ActionRef.TABLE_ONLY
    DEFAULT_ONLY = p4i.ActionRef.DEFAULT_ONLY


NEEDS_PRIORITY = frozenset({MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL})


@dataclass(frozen=True, slots=True)
class Field:
    """One match field; `offset` and `size` (bytes) are its place in the core's key."""

    id: int
    name: str
    kind: MatchKind
    bitwidth: int
    offset: int
    size: int
    strings: Strings | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Param:
    """One action parameter, or one field of a controller header.

    `translated`: its type has a name, so the JSON's width may be another (see `_fields`).
    """

    id: int
    name: str
    bitwidth: int
    translated: bool = False
    strings: Strings | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Action:
    """One action of P4Info."""

    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class ActionRef:
    """An action as one table uses it; `index` is the core's."""

    action: Action
    scope: Scope
    index: int


@dataclass(frozen=True, slots=True)
class Direct:
    """A table's direct counter or meter; `packets` and `bytes` are what it counts."""

    id: int
    name: str
    packets: bool
    bytes: bool


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `index` is the core's, `fields` are in P4Info's order."""

    id: int
    name: str
    index: int
    fields: tuple[Field, ...]
    key_bytes: int
    actions: Mapping[int, ActionRef]
    size: int
    const_entries: bool
    const_default: bool
    idle_timeout: bool
    profile_id: int
    counter: Direct | None
    meter: Direct | None
    needs_priority: bool = field(init=False)
    """Whether entries must carry a priority > 0 (else it must be 0)."""
    field_ids: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        needs_priority = any(each.kind in NEEDS_PRIORITY for each in self.fields)
        object.__setattr__(self, "needs_priority", needs_priority)
        object.__setattr__(self, "field_ids", frozenset(each.id for each in self.fields))


@dataclass(frozen=True, slots=True)
class Profile:
    """An action profile or selector. `actions` are those of its tables, with the core's indices."""

    id: int
    name: str
    index: int
    with_selector: bool
    size: int
    max_group_size: int
    sum_of_members: bool
    weights_disallowed: bool
    actions: Mapping[int, ActionRef]


@dataclass(frozen=True, slots=True)
class Array:
    """An indirect counter or meter array."""

    id: int
    name: str
    index: int
    size: int
    packets: bool
    bytes: bool


@dataclass(frozen=True, slots=True)
class Register:
    """A register array of bit<N> cells (the only kind that BMv2 has)."""

    id: int
    name: str
    index: int
    size: int
    bitwidth: int


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest; `learns` are the core's indices, `widths` the bits of its members in order.

    A program that sends one struct at several places has a list for each place.
    `shape` is the P4Data form of a message: "struct", "tuple" or "bitstring".
    """

    id: int
    name: str
    learns: tuple[int, ...]
    widths: tuple[int, ...]
    shape: str


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set; `index` is the core's, `fields` are the parts of the select's key."""

    id: int
    name: str
    index: int
    size: int
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ControllerHeader:
    """The fields of the packet_in or packet_out header, in order."""

    name: str
    fields: tuple[Param, ...]

    @property
    def bits(self) -> int:
        """The header's size in bits."""
        return sum(f.bitwidth for f in self.fields)


@dataclass(slots=True)
class Schema:
    """Everything that requests may name. `missing` maps ids that only P4Info knows to names."""

    p4info: p4i.P4Info
    tables: dict[int, Table] = field(default_factory=dict)
    actions: dict[int, Action] = field(default_factory=dict)
    profiles: dict[int, Profile] = field(default_factory=dict)
    counters: dict[int, Array] = field(default_factory=dict)
    meters: dict[int, Array] = field(default_factory=dict)
    registers: dict[int, Register] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    value_sets: dict[int, ValueSet] = field(default_factory=dict)
    packet_in: ControllerHeader | None = None
    packet_out: ControllerHeader | None = None
    missing: dict[int, str] = field(default_factory=dict)
    strings: Vocabulary = field(default_factory=lambda: Vocabulary({}), compare=False)

    @property
    def has_strings(self) -> bool:
        """Whether the controller has strings for some of the program's numbers."""
        return bool(self.strings)


def bind(p4info: p4i.P4Info, program: Bmv2Program) -> Schema:
    """Join `p4info` with the program of the device config.

    Objects that only P4Info has (p4c may remove what is never reached) land in `missing`. Raises
    PipelineError when P4Info and JSON clearly belong to different programs.
    """
    return _Binder(p4info, program).run()


class _Binder:
    def __init__(self, p4info: p4i.P4Info, program: Bmv2Program) -> None:
        self.p4info = p4info
        self.program = program
        self.strings = string_types(p4info, program)
        self.schema = Schema(p4info=p4info, strings=Vocabulary(self.strings))

    def run(self) -> Schema:
        schema = self.schema
        widths = {own.name: [p.bits for p in own.params] for own in self.program.actions}
        for action in self.p4info.actions:
            bits = widths.get(action.preamble.name, [])
            if len(bits) != len(action.params):
                bits = [p.bitwidth for p in action.params]
            params = tuple(
                self._param(p, f"parameter {p.name!r}", own)
                for p, own in zip(action.params, bits, strict=True)
            )
            schema.actions[action.preamble.id] = Action(
                action.preamble.id, action.preamble.name, params
            )
        by_name = {table.name: table for table in self.program.tables}
        for info in self.p4info.tables:
            table = by_name.get(info.preamble.name)
            if table is None:
                schema.missing[info.preamble.id] = info.preamble.name
            else:
                schema.tables[info.preamble.id] = self._table(info, table)
        # Tables that are never applied are only in P4Info; those for a controller are in both.
        unknown = any(table.key and not table.immutable for table in self.program.tables)
        if self.p4info.tables and not schema.tables and unknown:
            first = self.p4info.tables[0].preamble.name
            raise PipelineError(
                f"P4Info and device config do not belong together: P4Info has tables such as "
                f"{first!r}, the JSON has none of them"
            )
        self._profiles()
        self._arrays()
        self._digests()
        self._value_sets()
        self._headers()
        return schema

    def _table(self, info: p4i.Table, table: bmv2.Table) -> Table:
        own_actions = {action.name: action for action in table.actions}
        actions: dict[int, ActionRef] = {}
        for ref in info.action_refs:
            action = self.schema.actions.get(ref.id)
            if action is None:
                raise PipelineError(
                    f"P4Info: table {table.name!r} refers to unknown action id {ref.id}"
                )
            own = own_actions.get(action.name)
            if own is not None:
                _check_params(table.name, action, own)
                if ref.scope not in _SCOPES:
                    raise PipelineError(
                        f"P4Info: table {table.name!r}, action {action.name!r}: there is no scope "
                        f"{ref.scope}"
                    )
                actions[ref.id] = ActionRef(action, Scope(ref.scope), own.index)
        direct = set(info.direct_resource_ids)
        return Table(
            id=info.preamble.id,
            name=table.name,
            index=table.index,
            fields=_fields(info, table, self.strings),
            key_bytes=sum(key.bytes for key in table.key),
            actions=actions,
            size=info.size,
            const_entries=info.is_const_table,
            const_default=info.const_default_action_id != 0,
            idle_timeout=info.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
            profile_id=info.implementation_id,
            counter=next(
                (
                    Direct(c.preamble.id, c.preamble.name, *_counter_unit(c.spec.unit))
                    for c in self.p4info.direct_counters
                    if c.preamble.id in direct
                ),
                None,
            ),
            meter=next(
                (
                    Direct(m.preamble.id, m.preamble.name, *_meter_unit(m.spec.unit))
                    for m in self.p4info.direct_meters
                    if m.preamble.id in direct
                ),
                None,
            ),
        )

    def _profiles(self) -> None:
        by_name = {profile.name: profile for profile in self.program.profiles}
        for info in self.p4info.action_profiles:
            own = by_name.get(info.preamble.name)
            if own is None:
                self._miss(info.preamble)
                continue
            users = [self.schema.tables[t] for t in info.table_ids if t in self.schema.tables]
            self.schema.profiles[info.preamble.id] = Profile(
                id=info.preamble.id,
                name=own.name,
                index=own.index,
                with_selector=info.with_selector,
                size=info.size,
                max_group_size=info.max_group_size,
                sum_of_members=info.WhichOneof("selector_size_semantics") == "sum_of_members",
                weights_disallowed=info.weights_disallowed,
                actions=users[0].actions if users else {},
            )

    def _arrays(self) -> None:
        counters = {own.name: own for own in self.program.counters}
        for counter in self.p4info.counters:
            own_counter = counters.get(counter.preamble.name)
            if own_counter is None:
                self._miss(counter.preamble)
                continue
            unit = _counter_unit(counter.spec.unit)
            self.schema.counters[counter.preamble.id] = Array(
                counter.preamble.id, own_counter.name, own_counter.index, own_counter.size, *unit
            )
        meters = {own.name: own for own in self.program.meters}
        for meter in self.p4info.meters:
            own_meter = meters.get(meter.preamble.name)
            if own_meter is None:
                self._miss(meter.preamble)
                continue
            unit = _meter_unit(meter.spec.unit)
            self.schema.meters[meter.preamble.id] = Array(
                meter.preamble.id, own_meter.name, own_meter.index, own_meter.size, *unit
            )
        registers = {own.name: own for own in self.program.registers}
        for register in self.p4info.registers:
            own_register = registers.get(register.preamble.name)
            if own_register is None:
                self._miss(register.preamble)
                continue
            self.schema.registers[register.preamble.id] = Register(
                register.preamble.id,
                own_register.name,
                own_register.index,
                own_register.size,
                own_register.bits,
            )

    def _digests(self) -> None:
        for info in self.p4info.digests:
            lists = [own for own in self.program.learn_lists if own.name == info.preamble.name]
            if not lists:
                self._miss(info.preamble)
                continue
            own = lists[0]
            shape = info.type_spec.WhichOneof("type_spec") or "bitstring"
            self.schema.digests[info.preamble.id] = Digest(
                id=info.preamble.id,
                name=own.name,
                learns=tuple(each.index for each in lists),
                widths=tuple(self.program.field(ref).bits for ref in own.fields),
                shape=shape if shape in ("struct", "tuple") else "bitstring",
            )

    def _value_sets(self) -> None:
        sets = {own.name: own for own in self.program.value_sets}
        for info in self.p4info.value_sets:
            own = sets.get(info.preamble.name)
            if own is None or not own.key:  # p4c leaves out what no state selects by
                self._miss(info.preamble)
                continue
            what = f"value set {own.name!r}"
            if [m.bitwidth for m in info.match] != list(own.key):
                raise PipelineError(
                    f"{what}: P4Info has keys of {[m.bitwidth for m in info.match]} bits, the "
                    f"JSON of {list(own.key)}"
                )
            unsupported = [m.match_type for m in info.match if m.match_type not in _MATCH_KINDS]
            if unsupported:
                raise PipelineError(f"{what}: match type {unsupported[0]} is not supported")
            self.schema.value_sets[info.preamble.id] = ValueSet(
                info.preamble.id,
                own.name,
                own.index,
                info.size,
                tuple(
                    Field(m.id, m.name, MatchKind(m.match_type), m.bitwidth, 0, 0)
                    for m in info.match
                ),
            )

    def _headers(self) -> None:
        for info in self.p4info.controller_packet_metadata:
            header = ControllerHeader(
                info.preamble.name,
                tuple(self._param(m, f"metadata {m.name!r}", 0) for m in info.metadata),
            )
            if header.name == "packet_in":
                self.schema.packet_in = header
            elif header.name == "packet_out":
                self.schema.packet_out = header

    def _param(
        self, of: p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata, what: str, own: int
    ) -> Param:
        """Bind a parameter; `own` is the JSON's width, used where P4Info has none: enums and
        bit<0>.
        """
        strings = self.strings.get(of.type_name.name)
        bits = strings.bits if strings is not None else of.bitwidth or own
        if not bits and isinstance(of, p4i.ControllerPacketMetadata.Metadata):
            raise PipelineError(f"{what}: has no bit width")
        return Param(of.id, of.name, bits, of.HasField("type_name"), strings)

    def _miss(self, preamble: p4i.Preamble) -> None:
        self.schema.missing[preamble.id] = preamble.name


def _fields(
    info: p4i.Table, table: bmv2.Table, strings: Mapping[str, Strings]
) -> tuple[Field, ...]:
    """Pair P4Info's match fields with the JSON's keys: by name where names agree, else by order."""
    if len(info.match_fields) != len(table.key):
        raise PipelineError(
            f"table {table.name!r}: P4Info has {len(info.match_fields)} match fields, the JSON "
            f"{len(table.key)} keys"
        )
    places: list[tuple[bmv2.TableKey, int]] = []
    offset = 0
    for key in table.key:
        places.append((key, offset))
        offset += key.bytes
    by_name = {key.name: (key, at) for key, at in places}
    names_agree = len(by_name) == len(places) and all(
        match.name in by_name for match in info.match_fields
    )
    fields = []
    for position, match in enumerate(info.match_fields):
        key, at = by_name[match.name] if names_agree else places[position]
        what = f"table {table.name!r}, match field {match.name!r}"
        if match.match_type not in _MATCH_KINDS:
            raise PipelineError(f"{what}: match type {match.match_type} is not supported")
        kind = MatchKind(match.match_type)
        if (kind is MatchKind.RANGE) != (key.match == "range"):
            raise PipelineError(f"{what}: {kind.name} in P4Info, {key.match} in the JSON")
        # p4c gives no width where the controller has no type for a field: those of type error.
        # Strings have no prefixes, masks or ranges: numbers stand there as they are.
        masked = kind not in (MatchKind.EXACT, MatchKind.OPTIONAL)
        known = strings.get(match.type_name.name)
        named = None if masked else known
        plain = not match.bitwidth and (known or not match.HasField("type_name"))
        width = key.bits if plain else _width(match.bitwidth, what)
        # A translated type has the controller's width in P4Info; its numbers are taken as they are.
        if width != key.bits and not match.HasField("type_name"):
            raise PipelineError(f"{what}: {width} bits in P4Info, {key.bits} in the JSON")
        fields.append(Field(match.id, match.name, kind, key.bits, at, key.bytes, named))
    return tuple(fields)


_MATCH_KINDS = frozenset(int(kind) for kind in MatchKind)
_SCOPES = frozenset(int(scope) for scope in Scope)


def _check_params(table: str, action: Action, own: bmv2.Action) -> None:
    theirs = [p.bitwidth for p in action.params]
    ours = [p.bits for p in own.params]
    differ = len(theirs) != len(ours) or any(
        p.bitwidth != bits and not p.translated for p, bits in zip(action.params, ours, strict=True)
    )
    if differ:
        raise PipelineError(
            f"table {table!r}, action {action.name!r}: P4Info has parameters of {theirs} bits, "
            f"the JSON of {ours}"
        )


def _width(bitwidth: int, what: str) -> int:
    if bitwidth <= 0:
        raise PipelineError(f"{what}: has no bit width")
    return bitwidth


def _counter_unit(unit: int) -> tuple[bool, bool]:
    return (
        unit in (p4i.CounterSpec.PACKETS, p4i.CounterSpec.BOTH),
        unit in (p4i.CounterSpec.BYTES, p4i.CounterSpec.BOTH),
    )


def _meter_unit(unit: int) -> tuple[bool, bool]:
    return unit == p4i.MeterSpec.PACKETS, unit == p4i.MeterSpec.BYTES
