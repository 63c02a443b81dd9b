"""What a switch can hold, as typed values by name, and their P4Runtime form.

Values are plain integers; bytes on the wire are canonical (P4Runtime 8.4: shortest, at least one
byte). All entries are frozen and compare by value, so that two states can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from controller.errors import ControllerError
from controller.p4info import Action, Field, MatchKind, P4Info, Table, field_by_id
from softswitch.p4runtime.protos import p4r

_PORT_BITS = 32  # of a port as P4Runtime counts them, of which 0 is none


@dataclass(frozen=True)
class Exact:
    """This value."""

    value: int


@dataclass(frozen=True)
class Lpm:
    """Values that share the first `length` bits of `value`."""

    value: int
    length: int


@dataclass(frozen=True)
class Ternary:
    """Values that equal `value` where `mask` has ones."""

    value: int
    mask: int


@dataclass(frozen=True)
class Range:
    """Values from `low` to `high`, both included."""

    low: int
    high: int


MatchValue: TypeAlias = Exact | Lpm | Ternary | Range
Match: TypeAlias = tuple[tuple[str, MatchValue], ...]


@dataclass(frozen=True)
class ActionCall:
    """An action (by alias) with its arguments in the action's order."""

    action: str
    arguments: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class MemberRef:
    """The action of a member of the table's action profile."""

    member: int


@dataclass(frozen=True)
class GroupRef:
    """One of the members of a group of the table's action profile."""

    group: int


@dataclass(frozen=True)
class ActionSet:
    """One of these actions by its weight: a group and its members of one entry ("one-shot").

    `watch`: the port that each of them watches, empty where none does.
    """

    actions: tuple[tuple[ActionCall, int], ...]
    watch: tuple[int, ...] = ()


TableAction: TypeAlias = ActionCall | MemberRef | GroupRef | ActionSet


@dataclass(frozen=True)
class TableEntry:
    """An entry of a table; `match` in any order, absent fields match anything."""

    table: str
    match: Match
    action: TableAction
    priority: int = 0

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("entry", self.table, frozenset(self.match), self.priority)


@dataclass(frozen=True)
class DefaultEntry:
    """What a table does when nothing matches. It can be modified, never inserted or deleted."""

    table: str
    action: ActionCall

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("default", self.table)


@dataclass(frozen=True)
class Member:
    """A member of an action profile."""

    profile: str
    member: int
    action: ActionCall

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("member", self.profile, self.member)


@dataclass(frozen=True)
class Group:
    """A group of an action selector: members with their weights, ordered by member.

    `watch`: the port that each of the members watches, empty where none does. The switch leaves a
    member out while its port is down, by itself.
    """

    profile: str
    group: int
    members: tuple[tuple[int, int], ...]
    watch: tuple[int, ...] = ()

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("group", self.profile, self.group)


@dataclass(frozen=True)
class CloneSession:
    """A clone session: copies go to these (port, instance) and wait in the queue of a class."""

    session: int
    replicas: tuple[tuple[int, int], ...]
    class_of_service: int = 0
    packet_length: int = 0

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("clone session", self.session)


@dataclass(frozen=True)
class MulticastGroup:
    """A multicast group: what is sent to it leaves by each of these (port, instance)."""

    group: int
    replicas: tuple[tuple[int, int], ...]

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("multicast group", self.group)


@dataclass(frozen=True)
class DigestSetting:
    """That a digest's messages are sent, up to `max_list` at once, none later than `max_wait_ns`.

    They are not held back until acknowledged: each is one of many samples.
    """

    digest: str
    max_wait_ns: int
    max_list: int

    @property
    def key(self) -> object:
        """What makes two entries the same one."""
        return ("digest", self.digest)


Entry: TypeAlias = (
    TableEntry | DefaultEntry | Member | Group | CloneSession | MulticastGroup | DigestSetting
)


def match(**fields: MatchValue) -> Match:
    """Return a key from keyword arguments: match(dst=Lpm(0x0a000100, 24))."""
    return tuple(sorted(fields.items()))


def call(action: str, **arguments: int) -> ActionCall:
    """Return an action with its arguments by name: call('forward_to', port=1)."""
    return ActionCall(action, tuple(sorted(arguments.items())))


# ---------------------------------------------------------------- to P4Runtime


def encode(entry: Entry, p4info: P4Info) -> p4r.Entity:
    """Return the P4Runtime entity of an entry. Raises UnknownName; ControllerError for values."""
    match entry:
        case TableEntry():
            return p4r.Entity(table_entry=_encode_entry(entry, p4info))
        case DefaultEntry():
            table = p4info.tables[entry.table]
            action = _encode_call(entry.action, p4info, entry.table)
            message = p4r.TableEntry(
                table_id=table.id, action=p4r.TableAction(action=action), is_default_action=True
            )
            return p4r.Entity(table_entry=message)
        case Member():
            return p4r.Entity(
                action_profile_member=p4r.ActionProfileMember(
                    action_profile_id=p4info.profiles[entry.profile].id,
                    member_id=entry.member,
                    action=_encode_call(entry.action, p4info, entry.profile),
                )
            )
        case CloneSession():
            session = p4r.CloneSessionEntry(
                session_id=entry.session,
                replicas=_replicas(entry.replicas),
                class_of_service=entry.class_of_service,
                packet_length_bytes=entry.packet_length,
            )
            engine = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
            return p4r.Entity(packet_replication_engine_entry=engine)
        case MulticastGroup():
            replicated = p4r.MulticastGroupEntry(
                multicast_group_id=entry.group, replicas=_replicas(entry.replicas)
            )
            engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=replicated)
            return p4r.Entity(packet_replication_engine_entry=engine)
        case DigestSetting():
            digest = p4r.DigestEntry(
                digest_id=p4info.digests[entry.digest].id,
                config=p4r.DigestEntry.Config(
                    max_timeout_ns=entry.max_wait_ns, max_list_size=entry.max_list
                ),
            )
            return p4r.Entity(digest_entry=digest)
        case Group():
            group = p4r.ActionProfileGroup(
                action_profile_id=p4info.profiles[entry.profile].id,
                group_id=entry.group,
                members=[
                    p4r.ActionProfileGroup.Member(member_id=member, weight=weight)
                    for member, weight in entry.members
                ],
            )
            if entry.watch:
                for item, port in zip(group.members, entry.watch, strict=True):
                    item.watch_port = to_bytes(port, _PORT_BITS, "watch_port")
            return p4r.Entity(action_profile_group=group)


def _encode_entry(entry: TableEntry, p4info: P4Info) -> p4r.TableEntry:
    table = p4info.tables[entry.table]
    if table.needs_priority != (entry.priority > 0):
        need = "needs a priority above 0" if table.needs_priority else "takes no priority"
        raise ControllerError(f"{describe(entry)}: table {entry.table} {need}")
    message = p4r.TableEntry(table_id=table.id, priority=entry.priority)
    values = dict(entry.match)
    for name in values:
        p4info.field(table, name)
    for field in table.fields:
        if field.name in values:
            encoded = _encode_match(field, values[field.name], entry.table)
            if encoded is not None:
                message.match.append(encoded)
        elif field.kind is MatchKind.EXACT:
            raise ControllerError(
                f"{describe(entry)}: {entry.table} needs a value for {field.name}"
            )
    match entry.action:
        case ActionCall():
            message.action.action.CopyFrom(_encode_call(entry.action, p4info, entry.table))
        case MemberRef(member):
            message.action.action_profile_member_id = member
        case GroupRef(group):
            message.action.action_profile_group_id = group
        case ActionSet(actions, watch):
            chosen = message.action.action_profile_action_set.action_profile_actions
            for i, (one, weight) in enumerate(actions):
                item = chosen.add(weight=weight)
                item.action.CopyFrom(_encode_call(one, p4info, entry.table))
                if watch:
                    item.watch_port = to_bytes(watch[i], _PORT_BITS, "watch_port")
    return message


def _encode_match(field: Field, value: MatchValue, where: str) -> p4r.FieldMatch | None:
    at = f"{where}.{field.name}"
    full = (1 << field.bits) - 1
    message = p4r.FieldMatch(field_id=field.id)
    match field.kind, value:
        case MatchKind.EXACT, Exact(number):
            message.exact.value = to_bytes(number, field.bits, at)
        case MatchKind.OPTIONAL, Exact(number):
            message.optional.value = to_bytes(number, field.bits, at)
        case MatchKind.LPM, Lpm(number, length) if 0 <= length <= field.bits:
            if length == 0:
                return None
            mask = full ^ (full >> length)
            message.lpm.value = to_bytes(number & mask, field.bits, at)
            message.lpm.prefix_len = length
        case MatchKind.TERNARY, Ternary(number, mask):
            if mask == 0:
                return None
            message.ternary.value = to_bytes(number & mask, field.bits, at)
            message.ternary.mask = to_bytes(mask, field.bits, at)
        case MatchKind.RANGE, Range(low, high) if low <= high:
            if (low, high) == (0, full):
                return None
            message.range.low = to_bytes(low, field.bits, at)
            message.range.high = to_bytes(high, field.bits, at)
        case kind, _:
            wanted = kind.name.lower() if kind else "no"
            raise ControllerError(f"{at}: {value} does not fit: this is a {wanted} match")
    return message


def _encode_call(action: ActionCall, p4info: P4Info, where: str) -> p4r.Action:
    known = p4info.actions[action.action]
    given = dict(action.arguments)
    for name in given:
        p4info.param(known, name)
    missing = [param.name for param in known.params if param.name not in given]
    if missing:
        raise ControllerError(f"{where}: {action.action} needs {', '.join(missing)}")
    return p4r.Action(
        action_id=known.id,
        params=[
            p4r.Action.Param(
                param_id=param.id,
                value=to_bytes(given[param.name], param.bits, f"{action.action}.{param.name}"),
            )
            for param in known.params
        ],
    )


def to_bytes(value: int, bits: int, what: str) -> bytes:
    """Return a value's canonical bytes. Raises ControllerError if it doesn't fit into `bits`."""
    if not 0 <= value < 1 << bits:
        raise ControllerError(f"{what}: {value} does not fit into {bits} bits")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


# ---------------------------------------------------------------- from P4Runtime


def decode(entity: p4r.Entity, p4info: P4Info) -> Entry | None:
    """Return the entry of an entity that a switch gave us; None for kinds we don't keep."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return _decode_entry(entity.table_entry, p4info)
        case "action_profile_member":
            member = entity.action_profile_member
            profile = p4info.profiles[member.action_profile_id]
            return Member(profile.alias, member.member_id, _decode_call(member.action, p4info))
        case "action_profile_group":
            group = entity.action_profile_group
            profile = p4info.profiles[group.action_profile_id]
            members = sorted(
                (item.member_id, item.weight, _number(item.watch_port)) for item in group.members
            )
            ports = tuple(port for _, _, port in members)
            return Group(
                profile.alias,
                group.group_id,
                tuple((member, weight) for member, weight, _ in members),
                ports if any(ports) else (),
            )
        case "packet_replication_engine_entry":
            return _decode_replication(entity.packet_replication_engine_entry)
        case "digest_entry":
            digest = entity.digest_entry
            config = digest.config
            name = p4info.digests[digest.digest_id].alias
            return DigestSetting(name, config.max_timeout_ns, config.max_list_size)
        case _:
            return None


def _decode_replication(engine: p4r.PacketReplicationEngineEntry) -> Entry | None:
    match engine.WhichOneof("type"):
        case "clone_session_entry":
            session = engine.clone_session_entry
            return CloneSession(
                session.session_id,
                _places(session.replicas),
                session.class_of_service,
                session.packet_length_bytes,
            )
        case "multicast_group_entry":
            group = engine.multicast_group_entry
            return MulticastGroup(group.multicast_group_id, _places(group.replicas))
        case _:
            return None


def _places(replicas: Iterable[p4r.Replica]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((each.egress_port, each.instance) for each in replicas))


def _replicas(places: Iterable[tuple[int, int]]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=port, instance=instance) for port, instance in places]


def _decode_entry(entry: p4r.TableEntry, p4info: P4Info) -> Entry | None:
    table = p4info.tables[entry.table_id]
    action: TableAction
    match entry.action.WhichOneof("type"):
        case "action":
            action = _decode_call(entry.action.action, p4info)
        case "action_profile_member_id":
            action = MemberRef(entry.action.action_profile_member_id)
        case "action_profile_group_id":
            action = GroupRef(entry.action.action_profile_group_id)
        case "action_profile_action_set":
            chosen = entry.action.action_profile_action_set.action_profile_actions
            ports = tuple(_number(item.watch_port) for item in chosen)
            action = ActionSet(
                tuple((_decode_call(item.action, p4info), item.weight) for item in chosen),
                ports if any(ports) else (),
            )
        case _:
            return None
    if entry.is_default_action:
        return DefaultEntry(table.alias, action) if isinstance(action, ActionCall) else None
    values = sorted(_decode_match(field, table) for field in entry.match)
    return TableEntry(table.alias, tuple(values), action, entry.priority)


def _decode_match(field: p4r.FieldMatch, table: Table) -> tuple[str, MatchValue]:
    known = field_by_id(table.fields, field.field_id)
    value: MatchValue
    match field.WhichOneof("field_match_type"):
        case "exact":
            value = Exact(_number(field.exact.value))
        case "optional":
            value = Exact(_number(field.optional.value))
        case "lpm":
            value = Lpm(_number(field.lpm.value), field.lpm.prefix_len)
        case "ternary":
            value = Ternary(_number(field.ternary.value), _number(field.ternary.mask))
        case "range":
            value = Range(_number(field.range.low), _number(field.range.high))
        case other:
            raise ControllerError(f"{table.alias}.{known.name}: unknown match {other!r}")
    return known.name, value


def _decode_call(action: p4r.Action, p4info: P4Info) -> ActionCall:
    known: Action = p4info.actions[action.action_id]
    arguments = [
        (field_by_id(known.params, param.param_id).name, _number(param.value))
        for param in action.params
    ]
    return ActionCall(known.alias, tuple(sorted(arguments)))


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


# ---------------------------------------------------------------- for people


def describe(entry: Entry) -> str:
    """Return one line that names an entry: 'ipv4_route dst=0xa000101/32 -> route_to(...)'."""
    match entry:
        case TableEntry():
            key = " ".join(f"{name}={_show_match(value)}" for name, value in entry.match)
            priority = f" priority={entry.priority}" if entry.priority else ""
            return f"{entry.table} {key}{priority} -> {show_action(entry.action)}"
        case DefaultEntry():
            return f"{entry.table} default -> {show_action(entry.action)}"
        case Member():
            return f"{entry.profile} member {entry.member} -> {show_action(entry.action)}"
        case CloneSession():
            ports = ", ".join(str(port) for port, _ in entry.replicas)
            return f"clone session {entry.session} to port {ports}"
        case MulticastGroup():
            ports = ", ".join(str(port) for port, _ in entry.replicas)
            return f"multicast group {entry.group} to port {ports}"
        case DigestSetting():
            return f"digest {entry.digest}: lists of {entry.max_list} or {entry.max_wait_ns} ns"
        case Group():
            members = ", ".join(str(member) for member, _ in entry.members)
            return f"{entry.profile} group {entry.group} of {members}"


def show_action(action: TableAction) -> str:
    """Return an action as a call: 'route_to(next_hop=1)'."""
    match action:
        case ActionCall(name, arguments):
            return f"{name}({', '.join(f'{key}={value:#x}' for key, value in arguments)})"
        case MemberRef(member):
            return f"member {member}"
        case GroupRef(group):
            return f"group {group}"
        case ActionSet(actions, _):
            return "one of " + ", ".join(f"{show_action(one)} x{n}" for one, n in actions)


def _show_match(value: MatchValue) -> str:
    match value:
        case Exact(number):
            return f"{number:#x}"
        case Lpm(number, length):
            return f"{number:#x}/{length}"
        case Ternary(number, mask):
            return f"{number:#x}&&&{mask:#x}"
        case Range(low, high):
            return f"{low:#x}..{high:#x}"
