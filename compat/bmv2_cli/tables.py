"""`weft cli`'s commands on tables."""

from __future__ import annotations

from compat.bmv2_cli.entries import Entries
from compat.bmv2_cli.ledger import identity
from compat.bmv2_cli.program import Table
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.values import CommandError, OperationError, whole
from softswitch.p4runtime.protos import p4r

_NS_PER_MS = 1_000_000
_NOTHING = p4r.TableEntry()
_CONSTANT_DEFAULT = ("table", "DEFAULT_ENTRY_IS_CONST")


class TableCommands(Entries):
    """Tables, their entries and default entries."""

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

    @command(least=3, may_wait=True)
    def do_table_add(self, words: list[str]) -> None:
        """Add an entry:

        table_add <table name> <action name> <match fields> => <action parameters> [priority]
        """
        table, action = self.table_and_action(words)
        rest, priority = self.priority(table, words[2:])
        at = rest.index("=>") if "=>" in rest else len(rest) - 1
        if len(rest[:at]) != len(table.key):
            raise CommandError(f"Table {words[0]} needs {len(table.key)} key fields")
        values = self.arguments(action, rest[at + 1 :])
        match = self.match(table, words[0], rest[:at])
        self.say("Adding entry to", table.kind, "match table", words[0])
        self.say(f"{'match key:':20}", "\t".join(each.added() for each in match))
        self.say(f"{'action:':20}", words[1])
        self.say(f"{'runtime data:':20}", self.given_data(action, values))
        self.check_writable(table, new=True)
        entry = self.key_entry(table, match, priority)
        entry.action.action.CopyFrom(self.action_message(action, values))
        self.insert_later(table, entry, match)

    @command(least=3)
    def do_table_modify(self, words: list[str]) -> None:
        """Change an entry's action:

        table_modify <table name> <action name> <entry handle> [action parameters]
        """
        table, action = self.table_and_action(words)
        handle = whole(words[2], "entry handle")
        parameters = words[4:] if words[3:4] == ["=>"] else words[3:]
        values = self.arguments(action, parameters)
        self.say("Modifying entry", handle, "for", table.kind, "match table", words[0])
        self.check_writable(table)
        key = self.entry(table, handle)
        entry = self.read_entry(table, key) if table.ages else key  # else its timeout would be gone
        entry.action.action.CopyFrom(self.action_message(action, values))
        self.switch.modify(table_entry=entry)

    @command(2)
    def do_table_delete(self, words: list[str]) -> None:
        """Remove an entry: table_delete <table name> <entry handle>"""
        table, handle = self.table(words[0]), whole(words[1], "entry handle")
        self.say("Deleting entry", handle, "from", words[0])
        self.check_writable(table)
        self.delete_entry(table, handle)

    def delete_entry(self, table: Table, handle: int) -> None:
        """Remove an entry and free its handle."""
        self.switch.delete(table_entry=self.entry(table, handle))
        self.handles(table).remove(handle)

    @command(1)
    def do_table_clear(self, words: list[str]) -> None:
        """Remove all entries but the default one: table_clear <table name>"""
        table = self.table(words[0])
        self.check_variable(table)
        handles = self.handles(table, renew=True)
        there = list(handles)
        refusals = self.switch.delete_each(p4r.Entity(table_entry=place.key) for _, place in there)
        gone = [at for (at, _), each in zip(there, refusals, strict=True) if each is None]
        if len(gone) == len(there):
            handles.clear()
        else:
            handles.remove(*gone)
        self.all_done(refusals)

    @command(3)
    def do_table_set_timeout(self, words: list[str]) -> None:
        """Set an entry's timeout: table_set_timeout <table name> <entry handle> <timeout (ms)>"""
        table = self.table(words[0])
        if not table.ages:
            raise CommandError(f"Table {words[0]} does not support entry timeouts")
        handle, timeout = whole(words[1], "entry handle"), whole(words[2], "timeout", 32)
        self.say("Setting a", timeout, "ms timeout for entry", handle)
        entry = self.read_entry(table, self.entry(table, handle))
        entry.idle_timeout_ns = timeout * _NS_PER_MS
        entry.ClearField("time_since_last_hit")
        self.switch.modify(table_entry=entry)

    @command(1)
    def do_table_num_entries(self, words: list[str]) -> None:
        """Count a table's entries: table_num_entries <table name>"""
        self.say(len(self.handles(self.table(words[0]), renew=True)))

    # --- the default entry --------------------------------------------------------------------

    @command(least=2)
    def do_table_set_default(self, words: list[str]) -> None:
        """Set the default action:

        table_set_default <table name> <action name> <action parameters>
        """
        table, action = self.table_and_action(words)
        values = self.arguments(action, words[2:], words[1])
        self.say("Setting default action of", words[0])
        self.say(f"{'action:':20}", words[1])
        self.say(f"{'runtime data:':20}", self.given_data(action, values))
        self._check_default(table)
        entry = p4r.TableEntry(table_id=table.id, is_default_action=True)
        entry.action.action.CopyFrom(self.action_message(action, values))
        if table.constant_default:
            raise OperationError(*_CONSTANT_DEFAULT, f"the default entry of {table.name} is const")
        self.switch.modify(table_entry=entry)

    @command(1)
    def do_table_reset_default(self, words: list[str]) -> None:
        """Set the program's own default action again: table_reset_default <table name>"""
        table = self.table(words[0])
        self._check_default(table)
        if not table.constant_default:
            entry = p4r.TableEntry(table_id=table.id, is_default_action=True)
            self.switch.modify(table_entry=entry)

    def _check_default(self, table: Table) -> None:
        if table.profile is not None:
            raise OperationError(
                "table", "WRONG_TABLE_TYPE", f"{table.name} has members: act_prof_*"
            )
        if not table.id:
            why = f"{table.name} is the compiler's own: it always does {table.only}"
            raise OperationError(*_CONSTANT_DEFAULT, why)

    # --- dumps --------------------------------------------------------------------------------

    @command(1)
    def do_table_dump(self, words: list[str]) -> None:
        """Show all entries: table_dump <table name>"""
        table = self.table(words[0])
        entries = self.read_table(table)
        handles = self.handles(table)
        handles.meet(entries)
        by_key = {identity(entry): entry for entry in entries}
        self.say("==========")
        self.say("TABLE ENTRIES")
        for handle, place in handles:
            self.say("**********")
            self.dump_entry(table, handle, place, by_key[identity(place.key or _NOTHING)])
        if table.profile is not None:
            self.dump_profile(table.profile.name)
        self.say("==========")
        self.say("Dumping default entry")
        if table.id:
            default = p4r.TableEntry(table_id=table.id, is_default_action=True)
            for found in self.switch.read(table_entry=default):
                self.dump_action(found.table_entry)
        else:
            self.say(f"Action entry: {table.only} - ")
        self.say("==========")

    @command(2)
    def do_table_dump_entry(self, words: list[str]) -> None:
        """Show an entry: table_dump_entry <table name> <entry handle>"""
        table, handle = self.table(words[0]), whole(words[1], "entry handle")
        place = self.place(table, handle)
        self.dump_entry(table, handle, place, self.read_place(table, place))

    @command(least=1)
    def do_table_dump_entry_from_key(self, words: list[str]) -> None:
        """Show an entry: table_dump_entry_from_key <table name> <match fields> [priority]"""
        table = self.table(words[0])
        key, priority = self.priority(table, words[1:])
        wanted = self.key_entry(table, self.match(table, words[0], key), priority)
        handles = self.handles(table, renew=True)
        handle = handles.of(wanted)
        place = None if handle is None else handles.find(handle)
        if handle is None or place is None:
            raise OperationError("table", "BAD_MATCH_KEY", "there is no such entry")
        self.dump_entry(table, handle, place, self.read_place(table, place))

    def dump_profile(self, name: str) -> None:
        """Show members and groups of an action profile."""
        raise NotImplementedError
