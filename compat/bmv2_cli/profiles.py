"""`weft cli`'s commands on action profiles. Handle n is P4Runtime's id n + 1 (0 is none)."""

from __future__ import annotations

from collections.abc import Callable

from compat.bmv2_cli.arrays import ArrayCommands
from compat.bmv2_cli.program import Action, Profile, Table, find
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.values import CommandError, OperationError, whole
from softswitch.p4runtime.protos import p4r

_GONE_OR_USED = {
    "MBR": {"NOT_FOUND": "INVALID_MBR_HANDLE", "FAILED_PRECONDITION": "MBR_STILL_USED"},
    "GRP": {"NOT_FOUND": "INVALID_GRP_HANDLE", "FAILED_PRECONDITION": "GRP_STILL_USED"},
}


class ProfileCommands(ArrayCommands):
    """Members and groups."""

    @command(least=2)
    def do_act_prof_create_member(self, words: list[str]) -> None:
        """Add a member:

        act_prof_create_member <action profile name> <action name> [action parameters]
        """
        profile, action = self._profile_and_action(words)
        member = p4r.ActionProfileMember(action_profile_id=profile.id)
        member.action.CopyFrom(self.action_message(action, self.arguments(action, words[2:])))
        member.member_id = _lowest_free({each.member_id for each in self._members(profile)})
        self.switch.insert(action_profile_member=member)
        self.say("Member has been created with handle", member.member_id - 1)

    @command(least=3)
    def do_act_prof_modify_member(self, words: list[str]) -> None:
        """Change a member:

        act_prof_modify_member <action profile name> <action name> <member handle> [parameters]
        """
        profile, action = self._profile_and_action(words)
        parameters = words[4:] if words[3:4] == ["=>"] else words[3:]
        member = p4r.ActionProfileMember(
            action_profile_id=profile.id, member_id=_id(words[2], "member handle")
        )
        member.action.CopyFrom(self.action_message(action, self.arguments(action, parameters)))
        with self.renamed(NOT_FOUND="INVALID_MBR_HANDLE"):
            self.switch.modify(action_profile_member=member)

    @command(2)
    def do_act_prof_delete_member(self, words: list[str]) -> None:
        """Remove a member: act_prof_delete_member <action profile name> <member handle>"""
        member = p4r.ActionProfileMember(
            action_profile_id=self._profile(words[0]).id,
            member_id=_id(words[1], "member handle"),
        )
        with self.renamed(**_GONE_OR_USED["MBR"]):
            self.switch.delete(action_profile_member=member)

    @command(1)
    def do_act_prof_create_group(self, words: list[str]) -> None:
        """Add a group: act_prof_create_group <action profile name>"""
        profile = self._selector(words[0])
        number = _lowest_free({each.group_id for each in self._groups(profile)})
        self.switch.insert(
            action_profile_group=p4r.ActionProfileGroup(
                action_profile_id=profile.id, group_id=number
            )
        )
        self.say("Group has been created with handle", number - 1)

    @command(2)
    def do_act_prof_delete_group(self, words: list[str]) -> None:
        """Remove a group: act_prof_delete_group <action profile name> <group handle>"""
        group = p4r.ActionProfileGroup(
            action_profile_id=self._selector(words[0]).id,
            group_id=_id(words[1], "group handle"),
        )
        with self.renamed(**_GONE_OR_USED["GRP"]):
            self.switch.delete(action_profile_group=group)

    @command(3)
    def do_act_prof_add_member_to_group(self, words: list[str]) -> None:
        """Put a member into a group:

        act_prof_add_member_to_group <action profile name> <member handle> <group handle>
        """
        group, member = self._group_and_member(words)
        if any(each.member_id == member for each in group.members):
            raise OperationError("table", "MBR_ALREADY_IN_GRP")
        group.members.add(member_id=member, weight=1)
        with self.renamed(NOT_FOUND="INVALID_MBR_HANDLE"):
            self.switch.modify(action_profile_group=group)

    @command(3)
    def do_act_prof_remove_member_from_group(self, words: list[str]) -> None:
        """Take a member out of a group:

        act_prof_remove_member_from_group <action profile name> <member handle> <group handle>
        """
        group, member = self._group_and_member(words)
        left = [each for each in group.members if each.member_id != member]
        if len(left) == len(group.members):
            raise OperationError("table", "MBR_NOT_IN_GRP")
        del group.members[:]
        group.members.extend(left)
        self.switch.modify(action_profile_group=group)

    @command(1)
    def do_act_prof_dump(self, words: list[str]) -> None:
        """Show members and groups: act_prof_dump <action profile name>"""
        self.dump_profile(self._profile(words[0]).name)

    @command(2)
    def do_act_prof_dump_member(self, words: list[str]) -> None:
        """Show a member: act_prof_dump_member <action profile name> <member handle>"""
        number = _id(words[1], "member handle")
        for member in self._members(self._profile(words[0])):
            if member.member_id == number:
                return self._dump_member(member)
        raise OperationError("table", "INVALID_MBR_HANDLE")

    @command(2)
    def do_act_prof_dump_group(self, words: list[str]) -> None:
        """Show a group: act_prof_dump_group <action profile name> <group handle>"""
        number = _id(words[1], "group handle")
        self._dump_group(self._group(self._profile(words[0]), number))

    # --- tables with members ------------------------------------------------------------------

    @command(least=2)
    def do_table_indirect_add(self, words: list[str]) -> None:
        """Add an entry with a member:

        table_indirect_add <table name> <match fields> => <member handle> [priority]
        """
        self._indirect_add(words, group=False)

    @command(least=2)
    def do_table_indirect_add_with_group(self, words: list[str]) -> None:
        """Add an entry with a group:

        table_indirect_add_with_group <table name> <match fields> => <group handle> [priority]
        """
        self._indirect_add(words, group=True)

    def _indirect_add(self, words: list[str], *, group: bool) -> None:
        table = self.indirect(words[0], with_selector=group)
        rest, priority = self.priority(table, words[1:])
        at = rest.index("=>") if "=>" in rest else len(rest) - 1
        if len(rest) != at + 2:
            raise CommandError("Invalid arguments, could not find handle")
        number = max(0, whole(rest[at + 1], "handle", 32) + 1)  # 0 is none, refused as such
        match = self.match(table, words[0], rest[:at])
        self.say("Adding entry to indirect match table", table.name)
        entry = self.key_entry(table, match, priority)
        if group:
            entry.action.action_profile_group_id = number
        else:
            entry.action.action_profile_member_id = number
        with self.renamed(NOT_FOUND="INVALID_GRP_HANDLE" if group else "INVALID_MBR_HANDLE"):
            self.insert(table, entry, match)

    @command(2)
    def do_table_indirect_delete(self, words: list[str]) -> None:
        """Remove an entry: table_indirect_delete <table name> <entry handle>"""
        table, handle = self.indirect(words[0]), whole(words[1], "entry handle")
        self.say("Deleting entry", handle, "from", words[0])
        self.delete_entry(table, handle)

    @command(2)
    def do_table_indirect_set_default(self, words: list[str]) -> None:
        """Not there: P4Runtime gives a table with members no default one."""
        self._no_default(self.indirect(words[0]))

    @command(2)
    def do_table_indirect_set_default_with_group(self, words: list[str]) -> None:
        """Not there: P4Runtime gives a table with groups no default one."""
        self._no_default(self.indirect(words[0], with_selector=True))

    @command(1)
    def do_table_indirect_reset_default(self, words: list[str]) -> None:
        """Nothing to do: a table with members has no other default entry than its program's."""
        self.indirect(words[0])

    def _no_default(self, table: Table) -> None:
        why = f"{table.name}: P4Runtime gives a table with members no default member or group"
        raise OperationError("table", "ERROR", why)

    def indirect(self, name: str, *, with_selector: bool = False) -> Table:
        """Return the table with members that has that name. Raises CommandError."""
        table = self.table(name)
        if with_selector and (table.profile is None or not table.profile.with_selector):
            raise CommandError(
                "Cannot run this command on non-indirect table, or on indirect table with no "
                "selector"
            )
        if table.profile is None:
            raise CommandError("Cannot run this command on non-indirect table")
        return table

    def dump_profile(self, name: str) -> None:
        """Show members and groups of an action profile."""
        profile = self.program.profiles[name]
        self.say("==========")
        self.say("MEMBERS")
        for member in self._members(profile):
            self.say("**********")
            self._dump_member(member)
        if profile.with_selector:
            self.say("==========")
            self.say("GROUPS")
            for group in self._groups(profile):
                self.say("**********")
                self._dump_group(group)

    # --- parts --------------------------------------------------------------------------------

    def _profile(self, name: str) -> Profile:
        return find(self.program.profiles, name, "action profile")

    def _selector(self, name: str) -> Profile:
        profile = self._profile(name)
        if not profile.with_selector:
            raise CommandError("Cannot run this command on an action profile without selector")
        return profile

    def _profile_and_action(self, words: list[str]) -> tuple[Profile, Action]:
        profile = self._profile(words[0])
        try:
            return profile, find(profile.actions, words[1], "action")
        except CommandError:
            raise CommandError(f"Action profile '{words[0]}' has no action '{words[1]}'") from None

    def _group_and_member(self, words: list[str]) -> tuple[p4r.ActionProfileGroup, int]:
        profile = self._selector(words[0])
        member = _id(words[1], "member handle")
        return self._group(profile, _id(words[2], "group handle")), member

    def _members(self, profile: Profile) -> list[p4r.ActionProfileMember]:
        query = p4r.ActionProfileMember(action_profile_id=profile.id)
        found = self.switch.read(action_profile_member=query)
        return sorted((each.action_profile_member for each in found), key=lambda m: m.member_id)

    def _groups(self, profile: Profile) -> list[p4r.ActionProfileGroup]:
        query = p4r.ActionProfileGroup(action_profile_id=profile.id)
        found = self.switch.read(action_profile_group=query)
        return sorted((each.action_profile_group for each in found), key=lambda g: g.group_id)

    def _group(self, profile: Profile, number: int) -> p4r.ActionProfileGroup:
        for group in self._groups(profile):
            if group.group_id == number:
                return group
        raise OperationError("table", "INVALID_GRP_HANDLE")

    def _dump_member(self, member: p4r.ActionProfileMember) -> None:
        self.say(f"Dumping member {member.member_id - 1}")
        self.say(f"Action entry: {self.action_text(member.action)}")

    def _dump_group(self, group: p4r.ActionProfileGroup) -> None:
        self.say(f"Dumping group {group.group_id - 1}")
        members = ", ".join(str(each.member_id - 1) for each in group.members)
        self.say(f"Members: [{members}]")


def _id(text: str, what: str) -> int:
    handle = whole(text, what, 32)
    if handle < 0:
        raise CommandError(f"Bad format for {what}")
    return handle + 1


def _lowest_free(taken: set[int]) -> int:
    number = 1
    while number in taken:
        number += 1
    return number


def _by_table(new: str, *, with_selector: bool, is_old: bool) -> Callable[..., None]:
    """Return a command that takes a table's name where `new` takes its action profile's.

    `is_old`: print a note that the command is deprecated.
    """

    @command(least=1)
    def run(self: ProfileCommands, words: list[str]) -> None:
        table = self.indirect(words[0], with_selector=with_selector)
        assert table.profile is not None  # what `indirect` is for
        users = [each for each in self.program.tables.values() if each.profile == table.profile]
        if is_old and len(users) > 1:
            raise CommandError("Legacy command does not work with shared action profiles")
        if is_old:
            self.note(f"This is a deprecated command, use '{new}' instead")
        getattr(self, f"do_{new}")(" ".join([table.profile.name, *words[1:]]))

    run.__doc__ = f"{new} by the name of a table that has the profile to itself."
    return run


for _what, _with_selector in (
    ("create_member", False),
    ("delete_member", False),
    ("modify_member", False),
    ("create_group", True),
    ("delete_group", True),
    ("add_member_to_group", True),
    ("remove_member_from_group", True),
):
    _run = _by_table(f"act_prof_{_what}", with_selector=_with_selector, is_old=True)
    setattr(ProfileCommands, f"do_table_indirect_{_what}", _run)
for _what in ("dump_member", "dump_group"):
    _run = _by_table(f"act_prof_{_what}", with_selector=False, is_old=False)
    setattr(ProfileCommands, f"do_table_{_what}", _run)
