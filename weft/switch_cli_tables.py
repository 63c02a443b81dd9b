"""`weft cli`'s commands on tables. An entry's handle is its place, as BMv2 numbers entries.

P4Runtime knows entries by their key only. So handles are given here: the entries that a table has
when a session first meets it get 0, 1, ... in the order in which the switch lists them (the order
in which they came); a new one takes the lowest number that is free.
"""

from __future__ import annotations

from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4r
from weft.switch_cli_program import Action, Table, find
from weft.switch_cli_shell import ShellBase, command
from weft.switch_cli_values import CommandError, KeyValue, key_value, whole

MAX_PRIORITY = (1 << 31) - 1
"""BMv2's priority n (less wins) is P4Runtime's MAX_PRIORITY - n (more wins), as in p4lang's PI."""


class TableCommands(ShellBase):
    """Tables, their entries and default entries."""

    def table(self, name: str) -> Table:
        """The table called so. Raises CommandError."""
        return find(self.program.tables, name, "table")

    # --- the program --------------------------------------------------------------------------

    @command(0)
    def do_show_tables(self, _words: list[str]) -> None:
        """List tables defined in the P4 program: show_tables"""
        for name in sorted(self.program.tables):
            self.say(self.program.tables[name].text())

    @command(0)
    def do_show_actions(self, _words: list[str]) -> None:
        """List actions defined in the P4 program: show_actions"""
        for name in sorted(self.program.actions):
            self.say(self.program.actions[name].text())

    @command(1)
    def do_table_show_actions(self, words: list[str]) -> None:
        """List a table's actions: table_show_actions <table name>"""
        self._show_actions(self.table(words[0]))

    @command(1)
    def do_table_info(self, words: list[str]) -> None:
        """Show a table's key and actions: table_info <table name>"""
        table = self.table(words[0])
        self.say(table.text())
        self.say("*" * 80)
        self._show_actions(table)

    def _show_actions(self, table: Table) -> None:
        for name in sorted(table.actions):
            self.say(table.actions[name].text())

    # --- entries ------------------------------------------------------------------------------

    @command(least=3)
    def do_table_add(self, words: list[str]) -> None:
        """Add an entry:

        table_add <table name> <action name> <match fields> => <action parameters> [priority]
        """
        table, action = self._table_and_action(words)
        rest, priority = self._priority(table, words[2:])
        key, parameters = self._split(table, words[0], rest)
        values = self.arguments(action, parameters)
        match = [key_value(*pair) for pair in zip(table.key, key, strict=True)]
        self.say("Adding entry to", table.kind, "match table", words[0])
        self.say(f"{'match key:':20}", "\t".join(each.added() for each in match))
        self.say(f"{'action:':20}", words[1])
        self.say(f"{'runtime data:':20}", self.data_text(action, values, ":", "\t"))
        entry = self._key_entry(table, match, priority)
        entry.action.action.CopyFrom(self.action_message(action, values))
        self._insert(table, entry)

    @command(least=3)
    def do_table_indirect_add(self, words: list[str]) -> None:
        """Add an entry with a member:

        table_indirect_add <table name> <match fields> => <member handle> [priority]
        """
        self._indirect_add(words, group=False)

    @command(least=3)
    def do_table_indirect_add_with_group(self, words: list[str]) -> None:
        """Add an entry with a group:

        table_indirect_add_with_group <table name> <match fields> => <group handle> [priority]
        """
        self._indirect_add(words, group=True)

    @command(least=3)
    def do_table_modify(self, words: list[str]) -> None:
        """Change an entry's action:

        table_modify <table name> <action name> <entry handle> [action parameters]
        """
        table, action = self._table_and_action(words)
        handle = whole(words[2], "entry handle")
        parameters = words[4:] if words[3:4] == ["=>"] else words[3:]
        values = self.arguments(action, parameters)
        self.say("Modifying entry", handle, "for", table.kind, "match table", words[0])
        entry = self.entry(table, handle)
        entry.action.action.CopyFrom(self.action_message(action, values))
        self.switch.modify(table_entry=entry)

    @command(2)
    def do_table_delete(self, words: list[str]) -> None:
        """Remove an entry: table_delete <table name> <entry handle>"""
        table, handle = self.table(words[0]), whole(words[1], "entry handle")
        self.say("Deleting entry", handle, "from", words[0])
        entry = self.entry(table, handle)
        self.switch.delete(table_entry=entry)
        del self._handles_of(table)[handle]

    do_table_indirect_delete = do_table_delete

    @command(1)
    def do_table_clear(self, words: list[str]) -> None:
        """Remove all entries but the default one: table_clear <table name>"""
        table = self.table(words[0])
        handles = self._renew(table)
        for handle, entry in list(handles.items()):
            self.switch.delete(table_entry=entry)
            del handles[handle]

    @command(3)
    def do_table_set_timeout(self, words: list[str]) -> None:
        """Set an entry's timeout: table_set_timeout <table name> <entry handle> <timeout (ms)>"""
        table, handle = self.table(words[0]), whole(words[1], "entry handle")
        timeout = whole(words[2], "timeout")
        if not table.ages:
            raise CommandError(f"Table {words[0]} does not support entry timeouts")
        self.say("Setting a", timeout, "ms timeout for entry", handle)
        entry = self._read_entry(handle, self.entry(table, handle))
        entry.idle_timeout_ns = timeout * 1_000_000
        entry.ClearField("time_since_last_hit")
        self.switch.modify(table_entry=entry)

    @command(1)
    def do_table_num_entries(self, words: list[str]) -> None:
        """Count a table's entries: table_num_entries <table name>"""
        self.say(len(self._renew(self.table(words[0]))))

    # --- the default entry --------------------------------------------------------------------

    @command(least=2)
    def do_table_set_default(self, words: list[str]) -> None:
        """Set the default action:

        table_set_default <table name> <action name> <action parameters>
        """
        table, action = self._table_and_action(words)
        values = self.arguments(action, words[2:])
        self.say("Setting default action of", words[0])
        self.say(f"{'action:':20}", words[1])
        self.say(f"{'runtime data:':20}", self.data_text(action, values, ":", "\t"))
        entry = p4r.TableEntry(table_id=table.id, is_default_action=True)
        entry.action.action.CopyFrom(self.action_message(action, values))
        self.switch.modify(table_entry=entry)

    @command(1)
    def do_table_reset_default(self, words: list[str]) -> None:
        """Set the program's own default action again: table_reset_default <table name>"""
        table = self.table(words[0])
        self.switch.modify(table_entry=p4r.TableEntry(table_id=table.id, is_default_action=True))

    do_table_indirect_reset_default = do_table_reset_default

    # --- dumps --------------------------------------------------------------------------------

    @command(1)
    def do_table_dump(self, words: list[str]) -> None:
        """Show all entries: table_dump <table name>"""
        table = self.table(words[0])
        self.say("==========")
        self.say("TABLE ENTRIES")
        for handle, key in self._renew(table).items():
            self.say("**********")
            self._dump(table, handle, key)
        if table.profile is not None:
            self.dump_profile(table.profile.name)
        default = p4r.TableEntry(table_id=table.id, is_default_action=True)
        self.say("==========")
        self.say("Dumping default entry")
        for found in self.switch.read(table_entry=default):
            self._dump_action(found.table_entry)
        self.say("==========")

    @command(2)
    def do_table_dump_entry(self, words: list[str]) -> None:
        """Show an entry: table_dump_entry <table name> <entry handle>"""
        table, handle = self.table(words[0]), whole(words[1], "entry handle")
        self._dump(table, handle, self.entry(table, handle))

    @command(least=2)
    def do_table_dump_entry_from_key(self, words: list[str]) -> None:
        """Show an entry: table_dump_entry_from_key <table name> <match fields> [priority]"""
        table = self.table(words[0])
        key, priority = self._priority(table, words[1:])
        self._check_key(table, words[0], key)
        match = [key_value(*pair) for pair in zip(table.key, key, strict=True)]
        wanted = _identity(self._key_entry(table, match, priority))
        for handle, entry in self._renew(table).items():
            if _identity(entry) == wanted:
                return self._dump(table, handle, entry)
        raise CommandError("Invalid table operation (BAD_MATCH_KEY): there is no such entry")

    def dump_profile(self, name: str) -> None:
        """Show members and groups of an action profile."""
        raise NotImplementedError

    def _dump(self, table: Table, handle: int, key: p4r.TableEntry) -> None:
        entry = self._read_entry(handle, key)
        width = max(20, *(len(field.name) for field in table.key))
        self.say(f"Dumping entry {handle:#x}")
        self.say("Match key:")
        for value in self._match_of(table, entry):
            kind = value.field.shown_kind.upper()
            self.say(f"* {value.field.name:{width}}: {kind:10}{value.dumped()}")
        if table.has_priorities:
            self.say(f"Priority: {MAX_PRIORITY - entry.priority}")
        self._dump_action(entry)

    def _read_entry(self, handle: int, key: p4r.TableEntry) -> p4r.TableEntry:
        for found in self.switch.read(table_entry=key):
            if is_same_entry(found.table_entry, key):
                return found.table_entry
        raise CommandError(f"Invalid table operation (INVALID_HANDLE): entry {handle} has gone")

    def _dump_action(self, entry: p4r.TableEntry) -> None:
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

    # --- messages -----------------------------------------------------------------------------

    def action_message(self, action: Action, values: list[int]) -> p4r.Action:
        """An action with its arguments in order."""
        message = p4r.Action(action_id=action.id)
        for (number, _, _), value in zip(action.params, values, strict=True):
            message.params.add(param_id=number, value=encode(value))
        return message

    def action_text(self, message: p4r.Action) -> str:
        """An action as dumps show it."""
        action = next(
            each for each in self.program.actions.values() if each.id == message.action_id
        )
        given = {each.param_id: int.from_bytes(each.value, "big") for each in message.params}
        values = [given.get(number, 0) for number, _, _ in action.params]
        return f"{action.name} - {self.data_text(action, values, '', ', ')}"

    def entry(self, table: Table, handle: int) -> p4r.TableEntry:
        """The key of the entry with that handle, as an entry. Raises CommandError."""
        handles = self._handles_of(table)
        if handle not in handles:
            handles = self._renew(table)
        if handle not in handles:
            raise CommandError(f"Invalid table operation (INVALID_HANDLE): no entry {handle}")
        copy = p4r.TableEntry()
        copy.CopyFrom(handles[handle])
        return copy

    def _key_entry(self, table: Table, match: list[KeyValue], priority: int) -> p4r.TableEntry:
        entry = p4r.TableEntry(table_id=table.id, priority=priority)
        for each in match:
            if each.matches_all:
                continue
            message = entry.match.add(field_id=each.field.id)
            match each.field.kind:
                case "lpm":
                    message.lpm.value = encode(each.first)
                    message.lpm.prefix_len = each.second
                case "ternary":
                    message.ternary.value = encode(each.first)
                    message.ternary.mask = encode(each.second)
                case "range":
                    message.range.low = encode(each.first)
                    message.range.high = encode(each.second)
                case "optional":
                    message.optional.value = encode(each.first)
                case _:
                    message.exact.value = encode(each.first)
        return entry

    def _match_of(self, table: Table, entry: p4r.TableEntry) -> list[KeyValue]:
        given = {each.field_id: each for each in entry.match}
        values = []
        for field in table.key:
            found = given.get(field.id)
            if found is None:
                values.append(KeyValue.anything(field))
                continue
            match found.WhichOneof("field_match_type"):
                case "lpm":
                    pair = (_number(found.lpm.value), found.lpm.prefix_len)
                case "ternary":
                    pair = (_number(found.ternary.value), _number(found.ternary.mask))
                case "range":
                    pair = (_number(found.range.low), _number(found.range.high))
                case "optional":
                    pair = (_number(found.optional.value), (1 << field.bitwidth) - 1)
                case _:
                    pair = (_number(found.exact.value), 0)
            values.append(KeyValue(field, *pair))
        return values

    # --- words --------------------------------------------------------------------------------

    def _table_and_action(self, words: list[str]) -> tuple[Table, Action]:
        table = self.table(words[0])
        try:
            return table, find(table.actions, words[1], "action")
        except CommandError:
            raise CommandError(f"Table {words[0]} has no action {words[1]}") from None

    def _priority(self, table: Table, words: list[str]) -> tuple[list[str], int]:
        """What is left without the priority at the end, and P4Runtime's priority."""
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

    def _split(self, table: Table, name: str, words: list[str]) -> tuple[list[str], list[str]]:
        at = words.index("=>") if "=>" in words else len(words)
        self._check_key(table, name, words[:at])
        return words[:at], words[at + 1 :]

    def _check_key(self, table: Table, name: str, key: list[str]) -> None:
        if len(key) != len(table.key):
            raise CommandError(f"Table {name} needs {len(table.key)} key fields")

    def _indirect_add(self, words: list[str], *, group: bool) -> None:
        table = self.table(words[0])
        if table.profile is None:
            raise CommandError("Cannot run this command on non-indirect table")
        if group and not table.profile.with_selector:
            raise CommandError(
                "Cannot run this command on non-indirect table, or on indirect table with no "
                "selector"
            )
        rest, priority = self._priority(table, words[1:])
        key, handles = self._split(table, words[0], rest)
        if len(handles) != 1:
            raise CommandError("Invalid arguments, could not find handle")
        handle = whole(handles[0], "handle")
        match = [key_value(*pair) for pair in zip(table.key, key, strict=True)]
        self.say("Adding entry to indirect match table", table.name)
        entry = self._key_entry(table, match, priority)
        if group:
            entry.action.action_profile_group_id = handle + 1
        else:
            entry.action.action_profile_member_id = handle + 1
        self._insert(table, entry)

    # --- handles ------------------------------------------------------------------------------

    def _insert(self, table: Table, entry: p4r.TableEntry) -> None:
        handles = self._handles_of(table)
        self.switch.insert(table_entry=entry)
        entry.ClearField("action")
        handle = _lowest_free(handles)
        handles[handle] = entry
        self.say("Entry has been added with handle", handle)

    def _handles_of(self, table: Table) -> dict[int, p4r.TableEntry]:
        if table.id not in self._handles:
            self._handles[table.id] = {}
            self._renew(table)
        return self._handles[table.id]

    def _renew(self, table: Table) -> dict[int, p4r.TableEntry]:
        """Handles as the table now is: entries that went lose theirs, new ones get one."""
        known = self._handles.setdefault(table.id, {})
        by_key = {_identity(entry): handle for handle, entry in known.items()}
        there = set()
        fresh = []
        for found in self.switch.read(table_entry=p4r.TableEntry(table_id=table.id)):
            entry = found.table_entry
            if entry.is_default_action:
                continue
            key = p4r.TableEntry(table_id=table.id, match=entry.match, priority=entry.priority)
            handle = by_key.get(_identity(key))
            if handle is None:
                fresh.append(key)
            else:
                there.add(handle)
        for handle in set(known) - there:
            del known[handle]
        for key in fresh:
            known[_lowest_free(known)] = key
        return known

    @property
    def _handles(self) -> dict[int, dict[int, p4r.TableEntry]]:
        handles: dict[int, dict[int, p4r.TableEntry]] = self.__dict__.setdefault("handles", {})
        return handles


def is_same_entry(entry: p4r.TableEntry, key: p4r.TableEntry) -> bool:
    """Whether an entry has that key: a read by a key without fields yields all entries."""
    return _identity(entry) == _identity(key)


def _identity(entry: p4r.TableEntry) -> bytes:
    matches = sorted(each.SerializeToString(deterministic=True) for each in entry.match)
    return b"%d " % entry.priority + b"".join(b"%d:%s" % (len(m), m) for m in matches)


def _lowest_free(handles: dict[int, p4r.TableEntry]) -> int:
    handle = 0
    while handle in handles:
        handle += 1
    return handle


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
