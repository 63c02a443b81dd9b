"""A switch's program in simple_switch_CLI's words: tables, actions, arrays, by name or its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from softswitch.p4runtime.protos import p4i
from weft.switch_cli_values import CommandError, KeyField

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
        """Its row in `show_actions`."""
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
    """A table; `kind` is that of the whole key, as BMv2 sees it."""

    id: int
    name: str
    key: tuple[KeyField, ...]
    actions: Mapping[str, Action]
    profile: Profile | None
    ages: bool

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
        """Its row in `show_tables`."""
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


@dataclass(slots=True)
class Program:
    """Everything that commands may name, by full name."""

    actions: dict[str, Action] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    counters: dict[str, Array] = field(default_factory=dict)
    meters: dict[str, Array] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, info: p4i.P4Info) -> Program:
        """Read P4Info."""
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
            key = tuple(
                KeyField(m.id, m.name, _KINDS.get(m.match_type, "exact"), m.bitwidth)
                for m in table.match_fields
            )
            made_table = Table(
                *(table.preamble.id, table.preamble.name, key),
                _actions(by_id, (ref.id for ref in table.action_refs)),
                profiles.get(table.implementation_id),
                table.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
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


def find(objects: Mapping[str, N], name: str, what: str) -> N:
    """The object of that name, or the only one that ends with it, in whole parts between dots.

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


def short_names(names: Iterable[str]) -> list[str]:
    """All names by which `find` finds one object: for completion."""
    full = list(names)
    ends = [
        ".".join(parts[at:])
        for parts in (name.split(".") for name in full)
        for at in range(len(parts))
    ]
    return sorted(end for end, times in Counter(ends).items() if times == 1)


def _actions(by_id: Mapping[int, Action], ids: Iterable[int]) -> dict[str, Action]:
    found = [by_id[number] for number in ids if number in by_id]
    return {action.name: action for action in found}
