"""A switch's program in simple_switch_CLI's words: tables, actions, arrays, by name or its end.

P4Info has the ids that P4Runtime needs. Names of key fields, and the tables and actions that the
compiler made for itself, come from the program's JSON, where the switch returns that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from compat.bmv2_cli.values import CommandError, KeyField
from softswitch.p4runtime.protos import p4i

Json = Mapping[str, Any]

CUSTOM_CRCS = {"crc16_custom": 16, "crc32_custom": 32}
"""Hash algorithms whose parameters can be changed, and their bits."""

_KINDS: Mapping[int, str] = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


@dataclass(frozen=True, slots=True)
class Action:
    """An action; `params` are (id, name, bits)."""

    id: int
    name: str
    params: tuple[tuple[int, str, int], ...]

    def text(self) -> str:
        """Return the row in `show_actions`."""
        params = ",\t".join(f"{name}({bits})" for _, name, bits in self.params)
        return f"{self.name:30} [{params}]"


@dataclass(frozen=True, slots=True)
class Profile:
    """An action profile, or a selector."""

    id: int
    name: str
    with_selector: bool
    actions: Mapping[str, Action]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `kind` is that of the whole key, as BMv2 sees it.

    `id` is 0 for a table that the compiler made for itself: `only` is the action it always does.
    """

    id: int
    name: str
    key: tuple[KeyField, ...]
    actions: Mapping[str, Action]
    profile: Profile | None
    ages: bool
    constant: bool = False
    constant_default: bool = False
    only: str = ""

    @property
    def kind(self) -> str:
        """ "exact", "lpm", "ternary" or "range": what needs most of its fields."""
        kinds = {field.shown_kind for field in self.key}
        return next((kind for kind in ("range", "ternary", "lpm") if kind in kinds), "exact")

    @property
    def has_priorities(self) -> bool:
        """Whether an entry ends with a priority."""
        return self.kind in ("ternary", "range")

    def text(self) -> str:
        """Return the row in `show_tables`."""
        key = ",\t".join(f"{each.name}({each.shown_kind}, {each.bitwidth})" for each in self.key)
        profile = self.profile.name if self.profile else "None"
        return f"{self.name:30} [implementation={profile}, mk={key}]"


@dataclass(frozen=True, slots=True)
class Array:
    """A counter, meter or register array; `table` is set for a direct one, `bits` for registers."""

    id: int
    name: str
    size: int = 0
    bits: int = 0
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser's value set: the fields of its members."""

    id: int
    name: str
    fields: tuple[KeyField, ...]

    @property
    def bits(self) -> int:
        """The bits of a whole member."""
        return sum(field.bitwidth for field in self.fields)

    def text(self) -> str:
        """Return the row in `show_pvs`."""
        return f"{self.name:30} [compressed bitwidth:{self.bits}]"


@dataclass(slots=True)
class Program:
    """Everything that commands may name, by full name; `crcs` has bits by calculation."""

    actions: dict[str, Action] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    counters: dict[str, Array] = field(default_factory=dict)
    meters: dict[str, Array] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    crcs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, info: p4i.P4Info, config: bytes = b"") -> Program:
        """Read P4Info, and the program's JSON where there is one that is BMv2's."""
        program = cls._of_p4info(info)
        try:
            program._told_by(json.loads(config or b"{}"))
        except (ValueError, LookupError, TypeError, AttributeError):  # what another target takes
            return cls._of_p4info(info)
        return program

    @classmethod
    def _of_p4info(cls, info: p4i.P4Info) -> Program:
        program = cls()
        by_id: dict[int, Action] = {}
        for action in info.actions:
            params = tuple((p.id, p.name, p.bitwidth) for p in action.params)
            made = Action(action.preamble.id, action.preamble.name, params)
            by_id[made.id] = program.actions[made.name] = made
        users: dict[int, dict[str, Action]] = {}
        for table in info.tables:
            own = _actions(by_id, (ref.id for ref in table.action_refs))
            users.setdefault(table.implementation_id, {}).update(own)
        profiles: dict[int, Profile] = {}
        for entry in info.action_profiles:
            profile = Profile(
                *(entry.preamble.id, entry.preamble.name, entry.with_selector),
                users.get(entry.preamble.id, {}),
            )
            profiles[profile.id] = program.profiles[profile.name] = profile
        tables: dict[int, Table] = {}
        for table in info.tables:
            key = _key_fields(table.match_fields)
            made_table = Table(
                *(table.preamble.id, table.preamble.name, key),
                _actions(by_id, (ref.id for ref in table.action_refs)),
                profiles.get(table.implementation_id),
                table.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
                table.is_const_table,
                table.const_default_action_id != 0,
            )
            tables[made_table.id] = program.tables[made_table.name] = made_table
        program._arrays(info, tables)
        return program

    def _arrays(self, info: p4i.P4Info, tables: Mapping[int, Table]) -> None:
        for counter in info.counters:
            name = counter.preamble.name
            self.counters[name] = Array(counter.preamble.id, name, counter.size)
        for direct in info.direct_counters:
            name = direct.preamble.name
            table = tables.get(direct.direct_table_id)
            self.counters[name] = Array(direct.preamble.id, name, table=table)
        for meter in info.meters:
            name = meter.preamble.name
            self.meters[name] = Array(meter.preamble.id, name, meter.size)
        for direct_meter in info.direct_meters:
            name = direct_meter.preamble.name
            table = tables.get(direct_meter.direct_table_id)
            self.meters[name] = Array(direct_meter.preamble.id, name, table=table)
        for register in info.registers:
            name = register.preamble.name
            bits = register.type_spec.bitstring.bit.bitwidth
            self.registers[name] = Array(register.preamble.id, name, register.size, bits)
        for value_set in info.value_sets:
            fields = _key_fields(value_set.match)
            name = value_set.preamble.name
            self.value_sets[name] = ValueSet(value_set.preamble.id, name, fields)

    def _told_by(self, config: Json) -> None:
        """Take over what the JSON calls things. Any error if it is not BMv2's."""
        by_number: dict[int, str] = {}
        actions: dict[str, Action] = {}
        for row in _rows(config, "actions"):
            data = _rows(row, "runtime_data")
            params = tuple((0, str(p.get("name")), int(p.get("bitwidth", 0))) for p in data)
            by_number[row["id"]] = name = str(row["name"])
            actions[name] = self.actions.get(name) or Action(0, name, params)
        if actions:  # P4Info has those too that the compiler put where they are called
            self.actions = actions
        bits = _field_bits(config)
        for pipeline in _rows(config, "pipelines"):
            for row in _rows(pipeline, "tables"):
                name, table = str(row["name"]), self.tables.get(str(row["name"]))
                if table is None:
                    number = row.get("default_entry", {}).get("action_id")
                    only = by_number.get(number, "")
                    actions = {each: self.actions[each] for each in row["actions"]}
                    key = tuple(KeyField(0, *_key_field(k, bits)) for k in _rows(row, "key"))
                    self.tables[name] = Table(0, name, key, actions, None, False, True, True, only)
                elif len(row["key"]) == len(table.key):
                    names = (_key_field(k, bits)[0] for k in _rows(row, "key"))
                    fields = zip(table.key, names, strict=True)
                    key = tuple(replace(each, name=shown) for each, shown in fields)
                    self.tables[name] = replace(table, key=key)
        for array in (self.counters, self.meters):
            for name, each in array.items():
                if each.table is not None:
                    array[name] = replace(each, table=self.tables[each.table.name])
        for calculation in _rows(config, "calculations"):
            width = CUSTOM_CRCS.get(str(calculation.get("algo")))
            if width is not None:
                self.crcs[str(calculation["name"])] = width


def _key_fields(fields: Iterable[p4i.MatchField]) -> tuple[KeyField, ...]:
    return tuple(
        KeyField(each.id, each.name, _KINDS.get(each.match_type, "exact"), each.bitwidth)
        for each in fields
    )


def _rows(config: Json, name: str) -> Sequence[Json]:
    rows: Sequence[Json] = config.get(name) or []
    return rows


def _field_bits(config: Json) -> dict[tuple[str, str], int]:
    """Return the bits of every field of every header, by their names."""
    of_type = {
        str(kind["name"]): {str(entry[0]): entry[1] for entry in kind["fields"]}
        for kind in _rows(config, "header_types")
    }
    return {
        (str(header["name"]), name): width
        for header in _rows(config, "headers")
        for name, width in of_type.get(str(header["header_type"]), {}).items()
        if isinstance(width, int)
    }


def _key_field(row: Json, bits: Mapping[tuple[str, str], int]) -> tuple[str, str, int]:
    """Name, kind and bits of a key's field, as simple_switch_CLI prints them."""
    kind, target = str(row["match_type"]), row["target"]
    if kind == "valid":
        return f"{target}_valid", "exact", 1
    if target[1] == "$valid$":
        return f"{target[0]}_valid", kind, 1
    return ".".join(target), kind, bits.get((target[0], target[1]), 0)


def find(objects: Mapping[str, N], name: str, what: str) -> N:
    """Return the object of that name, or the only one whose name ends with it after a dot.

    Raises CommandError.
    """
    if name in objects:
        return objects[name]
    found = [each for full, each in objects.items() if full.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        raise CommandError(f"Invalid {what} name ({name}): it may be {names}")
    raise CommandError(f"Invalid {what} name ({name})")


def _actions(by_id: Mapping[int, Action], ids: Iterable[int]) -> dict[str, Action]:
    found = [by_id[number] for number in ids if number in by_id]
    return {action.name: action for action in found}
