"""The fewest updates that turn what a switch holds into what it should hold.

Order keeps every intermediate state sound: things that others refer to come before them, and are
taken away after them. An entry that stays is modified in place, so traffic never misses it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.entries import (
    CloneSession,
    DefaultEntry,
    DigestSetting,
    Entry,
    Group,
    Member,
    TableEntry,
    decode,
    encode,
)
from controller.p4info import P4Info
from softswitch.p4runtime.protos import p4r


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


def changes(wanted: Iterable[Entry], there: Iterable[Entry], p4info: P4Info) -> tuple[Change, ...]:
    """Return the updates from `there` to `wanted`.

    A default action that is there but not wanted stays as it is: P4Runtime knows no deletion of it.
    """
    want = {entry.key: entry for entry in _canonical(wanted, p4info)}
    have = {entry.key: entry for entry in _canonical(there, p4info)}
    fresh: list[Change] = []
    for key, entry in want.items():
        if key not in have:
            new = Operation.MODIFY if isinstance(entry, DefaultEntry) else Operation.INSERT
            fresh.append(Change(new, entry))
        elif have[key] != entry:
            fresh.append(Change(Operation.MODIFY, entry))
    stale = [
        Change(Operation.DELETE, entry)
        for key, entry in have.items()
        if key not in want and not isinstance(entry, DefaultEntry)
    ]
    fresh.sort(key=lambda change: _rank(change.entry))
    stale.sort(key=lambda change: -_rank(change.entry))
    return (*fresh, *stale)


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


def _canonical(entries: Iterable[Entry], p4info: P4Info) -> Iterable[Entry]:
    """Give entries the form in which a switch reports them (no match on 'anything', sorted)."""
    for entry in entries:
        back = decode(encode(entry, p4info), p4info)
        if back is not None:
            yield back


def _phase(change: Change) -> tuple[bool, int]:
    return change.operation is Operation.DELETE, _rank(change.entry)


def _rank(entry: Entry) -> int:
    match entry:
        case Member() | CloneSession():
            return 0
        case Group():
            return 1
        case DefaultEntry() | TableEntry() | DigestSetting():
            return 2
