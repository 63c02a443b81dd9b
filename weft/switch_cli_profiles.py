"""`weft cli`'s commands on action profiles. Handle n is P4Runtime's id n + 1 (0 is none)."""

from __future__ import annotations

from softswitch.p4runtime.protos import p4r
from weft.switch_cli_arrays import ArrayCommands
from weft.switch_cli_program import Action, Profile, find
from weft.switch_cli_shell import command
from weft.switch_cli_values import CommandError, whole


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
        self.switch.modify(action_profile_member=member)

    @command(2)
    def do_act_prof_delete_member(self, words: list[str]) -> None:
        """Remove a member: act_prof_delete_member <action profile name> <member handle>"""
        self.switch.delete(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=self._profile(words[0]).id,
                member_id=_id(words[1], "member handle"),
            )
        )

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
        self.switch.delete(
            action_profile_group=p4r.ActionProfileGroup(
                action_profile_id=self._selector(words[0]).id,
                group_id=_id(words[1], "group handle"),
            )
        )

    @command(3)
    def do_act_prof_add_member_to_group(self, words: list[str]) -> None:
        """Put a member into a group:

        act_prof_add_member_to_group <action profile name> <member handle> <group handle>
        """
        group, member = self._group_and_member(words)
        if any(each.member_id == member for each in group.members):
            raise CommandError("Invalid table operation (MBR_ALREADY_IN_GRP)")
        group.members.add(member_id=member, weight=1)
        self.switch.modify(action_profile_group=group)

    @command(3)
    def do_act_prof_remove_member_from_group(self, words: list[str]) -> None:
        """Take a member out of a group:

        act_prof_remove_member_from_group <action profile name> <member handle> <group handle>
        """
        group, member = self._group_and_member(words)
        left = [each for each in group.members if each.member_id != member]
        if len(left) == len(group.members):
            raise CommandError("Invalid table operation (MBR_NOT_IN_GRP)")
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
        raise CommandError("Invalid table operation (INVALID_MBR_HANDLE)")

    @command(2)
    def do_act_prof_dump_group(self, words: list[str]) -> None:
        """Show a group: act_prof_dump_group <action profile name> <group handle>"""
        number = _id(words[1], "group handle")
        self._dump_group(self._group(self._selector(words[0]), number))

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
        return [each.action_profile_member for each in found]

    def _groups(self, profile: Profile) -> list[p4r.ActionProfileGroup]:
        query = p4r.ActionProfileGroup(action_profile_id=profile.id)
        found = self.switch.read(action_profile_group=query)
        return [each.action_profile_group for each in found]

    def _group(self, profile: Profile, number: int) -> p4r.ActionProfileGroup:
        for group in self._groups(profile):
            if group.group_id == number:
                return group
        raise CommandError("Invalid table operation (INVALID_GRP_HANDLE)")

    def _dump_member(self, member: p4r.ActionProfileMember) -> None:
        self.say(f"Dumping member {member.member_id - 1}")
        self.say(f"Action entry: {self.action_text(member.action)}")

    def _dump_group(self, group: p4r.ActionProfileGroup) -> None:
        self.say(f"Dumping group {group.group_id - 1}")
        members = ", ".join(str(each.member_id - 1) for each in group.members)
        self.say(f"Members: [{members}]")


def _id(text: str, what: str) -> int:
    handle = whole(text, what)
    if handle < 0:
        raise CommandError(f"Bad format for {what}")
    return handle + 1


def _lowest_free(taken: set[int]) -> int:
    number = 1
    while number in taken:
        number += 1
    return number
