"""P4Info made of BMv2 JSON, for a switch that is started with a program alone.

What the JSON does not tell is left out or taken as its most general: annotations, types with
names, controller headers (a packet-in then has all of its bytes in its payload), `@id` (ids are
those that p4c gives to a name without one), and what counters count (both).
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import BUILTIN_POS
from compiler.p4info.ids import ResourceType, SymbolTable
from softswitch.codegen import model as bmv2
from softswitch.codegen.model import Bmv2Program
from softswitch.p4runtime.protos import p4i

_MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "valid": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}


def derive(program: Bmv2Program) -> p4i.P4Info:
    """Derive P4Info for everything in `program` that a controller may name."""
    return _Deriving(program).run()


class _Deriving:
    def __init__(self, program: Bmv2Program) -> None:
        self._program = program
        # A table without key whose action can't be changed is how p4c writes a statement.
        self._tables = [table for table in program.tables if table.fixed_action is None]
        self._actions: dict[str, bmv2.Action] = {}
        for table in self._tables:
            for action in table.actions:
                self._actions.setdefault(action.name, action)
        self._symbols = SymbolTable()
        self._info = p4i.P4Info()

    def run(self) -> p4i.P4Info:
        self._number()
        for table in self._tables:
            self._table(table)
        for action in self._actions.values():
            self._action(action)
        for profile in self._program.profiles:
            self._profile(profile)
        for counter in self._program.counters:
            self._counter(counter)
        for meter in self._program.meters:
            self._meter(meter)
        for register in self._program.registers:
            message = self._info.registers.add()
            self._preamble(message.preamble, ResourceType.REGISTER, register.name)
            message.size = register.size
            message.type_spec.bitstring.bit.bitwidth = register.bits
        for value_set in self._program.value_sets:
            self._value_set(value_set)
        for name, learn in self._learn_lists().items():
            digest = self._info.digests.add()
            self._preamble(digest.preamble, ResourceType.DIGEST, name)
            for ref in learn.fields:
                member = digest.type_spec.tuple.members.add()
                member.bitstring.bit.bitwidth = self._program.field(ref).bits
        return self._info

    # ------------------------------------------------------------------ ids

    def _number(self) -> None:
        program = self._program
        self._add(ResourceType.TABLE, [table.name for table in self._tables])
        self._add(ResourceType.ACTION, list(self._actions))
        self._add(ResourceType.ACTION_PROFILE, [profile.name for profile in program.profiles])
        for counter in program.counters:
            self._add(_counter_kind(counter), [counter.name])
        for meter in program.meters:
            self._add(_meter_kind(meter), [meter.name])
        self._add(ResourceType.REGISTER, [register.name for register in program.registers])
        self._add(ResourceType.VALUE_SET, [value_set.name for value_set in program.value_sets])
        self._add(ResourceType.DIGEST, list(self._learn_lists()))
        self._symbols.assign()

    def _add(self, kind: ResourceType, names: Sequence[str]) -> None:
        for name in names:
            self._symbols.add(kind, name, None, BUILTIN_POS)

    def _learn_lists(self) -> dict[str, bmv2.LearnList]:
        """Return the learn lists by name: a digest that two actions send is two lists."""
        found: dict[str, bmv2.LearnList] = {}
        for learn in self._program.learn_lists:
            found.setdefault(learn.name, learn)
        return found

    def _preamble(self, preamble: p4i.Preamble, kind: ResourceType, name: str) -> None:
        preamble.id = self._symbols.id_of(kind, name)
        preamble.name = name
        preamble.alias = self._symbols.alias_of(name)

    # ------------------------------------------------------------------ messages

    def _table(self, table: bmv2.Table) -> None:
        message = self._info.tables.add()
        self._preamble(message.preamble, ResourceType.TABLE, table.name)
        for number, key in enumerate(table.key, start=1):
            message.match_fields.add(
                id=number, name=key.name, bitwidth=key.bits, match_type=_MATCH_TYPES[key.match]
            )
        for name in {action.name: None for action in table.actions}:
            message.action_refs.add(id=self._symbols.id_of(ResourceType.ACTION, name))
        default = table.default_entry
        if default is not None and default.action_const:
            action_id = self._symbols.id_of(ResourceType.ACTION, default.action.name)
            message.const_default_action_id = action_id
        if table.action_profile is not None:
            kind = ResourceType.ACTION_PROFILE
            message.implementation_id = self._symbols.id_of(kind, table.action_profile)
        for counter in self._program.counters:
            if counter.table == table.name:
                direct = self._symbols.id_of(ResourceType.DIRECT_COUNTER, counter.name)
                message.direct_resource_ids.append(direct)
        for meter in self._program.meters:
            if meter.table == table.name:
                direct = self._symbols.id_of(ResourceType.DIRECT_METER, meter.name)
                message.direct_resource_ids.append(direct)
        message.size = table.max_size
        if table.support_timeout:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
        message.is_const_table = table.immutable

    def _action(self, action: bmv2.Action) -> None:
        message = self._info.actions.add()
        self._preamble(message.preamble, ResourceType.ACTION, action.name)
        for number, param in enumerate(action.params, start=1):
            message.params.add(id=number, name=param.name, bitwidth=param.bits)

    def _profile(self, profile: bmv2.ActionProfile) -> None:
        message = self._info.action_profiles.add()
        self._preamble(message.preamble, ResourceType.ACTION_PROFILE, profile.name)
        users = [table.name for table in self._tables if table.action_profile == profile.name]
        message.table_ids.extend(self._symbols.id_of(ResourceType.TABLE, name) for name in users)
        message.with_selector = profile.selector is not None
        message.size = profile.max_size

    def _counter(self, counter: bmv2.Counter) -> None:
        if counter.table is None:
            message = self._info.counters.add()
            self._preamble(message.preamble, ResourceType.COUNTER, counter.name)
            message.spec.unit = p4i.CounterSpec.BOTH
            message.size = counter.size
        elif table_id := self._table_id(counter.table):
            direct = self._info.direct_counters.add()
            self._preamble(direct.preamble, ResourceType.DIRECT_COUNTER, counter.name)
            direct.spec.unit = p4i.CounterSpec.BOTH
            direct.direct_table_id = table_id

    def _meter(self, meter: bmv2.Meter) -> None:
        unit = p4i.MeterSpec.BYTES if meter.bytes else p4i.MeterSpec.PACKETS
        if meter.table is None:
            message = self._info.meters.add()
            self._preamble(message.preamble, ResourceType.METER, meter.name)
            message.spec.unit = unit
            message.size = meter.size
        elif table_id := self._table_id(meter.table):
            direct = self._info.direct_meters.add()
            self._preamble(direct.preamble, ResourceType.DIRECT_METER, meter.name)
            direct.spec.unit = unit
            direct.direct_table_id = table_id

    def _table_id(self, name: str) -> int:
        """Return the id of a table; 0 for a table hidden from the controller."""
        known = any(table.name == name for table in self._tables)
        return self._symbols.id_of(ResourceType.TABLE, name) if known else 0

    def _value_set(self, value_set: bmv2.ValueSet) -> None:
        message = self._info.value_sets.add()
        self._preamble(message.preamble, ResourceType.VALUE_SET, value_set.name)
        message.size = value_set.size
        for number, bits in enumerate(value_set.key, start=1):
            message.match.add(
                id=number,
                name=f"field{number}",
                bitwidth=bits,
                match_type=p4i.MatchField.EXACT,
            )


def _counter_kind(counter: bmv2.Counter) -> ResourceType:
    return ResourceType.COUNTER if counter.table is None else ResourceType.DIRECT_COUNTER


def _meter_kind(meter: bmv2.Meter) -> ResourceType:
    return ResourceType.METER if meter.table is None else ResourceType.DIRECT_METER
