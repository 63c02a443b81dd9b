"""Action profiles: members, groups, and the groups behind one-shot entries.

The core selects a group's member by position, so the order of members is behaviour. BMv2 orders a
group by its own member handles: the lowest free number at creation; a member of weight w has w
handles, the extra ones made when a group first needs them and given back when none does. The same
numbers are kept here ("slots"), so that the same hash picks the same member.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softswitch.p4runtime import actions
from softswitch.p4runtime.bytestrings import decode
from softswitch.p4runtime.core_errors import core_errors
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Profile
from softswitch.p4runtime.status import Code, EntityError

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

PORT_BITS = 32
"""Watch ports are SDN ports of up to 32 bits."""

MOST_SLOTS = 65536
"""Most weight of one group, whatever P4Info allows: a slot for each unit of it, as BMv2."""


@dataclass(slots=True)
class _Member:
    call: actions.ActionCall
    handle: int
    slots: list[int]


@dataclass(frozen=True, slots=True)
class _Share:
    """A member's part in a group."""

    member: _Member
    weight: int
    watch: int | None


@dataclass(slots=True)
class _Group:
    handle: int
    max_size: int
    message: p4r.ActionProfileGroup
    shares: list[_Share] = field(default_factory=list)


@dataclass(slots=True)
class OneShot:
    """The group and members behind one table entry's action set."""

    group: _Group
    members: list[_Member]

    @property
    def handle(self) -> int:
        """The core's handle of the group."""
        return self.group.handle


@dataclass(frozen=True, slots=True)
class Order:
    """The slots of all members, and of the members behind action sets by the key given for them."""

    members: Mapping[int, tuple[int, ...]]
    one_shots: Mapping[object, tuple[tuple[int, ...], ...]]
    free: tuple[int, ...]
    next_slot: int


class ProfileStore:
    """The members and groups of one action profile.

    Watch ports are followed by the core: a member whose port is down is not selected.
    """

    def __init__(self, core: SwitchCore, profile: Profile) -> None:
        self.profile = profile
        self._core = core
        self._members: dict[int, _Member] = {}
        self._groups: dict[int, _Group] = {}
        self._one_shots: list[OneShot] = []
        self._free: list[int] = []
        self._next_slot = 0

    def member_handle(self, member_id: int) -> int:
        """Return the core's handle of a member. Raises EntityError NOT_FOUND."""
        return self._member(member_id).handle

    def group_handle(self, group_id: int) -> int:
        """Return the core's handle of a group. Raises EntityError NOT_FOUND."""
        return self._group(group_id).handle

    # --- from one pipeline to the next (see reconcile.py) -------------------------------------

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same members and groups under the same
        handles.
        """
        self._core = core

    def order(self, one_shots: Mapping[object, OneShot]) -> Order:
        """Return the owners of slots, so that `restore_order` can select members in the same
        order.
        """
        return Order(
            {number: tuple(member.slots) for number, member in self._members.items()},
            {key: tuple(tuple(m.slots) for m in o.members) for key, o in one_shots.items()},
            tuple(self._free),
            self._next_slot,
        )

    def restore_order(self, order: Order, one_shots: Mapping[object, OneShot]) -> None:
        """Select members as when `order` was taken, here or in a profile with equal members."""
        for number, member in self._members.items():
            member.slots = list(order.members[number])
        for key, one_shot in one_shots.items():
            for member, slots in zip(one_shot.members, order.one_shots[key], strict=True):
                member.slots = list(slots)
        self._free = list(order.free)
        self._next_slot = order.next_slot
        for group in self._all_groups():
            self._core.group_set(self.profile.index, group.handle, *self._order(group))

    # --- members ------------------------------------------------------------------------------

    def write_member(self, kind: int, message: p4r.ActionProfileMember) -> None:
        """Apply one update (specification, "Member Programming")."""
        if message.member_id == 0:
            raise self._error(Code.INVALID_ARGUMENT, "0 is not a member id")
        match kind:
            case p4r.Update.INSERT:
                self._insert_member(message)
            case p4r.Update.MODIFY:
                self._modify_member(message)
            case p4r.Update.DELETE:
                self._delete_member(message.member_id)

    def read_members(self, member_id: int) -> Iterator[p4r.ActionProfileMember]:
        """Yield one member, or all with `member_id` 0."""
        for number, member in self._members.items():
            if member_id in (0, number):
                yield p4r.ActionProfileMember(
                    action_profile_id=self.profile.id,
                    member_id=number,
                    action=member.call.message,
                )

    def _insert_member(self, message: p4r.ActionProfileMember) -> None:
        if message.member_id in self._members:
            raise self._error(Code.ALREADY_EXISTS, f"member {message.member_id} is there already")
        call = self._parse(message)
        self._members[message.member_id] = self._create(call, f"member {message.member_id}")

    def _modify_member(self, message: p4r.ActionProfileMember) -> None:
        member = self._member(message.member_id)
        call = self._parse(message)
        with core_errors(f"{self.profile.name!r}, member {message.member_id}"):
            self._core.member_modify(self.profile.index, member.handle, call.ref.index, call.args)
        member.call = call

    def _delete_member(self, member_id: int) -> None:
        member = self._member(member_id)
        users = [g for g, group in self._groups.items() if _uses(group, member)]
        if users:
            raise self._error(
                Code.FAILED_PRECONDITION,
                f"member {member_id} is still in group {', '.join(map(str, users))}",
            )
        self._destroy(member, f"member {member_id}")
        del self._members[member_id]

    def _parse(self, message: p4r.ActionProfileMember) -> actions.ActionCall:
        if not message.HasField("action"):
            raise self._error(Code.INVALID_ARGUMENT, f"member {message.member_id} has no action")
        return actions.parse(self.profile.actions, message.action, self.profile.name)

    def _create(self, call: actions.ActionCall, what: str) -> _Member:
        with core_errors(f"{self.profile.name!r}, {what}"):
            handle = self._core.member_add(self.profile.index, call.ref.index, call.args)
        return _Member(call, handle, [self._take_slot()])

    def _destroy(self, member: _Member, what: str) -> None:
        with core_errors(f"{self.profile.name!r}, {what} is still used"):
            self._core.member_delete(self.profile.index, member.handle)
        for slot in member.slots:
            heapq.heappush(self._free, slot)

    # --- groups -------------------------------------------------------------------------------

    def write_group(self, kind: int, message: p4r.ActionProfileGroup) -> None:
        """Apply one update (specification, "Group Programming")."""
        if not self.profile.with_selector:
            raise self._error(Code.INVALID_ARGUMENT, "an action profile has no groups")
        if message.group_id == 0:
            raise self._error(Code.INVALID_ARGUMENT, "0 is not a group id")
        match kind:
            case p4r.Update.INSERT:
                self._insert_group(message)
            case p4r.Update.MODIFY:
                self._modify_group(message)
            case p4r.Update.DELETE:
                self._delete_group(message.group_id)

    def read_groups(self, group_id: int) -> Iterator[p4r.ActionProfileGroup]:
        """Yield one group, or all with `group_id` 0."""
        for number, group in self._groups.items():
            if group_id in (0, number):
                yield group.message

    def _insert_group(self, message: p4r.ActionProfileGroup) -> None:
        if message.group_id in self._groups:
            raise self._error(Code.ALREADY_EXISTS, f"group {message.group_id} is there already")
        limit = self.profile.max_group_size
        if message.max_size < 0 or (limit and not 0 < message.max_size <= limit):
            raise self._error(
                Code.INVALID_ARGUMENT,
                f"group {message.group_id}: max_size {message.max_size} is not in 1..{limit}",
            )
        shares = self._shares(message, message.max_size or limit)
        group = _Group(0, message.max_size, _copy_group(message), shares)
        with core_errors(f"{self.profile.name!r}, group {message.group_id}"):
            group.handle = self._core.group_add(self.profile.index, [])
        self._groups[message.group_id] = group
        try:
            self._settle([group], [s.member for s in shares])
        except EntityError:
            self._delete_group(message.group_id)
            raise

    def _modify_group(self, message: p4r.ActionProfileGroup) -> None:
        group = self._group(message.group_id)
        if message.max_size not in (0, group.max_size):
            raise self._error(
                Code.INVALID_ARGUMENT,
                f"group {message.group_id}: max_size can't change from {group.max_size} to "
                f"{message.max_size}",
            )
        shares = self._shares(message, group.max_size or self.profile.max_group_size)
        touched = [s.member for s in group.shares] + [s.member for s in shares]
        before = group.shares
        group.shares = shares
        try:
            self._settle([group], touched)
        except EntityError:
            group.shares = before
            self._settle([group], touched)
            raise
        group.message = _copy_group(message)
        group.message.max_size = group.max_size

    def _delete_group(self, group_id: int) -> None:
        group = self._group(group_id)
        with core_errors(f"{self.profile.name!r}, group {group_id} is still used"):
            self._core.group_delete(self.profile.index, group.handle)
        del self._groups[group_id]
        self._settle([], [s.member for s in group.shares])

    def _shares(self, message: p4r.ActionProfileGroup, limit: int) -> list[_Share]:
        shares: list[_Share] = []
        seen: set[int] = set()
        for item in message.members:
            member = self._member(item.member_id)
            if item.member_id in seen:
                raise self._error(
                    Code.INVALID_ARGUMENT,
                    f"group {message.group_id}: member {item.member_id} is given twice; use "
                    "weights instead",
                )
            seen.add(item.member_id)
            shares.append(_Share(member, self._weight(item.weight), _watch(item)))
        what = f"group {message.group_id}"
        size = self._size([share.weight for share in shares], what)
        if limit and size > limit:
            raise self._error(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: size {size} is above its limit of {limit}",
            )
        return shares

    def _size(self, weights: Sequence[int], what: str) -> int:
        """Return a group's size as P4Info counts it.

        Raises EntityError RESOURCE_EXHAUSTED above the selector's size.
        """
        total = sum(weights)
        size = len(weights) if self.profile.sum_of_members else total
        if 0 < self.profile.size < size:
            raise self._error(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: size {size} is above the selector's, {self.profile.size}",
            )
        if total > MOST_SLOTS:
            raise self._error(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: the weights add up to {total}; {MOST_SLOTS} is the most of this switch",
            )
        return size

    def _weight(self, weight: int) -> int:
        if self.profile.weights_disallowed:
            if weight != 0:
                raise self._error(Code.INVALID_ARGUMENT, "weights are not allowed; leave them 0")
            return 1
        if weight <= 0:
            raise self._error(Code.INVALID_ARGUMENT, f"weight {weight} is not above 0")
        return weight

    # --- one-shot -----------------------------------------------------------------------------

    def create_one_shot(self, action_set: p4r.ActionProfileActionSet) -> OneShot:
        """Make the members and the group for a table entry's action set.

        Raises EntityError; nothing is left behind then (specification, "One Shot Action Selector
        Programming").
        """
        if not self.profile.with_selector:
            raise self._error(Code.INVALID_ARGUMENT, "only a selector takes an action set")
        if not action_set.action_profile_actions:
            raise self._error(Code.UNIMPLEMENTED, "an empty action set")
        if action_set.action_selection_mode or action_set.size_semantics:
            raise self._error(
                Code.UNIMPLEMENTED, "a selection mode or size semantics for a single group"
            )
        calls = [
            actions.parse(self.profile.actions, item.action, self.profile.name)
            for item in action_set.action_profile_actions
        ]
        weights = [self._weight(item.weight) for item in action_set.action_profile_actions]
        size = self._size(weights, "the action set")
        if self.profile.max_group_size and size > self.profile.max_group_size:
            raise self._error(
                Code.INVALID_ARGUMENT,
                f"the action set's size {size} is above max_group_size "
                f"{self.profile.max_group_size}",
            )
        members: list[_Member] = []
        try:
            shares = []
            for item, call, weight in zip(
                action_set.action_profile_actions, calls, weights, strict=True
            ):
                member = self._create(call, "action set")
                members.append(member)
                member.slots += [self._take_slot() for _ in range(weight - 1)]
                shares.append(_Share(member, weight, _watch(item)))
            group = _Group(0, 0, p4r.ActionProfileGroup(), shares)
            with core_errors(f"{self.profile.name!r}, action set"):
                group.handle = self._core.group_add(self.profile.index, *self._order(group))
        except EntityError:
            for member in members:
                self._destroy(member, "action set")
            raise
        one_shot = OneShot(group, members)
        self._one_shots.append(one_shot)
        return one_shot

    def delete_one_shot(self, one_shot: OneShot) -> None:
        """Remove what `create_one_shot` made, once no entry refers to it."""
        with core_errors(f"{self.profile.name!r}, action set"):
            self._core.group_delete(self.profile.index, one_shot.handle)
        for member in one_shot.members:
            self._destroy(member, "action set")
        self._one_shots.remove(one_shot)

    # --- order --------------------------------------------------------------------------------

    def _all_groups(self) -> list[_Group]:
        return [*self._groups.values(), *(one_shot.group for one_shot in self._one_shots)]

    def _settle(self, groups: Iterable[_Group], touched: Iterable[_Member]) -> None:
        """Give touched members as many slots as their largest weight, then write the groups."""
        unique = list({id(m): m for m in touched}.values())
        for member in unique:
            while len(member.slots) < self._largest_weight(member):
                member.slots.append(self._take_slot())
        for group in groups:
            with core_errors(f"{self.profile.name!r}, group {group.message.group_id}"):
                self._core.group_set(self.profile.index, group.handle, *self._order(group))
        for member in unique:
            while len(member.slots) > self._largest_weight(member):
                heapq.heappush(self._free, member.slots.pop())

    def _largest_weight(self, member: _Member) -> int:
        weights = [
            share.weight
            for group in self._groups.values()
            for share in group.shares
            if share.member is member
        ]
        return max(weights, default=1)

    def _order(self, group: _Group) -> tuple[list[int], list[int | None]]:
        """Return the member handles in BMv2's order, repeated by weight, and the port that each
        watches.
        """
        slots = sorted(
            (slot, share.member.handle, share.watch)
            for share in group.shares
            for slot in share.member.slots[: share.weight]
        )
        watch = [port for _, _, port in slots]
        handles = [handle for _, handle, _ in slots]
        return handles, watch if any(port is not None for port in watch) else []

    def _take_slot(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._next_slot += 1
        return self._next_slot - 1

    def _member(self, member_id: int) -> _Member:
        member = self._members.get(member_id)
        if member is None:
            raise self._error(Code.NOT_FOUND, f"there is no member {member_id}")
        return member

    def _group(self, group_id: int) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            raise self._error(Code.NOT_FOUND, f"there is no group {group_id}")
        return group

    def _error(self, code: Code, message: str) -> EntityError:
        return EntityError(code, f"action profile {self.profile.name!r}: {message}")


def _uses(group: _Group, member: _Member) -> bool:
    return any(share.member is member for share in group.shares)


def _copy_group(message: p4r.ActionProfileGroup) -> p4r.ActionProfileGroup:
    copy = p4r.ActionProfileGroup()
    copy.CopyFrom(message)
    return copy


def _watch(item: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction) -> int | None:
    match item.WhichOneof("watch_kind"):
        case "watch_port":
            return decode(item.watch_port, PORT_BITS, "watch_port", Code.INVALID_ARGUMENT)
        case "watch":
            if item.watch < 0:
                raise EntityError(Code.INVALID_ARGUMENT, f"watch: {item.watch} is no port")
            return item.watch or None
        case _:
            return None
