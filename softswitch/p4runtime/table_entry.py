"""One table entry as it is kept, its timer, and what reads compare and copy of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.p4runtime import keys
from softswitch.p4runtime.profiles import OneShot
from softswitch.p4runtime.protos import p4r


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One entry with its counter and age, to be restored when a batch is rolled back."""

    message: p4r.TableEntry
    born_ps: int
    idle_due_ps: int


@dataclass(slots=True)
class Entry:
    """One entry as the controller wrote it: `message` is canonical and has no counter in it."""

    handle: int
    message: p4r.TableEntry
    one_shot: OneShot | None = None
    born_ps: int = 0
    idle_due_ps: int = 0


class IdleTimers:
    """When entries of one table have to be looked at; stale timers are the caller's to ignore."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, keys.MatchKey]] = []

    def watch(self, key: keys.MatchKey, entry: Entry, due_ps: int) -> None:
        """Look at `entry` at `due_ps`; its earlier timers are stale from now on."""
        entry.idle_due_ps = due_ps
        heapq.heappush(self._heap, (due_ps, entry.handle, key))

    def next_due(self) -> int | None:
        """Return when (ps) the first timer is due."""
        return self._heap[0][0] if self._heap else None

    def pop(self, now_ps: int) -> Iterator[tuple[int, keys.MatchKey, int]]:
        """Handle, key and time of each timer due at `now_ps`."""
        while self._heap and self._heap[0][0] <= now_ps:
            due_ps, handle, key = heapq.heappop(self._heap)
            yield handle, key, due_ps


def idle_notice(message: p4r.TableEntry) -> p4r.TableEntry:
    """Return the part of an entry that an IdleTimeoutNotification holds."""
    notice = p4r.TableEntry()
    copy_key(message, notice)
    notice.metadata = message.metadata
    notice.controller_metadata = message.controller_metadata
    notice.idle_timeout_ns = message.idle_timeout_ns
    return notice


def copy_key(source: p4r.TableEntry, target: p4r.TableEntry) -> None:
    """Copy what identifies an entry."""
    target.table_id = source.table_id
    target.match.extend(source.match)
    target.priority = source.priority
    target.is_default_action = source.is_default_action


def wanted(entry: p4r.TableEntry, query: p4r.TableEntry) -> bool:
    """Return whether a read with `query` selects an entry, its key apart ("Wildcard Reads")."""
    if query.priority and query.priority != entry.priority:
        return False
    if query.metadata and query.metadata != entry.metadata:
        return False
    if query.controller_metadata and query.controller_metadata != entry.controller_metadata:
        return False
    action = query.action.action.action_id if query.HasField("action") else 0
    return action in (0, entry.action.action.action_id)
