"""Entities of one pipeline as entities of another: same names, other ids.

An object of the new P4Info stands for the old one of the same name; if no object has the name, for
the one of the same id (a rename under a fixed `@id`). What has no counterpart, or one of another
shape, is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Action, Field, MatchKind, Schema, Table
from softswitch.p4runtime.status import Code, EntityError


class _Object(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


O = TypeVar("O", bound=_Object)  # noqa: E741 - an object


def pair(old: Mapping[int, O], new: Mapping[int, O]) -> dict[int, O]:
    """Return the new object for each old object's id, where there is one."""
    by_name = {thing.name: thing for thing in new.values()}
    old_names = {thing.name for thing in old.values()}
    found = {}
    for number, thing in old.items():
        twin = by_name.get(thing.name)
        if twin is None and number in new and new[number].name not in old_names:
            twin = new[number]
        if twin is not None:
            found[number] = twin
    return found


@dataclass(frozen=True, slots=True)
class _ActionMap:
    action: int
    params: Mapping[int, int]


class Translation:
    """From the ids of `old` to those of `new`. Methods raise EntityError for what does not fit."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self.old = old
        self.tables = pair(old.tables, new.tables)
        self.profiles = pair(old.profiles, new.profiles)
        self.counters = pair(old.counters, new.counters)
        self.meters = pair(old.meters, new.meters)
        self.registers = pair(old.registers, new.registers)
        self.digests = pair(old.digests, new.digests)
        self.value_sets = pair(old.value_sets, new.value_sets)
        self._actions = pair(old.actions, new.actions)
        self._action_maps: dict[int, _ActionMap] = {}
        self._field_maps: dict[int, Mapping[int, int]] = {}

    def table_of(self, old: Table) -> Table:
        """Return the new table for `old`, whose key is the same."""
        new = self._counterpart(self.tables, old.id, f"table {old.name!r}")
        if old.id not in self._field_maps:
            fields = _by_name_or_id(old.fields, new.fields)
            if len(fields) != len(new.fields) or any(
                f.id not in fields or (f.kind, f.bitwidth) != _shape(fields[f.id])
                for f in old.fields
            ):
                raise _misfit(f"table {old.name!r}: its key was {_key(old)}, now it is {_key(new)}")
            self._field_maps[old.id] = {number: f.id for number, f in fields.items()}
        return new

    def table_entry(self, message: p4r.TableEntry) -> p4r.TableEntry:
        """Translate a table entry for the new table of the same name."""
        old = self.old.tables[message.table_id]
        new = self.table_of(old)
        fields = self._field_maps[old.id]
        result = p4r.TableEntry()
        result.CopyFrom(message)
        result.table_id = new.id
        for match in result.match:
            match.field_id = fields[match.field_id]
        match message.action.WhichOneof("type"):
            case "action":
                self._rewrite(result.action.action)
            case "action_profile_action_set":
                for item in result.action.action_profile_action_set.action_profile_actions:
                    self._rewrite(item.action)
        return result

    def member(self, message: p4r.ActionProfileMember) -> p4r.ActionProfileMember:
        """Translate a member of an action profile."""
        result = p4r.ActionProfileMember()
        result.CopyFrom(message)
        result.action_profile_id = self.profile_id(message.action_profile_id)
        self._rewrite(result.action)
        return result

    def group(self, message: p4r.ActionProfileGroup) -> p4r.ActionProfileGroup:
        """Translate a group of an action profile."""
        result = p4r.ActionProfileGroup()
        result.CopyFrom(message)
        result.action_profile_id = self.profile_id(message.action_profile_id)
        return result

    def digest(self, message: p4r.DigestEntry) -> p4r.DigestEntry:
        """Translate a digest's configuration."""
        old = self.old.digests[message.digest_id]
        result = p4r.DigestEntry()
        result.CopyFrom(message)
        result.digest_id = self._counterpart(self.digests, old.id, f"digest {old.name!r}").id
        return result

    def value_set(self, message: p4r.ValueSetEntry) -> p4r.ValueSetEntry:
        """Translate a value set with its members."""
        old = self.old.value_sets[message.value_set_id]
        what = f"value set {old.name!r}"
        new = self._counterpart(self.value_sets, old.id, what)
        shapes = [[(f.kind, f.bitwidth) for f in value_set.fields] for value_set in (old, new)]
        if shapes[0] != shapes[1]:
            raise _misfit(f"{what}: its key has another form in the new program")
        ids = {a.id: b.id for a, b in zip(old.fields, new.fields, strict=True)}
        result = p4r.ValueSetEntry()
        result.CopyFrom(message)
        result.value_set_id = new.id
        for member in result.members:
            for match in member.match:
                match.field_id = ids[match.field_id]
        return result

    def profile_id(self, number: int) -> int:
        """Return the new id of an action profile."""
        name = self.old.profiles[number].name
        return self._counterpart(self.profiles, number, f"action profile {name!r}").id

    def _rewrite(self, action: p4r.Action) -> None:
        found = self._action_map(self.old.actions[action.action_id])
        action.action_id = found.action
        for param in action.params:
            param.param_id = found.params[param.param_id]

    def _action_map(self, old: Action) -> _ActionMap:
        if old.id not in self._action_maps:
            new = self._counterpart(self._actions, old.id, f"action {old.name!r}")
            params = _by_name_or_id(old.params, new.params)
            if len(params) != len(old.params) or len(new.params) != len(old.params):
                raise _misfit(
                    f"action {old.name!r}: its parameters were {_names(old.params)}, now they are "
                    f"{_names(new.params)}"
                )
            ids = {number: param.id for number, param in params.items()}
            self._action_maps[old.id] = _ActionMap(new.id, ids)
        return self._action_maps[old.id]

    def _counterpart(self, pairs: Mapping[int, O], number: int, what: str) -> O:
        found = pairs.get(number)
        if found is None:
            raise _misfit(f"{what} is not in the new program")
        return found


def _by_name_or_id(old: Iterable[O], new: Iterable[O]) -> dict[int, O]:
    return pair({thing.id: thing for thing in old}, {thing.id: thing for thing in new})


def _shape(field: Field) -> tuple[MatchKind, int]:
    return field.kind, field.bitwidth


def _key(table: Table) -> str:
    fields = (f"{f.name} {f.kind.name.lower()} {f.bitwidth}" for f in table.fields)
    return f"({', '.join(fields)})"


def _names(things: Iterable[_Object]) -> str:
    return f"({', '.join(thing.name for thing in things)})"


def _misfit(message: str) -> EntityError:
    return EntityError(Code.INVALID_ARGUMENT, message)
