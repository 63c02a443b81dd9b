"""Parser value sets: which keys a `select` takes for members (specification, "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from softswitch.p4runtime import keys
from softswitch.p4runtime.core_errors import core_errors
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import MatchKind, ValueSet
from softswitch.p4runtime.status import Code, EntityError

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

Member = tuple[tuple[int, ...], tuple[int, ...]]
"""Values and masks of the key's parts."""


class ValueSetStore:
    """The members of all value sets as a controller wrote them, and in the core."""

    def __init__(self, core: SwitchCore) -> None:
        self._core = core
        self._members: dict[int, list[p4r.ValueSetMember]] = {}

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same members."""
        self._core = core

    def write(self, value_set: ValueSet, kind: int, message: p4r.ValueSetEntry) -> None:
        """Replace all members, as MODIFY does. Raises EntityError."""
        if kind != p4r.Update.MODIFY:
            raise _error(value_set, Code.INVALID_ARGUMENT, "only MODIFY is possible")
        if len(message.members) > value_set.size:
            raise _error(
                value_set,
                Code.RESOURCE_EXHAUSTED,
                f"{len(message.members)} members are above its size of {value_set.size}",
            )
        members: dict[tuple[Member, ...], p4r.ValueSetMember] = {}
        for given in message.members:
            rows, canonical = _parse(value_set, given)
            if rows in members:
                raise _error(value_set, Code.ALREADY_EXISTS, "a member is given twice")
            members[rows] = canonical
        flat = [row for rows in members for row in rows]
        _check_masks(value_set, len(flat))
        with core_errors(f"value set {value_set.name!r}"):
            self._core.value_set_set(value_set.index, flat)
        self._members[value_set.id] = list(members.values())

    def read(self, value_set: ValueSet) -> p4r.ValueSetEntry:
        """Return the set with its members in canonical form; at first it has none."""
        return p4r.ValueSetEntry(
            value_set_id=value_set.id, members=self._members.get(value_set.id, [])
        )

    def everything(self) -> Iterator[p4r.ValueSetEntry]:
        """Yield the sets that have members."""
        for number, members in self._members.items():
            if members:
                yield p4r.ValueSetEntry(value_set_id=number, members=members)


def _parse(
    value_set: ValueSet, given: p4r.ValueSetMember
) -> tuple[tuple[Member, ...], p4r.ValueSetMember]:
    """Return the core's (value, mask) members for a member, several for ranges, and its canonical
    form.
    """
    owner = f"value set {value_set.name!r}"
    matches: dict[int, p4r.FieldMatch] = {}
    known = {field.id for field in value_set.fields}
    for match in given.match:
        if match.field_id not in known:
            raise _error(
                value_set, Code.INVALID_ARGUMENT, f"it has no match field {match.field_id}"
            )
        if match.field_id in matches:
            raise _error(
                value_set, Code.INVALID_ARGUMENT, f"match field {match.field_id} is given twice"
            )
        matches[match.field_id] = match
    parts: list[list[tuple[int, int]]] = []
    canonical = p4r.ValueSetMember()
    for field in value_set.fields:
        value = mask = 0
        if field.id in matches:
            value, mask, form = keys.field_of(owner, field, matches[field.id])
            canonical.match.append(form)
        elif field.kind is MatchKind.EXACT:
            raise _error(
                value_set, Code.INVALID_ARGUMENT, f"match field {field.name or field.id} is missing"
            )
        ranged = field.kind is MatchKind.RANGE and field.id in matches
        parts.append(_cover(value, mask, field.bitwidth) if ranged else [(value, mask)])
    _check_masks(value_set, prod(map(len, parts)))  # before they are made: it can be millions
    rows = (tuple(zip(*row, strict=True)) for row in product(*parts))
    return tuple((values, masks) for values, masks in rows), canonical


def _cover(low: int, high: int, bitwidth: int) -> list[tuple[int, int]]:
    """Return the fewest (value, mask) pairs that match exactly the numbers low..high."""
    full = (1 << bitwidth) - 1
    pairs = []
    while low <= high:
        size = low & -low or 1 << bitwidth
        while low + size - 1 > high:
            size >>= 1
        pairs.append((low, full & ~(size - 1)))
        low += size
    return pairs


def _check_masks(value_set: ValueSet, count: int) -> None:
    if count > value_set.size:
        raise _error(
            value_set,
            Code.RESOURCE_EXHAUSTED,
            f"the ranges of its members need {count} masks, above its size of {value_set.size}",
        )


def _error(value_set: ValueSet, code: Code, message: str) -> EntityError:
    return EntityError(code, f"value set {value_set.name!r}: {message}")
