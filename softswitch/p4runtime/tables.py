"""Table entries: writing, reading, default entries, direct counters and meters, ageing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from softswitch.core import CoreError, Counter, MeterConfig, Spec
from softswitch.p4runtime import actions, keys
from softswitch.p4runtime.arrays import check_counter, check_meter, meter_config
from softswitch.p4runtime.core_errors import core_errors, entity_error
from softswitch.p4runtime.profiles import OneShot, ProfileStore
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Scope, Table
from softswitch.p4runtime.status import Code, EntityError
from softswitch.p4runtime.table_entry import (
    Entry,
    IdleTimers,
    Snapshot,
    copy_key,
    idle_notice,
    wanted,
)

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

PS_PER_NS = 1000
SLOT_MASK = 0xFFFF_FFFF
"""The part of a core handle that orders entries (see slots.h)."""


class TableStore:
    """The entries of one table. Times are the switch's, in picoseconds."""

    def __init__(
        self, core: SwitchCore, table: Table, profiles: Mapping[int, ProfileStore]
    ) -> None:
        self.table = table
        self._core = core
        self._profile = profiles.get(table.profile_id)
        self._entries: dict[keys.MatchKey, Entry] = {}
        self._initial: dict[keys.MatchKey, p4r.TableEntry] = {}
        self._initial_default: actions.ActionCall | None = None
        self._default = p4r.TableEntry(table_id=table.id, is_default_action=True)
        self._idle = IdleTimers()

    # --- what the program itself installs -----------------------------------------------------

    def install(self, key: keys.MatchKey, call: actions.ActionCall, *, const: bool) -> None:
        """Insert an entry of the program's own `entries` list; such entries outlive no pipeline."""
        spec = Spec.of_action(call.ref.index, call.args)
        message = p4r.TableEntry(
            table_id=self.table.id,
            match=keys.fields_of(self.table, key.key, key.mask),
            priority=key.priority,
            is_const=const,
        )
        message.action.action.CopyFrom(call.message)
        with core_errors(f"initial entry of {self._describe(message)}"):
            handle = self._core.table_insert(
                self.table.index, key.key, key.mask, key.priority, spec
            )
        self._entries[key] = Entry(handle, message)
        self._initial[key] = p4r.TableEntry()
        self._initial[key].CopyFrom(message)

    def install_default(self, call: actions.ActionCall | None) -> None:
        """Set the program's own default action."""
        self._initial_default = call
        self._set_default(call)

    # --- from one pipeline to the next (see reconcile.py) -------------------------------------

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same entries under the same handles."""
        self._core = core

    def in_order(self) -> list[tuple[keys.MatchKey, Entry]]:
        """Return all entries; those that tie in a look-up, in the order in which the first one
        wins.
        """
        return sorted(self._entries.items(), key=lambda item: item[1].handle & SLOT_MASK)

    def is_programs(self, key: keys.MatchKey, entry: Entry) -> bool:
        """Return whether `entry` is one of the program's own whose action no controller has
        changed.
        """
        return entry.message.is_const or self._initial.get(key) == entry.message

    def is_untouched(self, entry: Entry) -> bool:
        """Return whether a constant entry has neither metadata nor a meter's rates of a
        controller.
        """
        message = entry.message
        extras = message.metadata or message.controller_metadata or message.idle_timeout_ns
        return not extras and not message.HasField("meter_config")

    def removed(self) -> list[p4r.TableEntry]:
        """Return the entries of the program's own that a controller has deleted."""
        return [m for key, m in self._initial.items() if key not in self._entries]

    def find(self, message: p4r.TableEntry) -> Entry | None:
        """Return the entry with the key of `message`. Raises EntityError for an invalid key."""
        return self._entries.get(keys.parse(self.table, message)[0])

    def describe(self, entry: Entry) -> str:
        """Return the entry's key for messages."""
        return self._describe(entry.message)

    @property
    def initial_default(self) -> actions.ActionCall | None:
        """The program's own default action."""
        return self._initial_default

    @property
    def default_entry(self) -> p4r.TableEntry | None:
        """The default entry if a controller has changed it from what the program has."""
        initial = p4r.TableEntry(table_id=self.table.id, is_default_action=True)
        if self._initial_default is not None:
            initial.action.action.CopyFrom(self._initial_default.message)
        return None if self._default == initial else self._default

    def take_age(self, message: p4r.TableEntry, old: Entry) -> None:
        """Give the entry with the key of `message` the age and the idle time of `old`."""
        key, _ = keys.parse(self.table, message)
        entry = self._entries[key]
        entry.born_ps = old.born_ps
        if entry.message.idle_timeout_ns:
            self._idle.watch(key, entry, old.idle_due_ps)

    # --- undoing (see rollback.py) ------------------------------------------------------------

    def full_default(self) -> p4r.TableEntry:
        """Return the default entry with its counter, as a write that restores it."""
        message = p4r.TableEntry()
        message.CopyFrom(self._default)
        if self.table.counter is not None:
            message.counter_data.CopyFrom(self.counter_of(0))
        return message

    def snapshot(self, query: p4r.TableEntry) -> Snapshot | None:
        """Return a snapshot of the entry with the key of `query`.

        Raises EntityError for an invalid key.
        """
        entry = self.find(query)
        if entry is None:
            return None
        message = p4r.TableEntry()
        message.CopyFrom(entry.message)
        if self.table.counter is not None:
            message.counter_data.CopyFrom(self.counter_of(entry.handle))
        return Snapshot(message, self._last_hit(entry), entry.idle_due_ps)

    def restore(self, kind: int, snapshot: Snapshot, now_ps: int) -> None:
        """Insert or modify the entry so that it is as it was."""
        message = p4r.TableEntry()
        message.CopyFrom(snapshot.message)
        if message.is_const:
            message.is_const = False
            message.ClearField("action")
        self.write(kind, message, now_ps)
        key, _ = keys.parse(self.table, message)
        entry = self._entries[key]
        entry.message.is_const = snapshot.message.is_const
        entry.born_ps = snapshot.born_ps
        if message.idle_timeout_ns:
            self._idle.watch(key, entry, snapshot.idle_due_ps)

    # --- writes -------------------------------------------------------------------------------

    def write(self, kind: int, message: p4r.TableEntry, now_ps: int) -> None:
        """Apply one update (specification, "TableEntry"). Raises EntityError."""
        if message.HasField("time_since_last_hit"):
            raise self._error(Code.INVALID_ARGUMENT, "time_since_last_hit belongs in reads only")
        if message.is_const:
            raise self._error(Code.INVALID_ARGUMENT, "is_const must be false in a write")
        if message.is_default_action:
            self._write_default(kind, message)
            return
        key, matches = keys.parse(self.table, message)
        match kind:
            case p4r.Update.INSERT:
                self._insert(key, matches, message, now_ps)
            case p4r.Update.MODIFY:
                self._modify(key, message, now_ps)
            case p4r.Update.DELETE:
                self._delete(key, message)

    def _insert(
        self,
        key: keys.MatchKey,
        matches: list[p4r.FieldMatch],
        message: p4r.TableEntry,
        now_ps: int,
    ) -> None:
        if self.table.const_entries:
            raise self._error(Code.PERMISSION_DENIED, "its entries are constant")
        if not self.table.fields:
            raise self._error(
                Code.INVALID_ARGUMENT, "it has no key, so only its default action can be set"
            )
        if not message.HasField("action"):
            raise self._error(Code.INVALID_ARGUMENT, "an INSERT needs an action")
        if key in self._entries:
            raise EntityError(
                Code.ALREADY_EXISTS,
                f"{self._describe(message)} is there already; MODIFY changes it",
            )
        self._check_direct(message)
        self._check_timeout(message)
        spec, canonical, one_shot = self._target(message.action, Scope.DEFAULT_ONLY)
        try:
            handle = self._core.table_insert(
                self.table.index, key.key, key.mask, key.priority, spec
            )
        except CoreError as error:
            self._drop(one_shot)
            raise entity_error(error, self._describe(message)) from error
        entry = Entry(handle, p4r.TableEntry(), one_shot, now_ps)
        entry.message.table_id = self.table.id
        entry.message.match.extend(matches)
        entry.message.priority = key.priority
        entry.message.action.CopyFrom(canonical)
        self._entries[key] = entry
        self._apply_extras(key, entry, message, now_ps)

    def _modify(self, key: keys.MatchKey, message: p4r.TableEntry, now_ps: int) -> None:
        entry = self._entry(key, message)
        has_action = message.HasField("action")
        if entry.message.is_const and has_action:
            raise self._error(Code.PERMISSION_DENIED, "the action of a constant entry is fixed")
        self._check_direct(message)
        self._check_timeout(message)
        if has_action:
            spec, canonical, one_shot = self._target(message.action, Scope.DEFAULT_ONLY)
            try:
                with core_errors(self._describe(message)):
                    self._core.table_modify(self.table.index, entry.handle, spec)
            except EntityError:
                self._drop(one_shot)
                raise
            previous, entry.one_shot = entry.one_shot, one_shot
            self._drop(previous)
            entry.message.action.CopyFrom(canonical)
        self._apply_extras(key, entry, message, now_ps)

    def _delete(self, key: keys.MatchKey, message: p4r.TableEntry) -> None:
        entry = self._entry(key, message)
        if entry.message.is_const or self.table.const_entries:
            raise self._error(Code.PERMISSION_DENIED, "its entries are constant")
        with core_errors(self._describe(message)):
            self._core.table_delete(self.table.index, entry.handle)
        del self._entries[key]
        self._drop(entry.one_shot)

    def _apply_extras(
        self, key: keys.MatchKey, entry: Entry, message: p4r.TableEntry, now_ps: int
    ) -> None:
        kept = entry.message
        kept.metadata = message.metadata
        kept.controller_metadata = message.controller_metadata
        if self.table.counter is not None and message.HasField("counter_data"):
            self._set_counter(entry.handle, message.counter_data)
        if self.table.meter is not None:
            self._set_meter(entry.handle, kept, message)
        if kept.idle_timeout_ns != message.idle_timeout_ns or message.idle_timeout_ns:
            kept.idle_timeout_ns = message.idle_timeout_ns
            entry.born_ps = now_ps
            if message.idle_timeout_ns:
                self._idle.watch(key, entry, now_ps + message.idle_timeout_ns * PS_PER_NS)

    # --- default entry ------------------------------------------------------------------------

    def _write_default(self, kind: int, message: p4r.TableEntry) -> None:
        if kind != p4r.Update.MODIFY:
            raise self._error(
                Code.INVALID_ARGUMENT, "the default entry can only be changed by MODIFY"
            )
        if message.match or message.priority:
            raise self._error(
                Code.INVALID_ARGUMENT, "the default entry has neither match fields nor priority"
            )
        if message.idle_timeout_ns:
            raise self._error(Code.INVALID_ARGUMENT, "the default entry has no idle timeout")
        if self._profile is not None:
            raise self._error(
                Code.INVALID_ARGUMENT, "it has an action profile, so its default can't be set"
            )
        if self.table.const_default:
            raise self._error(Code.PERMISSION_DENIED, "its default action is constant")
        self._check_direct(message)
        call = self._initial_default
        kept = self._default
        if message.HasField("action"):
            spec_call = self._direct_action(message.action, Scope.TABLE_ONLY)
            call = spec_call
        self._set_default(call)
        kept.metadata = message.metadata
        kept.controller_metadata = message.controller_metadata
        if self.table.counter is not None and message.HasField("counter_data"):
            self._set_counter(0, message.counter_data)
        if self.table.meter is not None:
            self._set_meter(0, kept, message)

    def _set_default(self, call: actions.ActionCall | None) -> None:
        spec = None if call is None else Spec.of_action(call.ref.index, call.args)
        with core_errors(f"default action of {self.table.name!r}"):
            self._core.table_set_default(self.table.index, spec)
        if call is None:
            self._default.ClearField("action")
        else:
            self._default.action.action.CopyFrom(call.message)

    # --- what an entry does -------------------------------------------------------------------

    def _target(
        self, action: p4r.TableAction, forbidden: Scope
    ) -> tuple[Spec, p4r.TableAction, OneShot | None]:
        kind = action.WhichOneof("type")
        canonical = p4r.TableAction()
        if self._profile is None:
            call = self._direct_action(action, forbidden)
            canonical.action.CopyFrom(call.message)
            return Spec.of_action(call.ref.index, call.args), canonical, None
        canonical.CopyFrom(action)
        match kind:
            case "action_profile_member_id":
                handle = self._profile.member_handle(action.action_profile_member_id)
                return Spec.of_member(handle), canonical, None
            case "action_profile_group_id":
                handle = self._profile.group_handle(action.action_profile_group_id)
                return Spec.of_group(handle), canonical, None
            case "action_profile_action_set":
                one_shot = self._profile.create_one_shot(action.action_profile_action_set)
                return Spec.of_group(one_shot.handle), canonical, one_shot
        raise self._error(
            Code.INVALID_ARGUMENT,
            "it has an action profile: give a member id, a group id or an action set",
        )

    def _direct_action(self, action: p4r.TableAction, forbidden: Scope) -> actions.ActionCall:
        if action.WhichOneof("type") != "action":
            raise self._error(Code.INVALID_ARGUMENT, "it has no action profile: give an action")
        call = actions.parse(self.table.actions, action.action, self.table.name)
        if call.ref.scope is forbidden:
            place = "entries" if forbidden is Scope.DEFAULT_ONLY else "the default entry"
            raise self._error(
                Code.PERMISSION_DENIED,
                f"action {call.ref.action.name!r} is {call.ref.scope.name}, not for {place}",
            )
        return call

    def _drop(self, one_shot: OneShot | None) -> None:
        if one_shot is not None and self._profile is not None:
            self._profile.delete_one_shot(one_shot)

    # --- direct resources ---------------------------------------------------------------------

    def _check_direct(self, message: p4r.TableEntry) -> None:
        if message.HasField("counter_data"):
            if self.table.counter is None:
                raise self._error(Code.INVALID_ARGUMENT, "it has no direct counter")
            check_counter(message.counter_data, f"table {self.table.name!r}")
        if message.HasField("meter_config"):
            if self.table.meter is None:
                raise self._error(Code.INVALID_ARGUMENT, "it has no direct meter")
            check_meter(message.meter_config, f"table {self.table.name!r}")
        if message.HasField("meter_counter_data"):
            raise self._error(Code.UNIMPLEMENTED, "counters per meter colour are not supported")

    def _check_timeout(self, message: p4r.TableEntry) -> None:
        if message.idle_timeout_ns < 0:
            raise self._error(
                Code.INVALID_ARGUMENT, f"idle_timeout_ns {message.idle_timeout_ns} is negative"
            )
        if message.idle_timeout_ns and not self.table.idle_timeout:
            raise self._error(Code.INVALID_ARGUMENT, "it does not support idle timeouts")

    def _set_counter(self, handle: int, data: p4r.CounterData) -> None:
        with core_errors(f"counter of {self.table.name!r}"):
            value = Counter(data.packet_count, data.byte_count)
            self._core.table_counter_set(self.table.index, handle, value)

    def _set_meter(self, handle: int, kept: p4r.TableEntry, message: p4r.TableEntry) -> None:
        config: MeterConfig | None = None
        kept.ClearField("meter_config")
        if message.HasField("meter_config"):
            config = meter_config(message.meter_config)
            kept.meter_config.CopyFrom(message.meter_config)
        if handle == 0:
            return  # BMv2 executes direct meters on hits only, so the default entry's never runs
        with core_errors(f"meter of {self.table.name!r}"):
            self._core.direct_meter_set(self.table.index, handle, config)

    def counter_of(self, handle: int) -> p4r.CounterData:
        """Return the direct counter of an entry (0: the default entry), with the units that it
        has.
        """
        assert self.table.counter is not None
        value = self._core.table_counter(self.table.index, handle)
        data = p4r.CounterData()
        if self.table.counter.packets:
            data.packet_count = value.packets
        if self.table.counter.bytes:
            data.byte_count = value.bytes
        return data

    def write_counter(self, message: p4r.DirectCounterEntry) -> None:
        """Set an entry's direct counter (specification, "DirectCounterEntry")."""
        if self.table.counter is None:
            raise self._error(Code.INVALID_ARGUMENT, "it has no direct counter")
        check_counter(message.data, f"table {self.table.name!r}")
        handle, _ = self._locate(message.table_entry)
        if message.HasField("data"):
            self._set_counter(handle, message.data)

    def write_meter(self, message: p4r.DirectMeterEntry) -> None:
        """Set an entry's direct meter; without `config` it is green again."""
        if self.table.meter is None:
            raise self._error(Code.INVALID_ARGUMENT, "it has no direct meter")
        if message.HasField("counter_data"):
            raise self._error(Code.UNIMPLEMENTED, "counters per meter colour are not supported")
        handle, kept = self._locate(message.table_entry)
        change = p4r.TableEntry()
        if message.HasField("config"):
            check_meter(message.config, f"table {self.table.name!r}")
            change.meter_config.CopyFrom(message.config)
        self._set_meter(handle, kept, change)

    def read_counters(self, query: p4r.TableEntry) -> Iterator[p4r.DirectCounterEntry]:
        """Yield the direct counters of one entry, or of all when `query` has no match fields."""
        for handle, kept in self._selected(query, need_counter=True):
            entry = p4r.DirectCounterEntry(data=self.counter_of(handle))
            copy_key(kept, entry.table_entry)
            yield entry

    def read_meters(self, query: p4r.TableEntry) -> Iterator[p4r.DirectMeterEntry]:
        """Yield the direct meters of one entry, or of all when `query` has no match fields."""
        for _handle, kept in self._selected(query, need_counter=False):
            entry = p4r.DirectMeterEntry()
            copy_key(kept, entry.table_entry)
            if kept.HasField("meter_config"):
                entry.config.CopyFrom(kept.meter_config)
            yield entry

    def _selected(
        self, query: p4r.TableEntry, *, need_counter: bool
    ) -> Iterator[tuple[int, p4r.TableEntry]]:
        if (self.table.counter if need_counter else self.table.meter) is None:
            what = "counter" if need_counter else "meter"
            raise self._error(Code.INVALID_ARGUMENT, f"it has no direct {what}")
        if query.is_default_action or query.match:
            yield self._locate(query)
            return
        for entry in self._entries.values():
            if query.priority in (0, entry.message.priority):
                yield entry.handle, entry.message

    def _locate(self, query: p4r.TableEntry) -> tuple[int, p4r.TableEntry]:
        if query.is_default_action:
            if query.match or query.priority:
                raise self._error(
                    Code.INVALID_ARGUMENT, "the default entry has neither match nor priority"
                )
            return 0, self._default
        key, _ = keys.parse(self.table, query)
        entry = self._entry(key, query)
        return entry.handle, entry.message

    # --- reads --------------------------------------------------------------------------------

    def read(self, query: p4r.TableEntry, now_ps: int) -> Iterator[p4r.TableEntry]:
        """Yield the entries that `query` selects (specification, "Wildcard Reads").

        Counters, meters and the time since the last hit come along when `query` has those fields
        set. `now_ps` is the switch's time.
        """
        if query.HasField("meter_counter_data") and query.table_id:
            raise self._error(Code.UNIMPLEMENTED, "counters per meter colour are not supported")
        if (
            query.HasField("time_since_last_hit")
            and query.table_id  # of all tables, those that have time-outs tell
            and (query.is_default_action or not self.table.idle_timeout)
        ):
            raise self._error(
                Code.INVALID_ARGUMENT, "time_since_last_hit needs a table with idle timeouts"
            )
        if query.is_default_action:
            yield self._answer(self._locate(query)[0], self._default, None, query, now_ps)
            return
        found = list(self._entries.values())
        if query.match:
            sought, _ = keys.parse(self.table, query, any_priority=True)
            found = [
                entry
                for key, entry in self._entries.items()
                if key.key == sought.key and key.mask == sought.mask
            ]
        for entry in found:
            if wanted(entry.message, query):
                yield self._answer(entry.handle, entry.message, entry, query, now_ps)

    def _answer(
        self,
        handle: int,
        kept: p4r.TableEntry,
        entry: Entry | None,
        query: p4r.TableEntry,
        now_ps: int,
    ) -> p4r.TableEntry:
        answer = p4r.TableEntry()
        answer.CopyFrom(kept)
        if not query.HasField("meter_config"):
            answer.ClearField("meter_config")
        if query.HasField("counter_data") and self.table.counter is not None:
            answer.counter_data.CopyFrom(self.counter_of(handle))
        asked = query.HasField("time_since_last_hit") and self.table.idle_timeout
        if asked and entry is not None:
            elapsed = now_ps - self._last_hit(entry)
            answer.time_since_last_hit.elapsed_ns = max(0, elapsed // PS_PER_NS)
        return answer

    def __len__(self) -> int:
        return len(self._entries)

    # --- ageing -------------------------------------------------------------------------------

    def next_idle(self) -> int | None:
        """Return when (ps) `idle_entries` next has something to look at."""
        return self._idle.next_due()

    def idle_entries(self, now_ps: int) -> list[p4r.TableEntry]:
        """Return the entries not hit for their time-out at `now_ps`; their timers start again.

        Specification, "Table Idle Timeout Notification": key, metadata and idle_timeout_ns are set.
        """
        found = []
        for handle, key, due_ps in self._idle.pop(now_ps):
            entry = self._entries.get(key)
            if entry is None or entry.handle != handle or entry.idle_due_ps != due_ps:
                continue
            if not entry.message.idle_timeout_ns:
                continue
            timeout = entry.message.idle_timeout_ns * PS_PER_NS
            due = self._last_hit(entry) + timeout
            if due <= now_ps:
                found.append(idle_notice(entry.message))
                entry.born_ps = now_ps
                due = now_ps + timeout
            self._idle.watch(key, entry, due)
        return found

    def _last_hit(self, entry: Entry) -> int:
        return max(entry.born_ps, self._core.table_last_hit(self.table.index, entry.handle))

    # --- messages -----------------------------------------------------------------------------

    def _entry(self, key: keys.MatchKey, message: p4r.TableEntry) -> Entry:
        entry = self._entries.get(key)
        if entry is None:
            raise EntityError(Code.NOT_FOUND, f"{self._describe(message)}: there is no such entry")
        return entry

    def _describe(self, message: p4r.TableEntry) -> str:
        return keys.describe(self.table, message.match, message.priority)

    def _error(self, code: Code, message: str) -> EntityError:
        return EntityError(code, f"table {self.table.name!r}: {message}")
