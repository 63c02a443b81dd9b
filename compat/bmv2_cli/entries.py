"""Entries of tables between `weft cli`'s words and P4Runtime's messages, and as dumps show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compat.bmv2_cli.connection import BATCH, RefusedError
from compat.bmv2_cli.ledger import Handles, Place, Section, is_same_entry
from compat.bmv2_cli.program import Action, Table, find
from compat.bmv2_cli.shell import ShellBase
from compat.bmv2_cli.values import CommandError, KeyValue, OperationError, cut, full, key_value
from softswitch.diagnostics import DiagnosticsError
from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4r

MAX_PRIORITY = (1 << 31) - 1
"""BMv2's priority n (less wins) is P4Runtime's MAX_PRIORITY - n (more wins), as in p4lang's PI."""

_NS_PER_MS = 1_000_000


@dataclass(slots=True)
class _New:
    """An entry to be written, with its `Place.given`; then its handle, or why it has none."""

    table: Table
    entry: p4r.TableEntry
    given: dict[int, int]
    handle: int = 0
    refusal: RefusedError | DiagnosticsError | None = None


class Entries(ShellBase):
    """Reads words as entries, finds entries by handle, dumps them."""

    # --- words --------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """Return the table of that name. Raises CommandError."""
        return find(self.program.tables, name, "table")

    def table_and_action(self, words: list[str]) -> tuple[Table, Action]:
        """Return the table and action that the first two words name. Raises CommandError."""
        table = self.table(words[0])
        try:
            return table, find(table.actions, words[1], "action")
        except CommandError:
            raise CommandError(f"Table {words[0]} has no action {words[1]}") from None

    def priority(self, table: Table, words: list[str]) -> tuple[list[str], int]:
        """Split off the priority at the end; return the words before it, and P4Runtime's priority.

        Raises CommandError.
        """
        if not table.has_priorities:
            return words, 0
        try:
            priority = int(words[-1])
        except (ValueError, IndexError):
            raise CommandError(
                "Table is ternary, but could not extract a valid priority from args"
            ) from None
        if not 0 <= priority < MAX_PRIORITY:
            raise CommandError(f"Priority {priority} is not from 0 to {MAX_PRIORITY - 1}")
        return words[:-1], MAX_PRIORITY - priority

    def match(self, table: Table, name: str, words: list[str]) -> list[KeyValue]:
        """Parse a key of one word a field. Raises CommandError."""
        if len(words) != len(table.key):
            raise CommandError(f"Table {name} needs {len(table.key)} key fields")
        return [key_value(*pair) for pair in zip(table.key, words, strict=True)]

    # --- what the switch may refuse -----------------------------------------------------------

    @contextmanager
    def renamed(self, kind: str = "table", **names: str) -> Iterator[None]:
        """Raise refusals in the block as OperationError, with BMv2's names for gRPC's codes."""
        try:
            yield
        except RefusedError as error:
            if error.code not in names:
                raise
            raise OperationError(kind, names[error.code], str(error)) from None

    def all_done(self, refusals: Iterable[RefusedError | None]) -> None:
        """Raise the first refusal of many updates."""
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    def check_writable(self, table: Table, *, new: bool = False) -> None:
        """Raise OperationError for a table without entries of its own."""
        if table.profile is not None:
            raise OperationError(
                "table", "WRONG_TABLE_TYPE", f"{table.name} has members: act_prof_*"
            )
        if new and not table.key:
            raise OperationError("table", "NO_TABLE_KEY", f"{table.name} has no key")
        self.check_variable(table)

    def check_variable(self, table: Table) -> None:
        """Raise OperationError for a table whose entries are the program's."""
        if table.constant:
            why = f"the entries of {table.name} are constant"
            raise OperationError("table", "IMMUTABLE_TABLE_ENTRIES", why)

    # --- handles ------------------------------------------------------------------------------

    def handles(self, table: Table, *, renew: bool = False) -> Handles:
        """Return the handles of a table's entries.

        `renew`: another client may have written since.
        """
        known = table.id in self._handles
        handles = self._known_handles(table)
        if known:
            handles.look()
            if renew:
                handles.meet(self.read_table(table))
        return handles

    def _known_handles(self, table: Table) -> Handles:
        """Return the handles as this session last saw them."""
        handles = self._handles.get(table.id)
        if handles is None:
            section = Section(self.diagnostics, f"handles {table.id}")
            handles = self._handles[table.id] = Handles(section, table.id)
            handles.look()
            handles.meet(self.read_table(table))
        return handles

    def forget_handles(self) -> None:
        """Forget all handles: the switch has another program."""
        self._handles.clear()

    @property
    def _handles(self) -> dict[int, Handles]:
        known: dict[int, Handles] = self.__dict__.setdefault("handles_by_table", {})
        return known

    def place(self, table: Table, handle: int) -> Place:
        """Return the place with that handle. Raises OperationError."""
        handles = self.handles(table)
        found = handles.find(handle)
        if found is None:
            handles = self.handles(table, renew=True)
            found = handles.find(handle)
        if found is None:
            if handles.freed(handle):
                raise OperationError("table", "EXPIRED_HANDLE", f"entry {handle} has gone")
            raise OperationError("table", "INVALID_HANDLE", f"{table.name} has no entry {handle}")
        return found

    def entry(self, table: Table, handle: int) -> p4r.TableEntry:
        """Return the key of the entry with that handle, as an entry. Raises OperationError."""
        copy = p4r.TableEntry()
        copy.CopyFrom(self.place(table, handle).key or p4r.TableEntry())
        return copy

    def insert(self, table: Table, entry: p4r.TableEntry, match: list[KeyValue]) -> None:
        """Write a new entry, give it a handle and print that. Raises RefusedError."""
        new = _new(table, entry, match)
        self._write_new([new])
        self._tell_new(new)

    def insert_later(self, table: Table, entry: p4r.TableEntry, match: list[KeyValue]) -> None:
        """Queue an `insert` from a file of commands, to send it together with others: see
        `settle`.
        """
        if self.answers is None or self.strict:
            self.insert(table, entry, match)
            return
        new = _new(table, entry, match)
        self._waiting.append(new)
        self.answers.hold(lambda: self._tell_waiting(new))
        if len(self._waiting) >= BATCH:
            self.settle()

    def settle(self) -> None:
        """Write the entries that wait, and print what that and later commands had to say."""
        if not self._waiting or self.answers is None:
            return
        waiting = list(self._waiting)
        self._waiting.clear()
        try:
            self._write_new(waiting)
        except (RefusedError, DiagnosticsError) as error:  # before any was written: the switch left
            for each in waiting:
                each.refusal = error
        self.answers.release()

    def _write_new(self, entries: list[_New]) -> None:
        """Write entries, and give those that the switch took their handles."""
        by_table: dict[int, list[_New]] = {}
        for each in entries:
            self._known_handles(each.table)  # of those that are there before
            by_table.setdefault(each.table.id, []).append(each)
        refusals = self.switch.insert_each([p4r.Entity(table_entry=e.entry) for e in entries])
        for each, refusal in zip(entries, refusals, strict=True):
            each.refusal = refusal
        for number, rows in by_table.items():
            done = [each for each in rows if each.refusal is None]
            handles = self._handles[number].add([(each.entry, each.given) for each in done])
            for each, handle in zip(done, handles, strict=True):
                each.handle = handle

    def _tell_new(self, new: _New) -> None:
        if new.refusal is not None:
            raise new.refusal
        self.say("Entry has been added with handle", new.handle)

    def _tell_waiting(self, new: _New) -> None:
        with self.told("table"):
            self._tell_new(new)

    @property
    def _waiting(self) -> list[_New]:
        waiting: list[_New] = self.__dict__.setdefault("new_entries", [])
        return waiting

    def read_table(self, table: Table) -> list[p4r.TableEntry]:
        """Return all entries but the default one."""
        if not table.id:
            return []
        query = p4r.TableEntry(table_id=table.id)
        if table.ages:
            query.time_since_last_hit.SetInParent()  # asks for it
        entries = (each.table_entry for each in self.switch.read(table_entry=query))
        return [self._usual(table, entry) for entry in entries if not entry.is_default_action]

    def _usual(self, table: Table, entry: p4r.TableEntry) -> p4r.TableEntry:
        """Return the entry without fields that match everything, which BMv2 reports and we leave
        out.
        """
        if table.kind != "exact":
            key = self.key_entry(table, match_of(table, entry, {}), entry.priority)
            del entry.match[:]
            entry.match.extend(key.match)
        return entry

    def read_place(self, table: Table, place: Place) -> p4r.TableEntry:
        """Read the whole entry in a place. Raises OperationError."""
        query = p4r.TableEntry()
        query.CopyFrom(place.key or p4r.TableEntry())
        if table.ages:
            query.time_since_last_hit.SetInParent()
        return self.read_entry(table, query)

    def read_entry(self, table: Table, key: p4r.TableEntry) -> p4r.TableEntry:
        """Read the whole entry with that key. Raises OperationError."""
        for found in self.switch.read(table_entry=key):
            entry = self._usual(table, found.table_entry)
            if is_same_entry(entry, key):
                return entry
        raise OperationError("table", "INVALID_HANDLE", "the entry has gone meanwhile")

    # --- dumps --------------------------------------------------------------------------------

    def dump_entry(self, table: Table, handle: int, place: Place, entry: p4r.TableEntry) -> None:
        """Show an entry."""
        width = max(20, *(len(field.name) for field in table.key))
        self.say(f"Dumping entry {handle:#x}")
        self.say("Match key:")
        for value in match_of(table, entry, place.given):
            kind = value.field.shown_kind.upper()
            self.say(f"* {value.field.name:{width}}: {kind:10}{value.dumped()}")
        if table.has_priorities:
            self.say(f"Priority: {MAX_PRIORITY - entry.priority}")
        self.dump_action(entry)
        if entry.idle_timeout_ns:
            since = entry.time_since_last_hit.elapsed_ns // _NS_PER_MS
            timeout = entry.idle_timeout_ns // _NS_PER_MS
            self.say(f"Life: {since}ms since hit, timeout is {timeout}ms")

    def dump_action(self, entry: p4r.TableEntry) -> None:
        """Show what an entry does."""
        match entry.action.WhichOneof("type"):
            case "action":
                self.say(f"Action entry: {self.action_text(entry.action.action)}")
            case "action_profile_member_id":
                self.say(f"Index: member({entry.action.action_profile_member_id - 1})")
            case "action_profile_group_id":
                self.say(f"Index: group({entry.action.action_profile_group_id - 1})")
            case "action_profile_action_set":
                for one in entry.action.action_profile_action_set.action_profile_actions:
                    self.say(f"Action entry: {self.action_text(one.action)}, weight {one.weight}")
            case _:
                self.say("EMPTY")

    def action_text(self, message: p4r.Action) -> str:
        """Format an action as dumps show it."""
        action = next(
            each for each in self.program.actions.values() if each.id == message.action_id
        )
        given = {each.param_id: int.from_bytes(each.value, "big") for each in message.params}
        values = [given.get(number, 0) for number, _, _ in action.params]
        return f"{action.name} - {self.dumped_data(values)}"

    # --- messages -----------------------------------------------------------------------------

    def action_message(self, action: Action, values: list[int]) -> p4r.Action:
        """Return an action with its arguments in order.

        Bits beyond a parameter's width are cut off.
        """
        message = p4r.Action(action_id=action.id)
        for (number, name, bits), value in zip(action.params, values, strict=True):
            if value > full(bits):
                self.note(f"  {name} has {bits} bits: {value} becomes {cut(value, bits)}")
            message.params.add(param_id=number, value=encode(cut(value, bits)))
        return message

    def key_entry(self, table: Table, match: list[KeyValue], priority: int) -> p4r.TableEntry:
        """Return an entry with that key and no action. Raises OperationError."""
        entry = p4r.TableEntry(table_id=table.id, priority=priority)
        for each in match:
            first, second = each.written()
            if each.matches_all:
                continue
            message = entry.match.add(field_id=each.field.id)
            match each.field.kind:
                case "lpm":
                    message.lpm.value = encode(first)
                    message.lpm.prefix_len = second
                case "ternary":
                    message.ternary.value = encode(first)
                    message.ternary.mask = encode(second)
                case "range":
                    message.range.low = encode(first)
                    message.range.high = encode(second)
                case "optional":
                    message.optional.value = encode(first)
                case _:
                    message.exact.value = encode(first)
        return entry


def _new(table: Table, entry: p4r.TableEntry, match: list[KeyValue]) -> _New:
    given = {
        each.field.id: each.first
        for each in match
        if each.field.kind == "lpm" and each.second and each.written()[0] != each.first
    }
    return _New(table, entry, given)


def match_of(table: Table, entry: p4r.TableEntry, given: dict[int, int]) -> list[KeyValue]:
    """Return an entry's key; `given` holds the values of LPM fields as they were entered."""
    found = {each.field_id: each for each in entry.match}
    values = []
    for field in table.key:
        match = found.get(field.id)
        if match is None:
            values.append(KeyValue.anything(field))
            continue
        match match.WhichOneof("field_match_type"):
            case "lpm":
                first = given.get(field.id, _number(match.lpm.value))
                pair = (first, match.lpm.prefix_len)
            case "ternary":
                pair = (_number(match.ternary.value), _number(match.ternary.mask))
            case "range":
                pair = (_number(match.range.low), _number(match.range.high))
            case "optional":
                pair = (_number(match.optional.value), full(field.bitwidth))
            case _:
                pair = (_number(match.exact.value), 0)
        values.append(KeyValue(field, *pair))
    return values


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
