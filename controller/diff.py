"""The fewest updates that turn what a switch holds into what it should hold.

Order keeps every intermediate state sound: things that others refer to come before them, and are
taken away after them. An entry that stays is modified in place, so traffic never misses it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.entries import (
    CloneSession,
    DefaultEntry,
    DigestSetting,
    Entry,
    Group,
    Member,
    MulticastGroup,
    TableEntry,
    decode,
    encode,
)
from controller.p4info import P4Info
from softswitch.p4runtime.protos import p4r

_RANK: Mapping[type[Entry], int] = {
    Member: 0,
    CloneSession: 0,
    MulticastGroup: 0,
    Group: 1,
    DefaultEntry: 2,
    TableEntry: 2,
    DigestSetting: 2,
}
"""Later ones refer to earlier ones."""


class Operation(enum.Enum):
    """P4Runtime's update types."""

    INSERT = "INSERT"
    MODIFY = "MODIFY"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Change:
    """One update of one entry."""

    operation: Operation
    entry: Entry

    def encode(self, p4info: P4Info) -> p4r.Update:
        """Return the P4Runtime update."""
        kind = p4r.Update.Type.Value(self.operation.value)
        return p4r.Update(type=kind, entity=encode(self.entry, p4info))


class Difference:
    """Collects what turns one list of entries, in the order they are given, into another."""

    def __init__(self) -> None:
        self._fresh: list[Change] = []
        self._stale: list[Change] = []

    def add(self, before: Entry | None, after: Entry | None) -> None:
        """Take one entry's two states; None where it is not. Both have the same key."""
        if after is None:
            if before is not None and not isinstance(before, DefaultEntry):
                self._stale.append(Change(Operation.DELETE, before))
        elif before is None and not isinstance(after, DefaultEntry):
            self._fresh.append(Change(Operation.INSERT, after))
        elif before != after:
            self._fresh.append(Change(Operation.MODIFY, after))

    def add_all(self, before: Sequence[Entry], after: Sequence[Entry]) -> None:
        """Take all entries of some keys in their two states. Entries are canonical."""
        if not before:
            insert, modify = Operation.INSERT, Operation.MODIFY
            self._fresh += [
                Change(modify if isinstance(entry, DefaultEntry) else insert, entry)
                for entry in after
            ]
        elif len(before) == len(after) and all(map(_same_key, before, after)):
            for old, new in zip(before, after, strict=True):
                self.add(old, new)
        else:
            have = {entry.key: entry for entry in before}
            want = {entry.key: entry for entry in after}
            for key, entry in want.items():
                self.add(have.get(key), entry)
            for key, entry in have.items():
                if key not in want:
                    self.add(entry, None)

    def changes(self) -> tuple[Change, ...]:
        """Return the updates: first what is new or different, then what goes."""
        fresh = sorted(self._fresh, key=lambda change: _RANK[type(change.entry)])
        stale = sorted(self._stale, key=lambda change: -_RANK[type(change.entry)])
        return (*fresh, *stale)


def changes(wanted: Iterable[Entry], there: Iterable[Entry], p4info: P4Info) -> tuple[Change, ...]:
    """Return the updates from `there` to `wanted`, neither of which has a key twice.

    A default action that is there but not wanted stays as it is: P4Runtime knows no deletion of it.
    """
    found = Difference()
    found.add_all(tuple(canonical(there, p4info)), tuple(canonical(wanted, p4info)))
    return found.changes()


def batches(items: Sequence[Change], size: int) -> Iterable[Sequence[Change]]:
    """Split changes so that no batch has both an object and a reference to it.

    P4Runtime lets a server run the updates of one request in any order (12.2).
    """
    start = 0
    for i in range(1, len(items) + 1):
        full = i - start >= size
        if i == len(items) or full or _phase(items[i]) != _phase(items[i - 1]):
            yield items[start:i]
            start = i


def canonical(entries: Iterable[Entry], p4info: P4Info) -> Iterator[Entry]:
    """Give entries the form in which a switch reports them (no match on 'anything', sorted).

    Raises UnknownName; ControllerError for what the program can't hold.
    """
    for entry in entries:
        back = decode(encode(entry, p4info), p4info)
        if back is not None:
            yield back


def _same_key(one: Entry, other: Entry) -> bool:
    if one is other:
        return True
    if isinstance(one, TableEntry) and isinstance(other, TableEntry):
        return (
            one.match == other.match and one.table == other.table and one.priority == other.priority
        )
    return one.key == other.key


def _phase(change: Change) -> tuple[bool, int]:
    return change.operation is Operation.DELETE, _RANK[type(change.entry)]
