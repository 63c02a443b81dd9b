"""Roles: which entities, packets and calls a controller's role may have to do with.

P4Runtime leaves the format of a role's config to implementations; this is Stratum's P4RoleConfig.
A role without a config, and the default role always, may do everything; so may one whose config is
an Empty, for clients that can't leave it away (finsy).
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError

from softswitch.p4runtime.protos import p4r, stratum
from softswitch.p4runtime.status import Code, EntityError


@dataclass(frozen=True, slots=True)
class Scope:
    """What a role may do. `ids` (of P4Info objects) None: all entities, those without an id too."""

    ids: frozenset[int] | None = None
    exclusive: frozenset[int] = frozenset()
    packet_ins: bool = True
    filter_id: int = 0
    filter_value: bytes = b""
    may_push_pipeline: bool = True

    def has(self, number: int | None) -> bool:
        """Return whether an object is in scope; None: one that has no id in P4Info."""
        return self.ids is None or (number is not None and number in self.ids)

    def takes(self, packet: p4r.PacketIn) -> bool:
        """Return whether the role's primary gets this packet-in."""
        if not self.packet_ins or not self.filter_id:
            return self.packet_ins
        return any(
            m.metadata_id == self.filter_id and m.value.lstrip(b"\0") == self.filter_value
            for m in packet.metadata
        )


FULL = Scope()


def scope_of(role: p4r.Role) -> Scope:
    """Return the scope that a `role.config` describes. Raises EntityError INVALID_ARGUMENT."""
    if not role.HasField("config"):
        return FULL
    if not role.name:
        raise EntityError(
            Code.INVALID_ARGUMENT, "the default role has full access: leave its config unset"
        )
    if role.config.Is(Empty.DESCRIPTOR):
        return FULL
    config = stratum.P4RoleConfig()
    if not role.config.Is(config.DESCRIPTOR):
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"role {role.name!r}: its config is {role.config.type_url or 'of no type'}; known is "
            f"{config.DESCRIPTOR.full_name}, and without a config a role has full access",
        )
    try:
        role.config.Unpack(config)
    except DecodeError as error:
        raise EntityError(
            Code.INVALID_ARGUMENT, f"role {role.name!r}: its config can't be read: {error}"
        ) from error
    exclusive = frozenset(config.exclusive_p4_ids)
    return Scope(
        ids=exclusive | frozenset(config.shared_p4_ids),
        exclusive=exclusive,
        packet_ins=config.receives_packet_ins,
        filter_id=config.packet_in_filter.metadata_id,
        filter_value=config.packet_in_filter.value.lstrip(b"\0"),
        may_push_pipeline=config.can_push_pipeline,
    )


def object_id(entity: p4r.Entity) -> int | None:
    """Return the P4Info id that decides whether `entity` is in a role's scope; None if it has none.

    Direct counters and meters go with their table.
    """
    match entity.WhichOneof("entity"):
        case "table_entry":
            return entity.table_entry.table_id
        case "direct_counter_entry":
            return entity.direct_counter_entry.table_entry.table_id
        case "direct_meter_entry":
            return entity.direct_meter_entry.table_entry.table_id
        case "action_profile_member":
            return entity.action_profile_member.action_profile_id
        case "action_profile_group":
            return entity.action_profile_group.action_profile_id
        case "counter_entry":
            return entity.counter_entry.counter_id
        case "meter_entry":
            return entity.meter_entry.meter_id
        case "register_entry":
            return entity.register_entry.register_id
        case "digest_entry":
            return entity.digest_entry.digest_id
        case "value_set_entry":
            return entity.value_set_entry.value_set_id
        case _:
            return None


def visible(scope: Scope, message: p4r.StreamMessageResponse) -> p4r.StreamMessageResponse | None:
    """Return the part of a notification for a role's primary with `scope`; None: nothing."""
    match message.WhichOneof("update"):
        case "packet":
            return message if scope.takes(message.packet) else None
        case "digest":
            return message if scope.has(message.digest.digest_id) else None
        case "idle_timeout_notification":
            notice = message.idle_timeout_notification
            entries = [e for e in notice.table_entry if scope.has(e.table_id)]
            if len(entries) == len(notice.table_entry):
                return message
            if not entries:
                return None
            part = p4r.IdleTimeoutNotification(table_entry=entries, timestamp=notice.timestamp)
            return p4r.StreamMessageResponse(idle_timeout_notification=part)
        case _:
            return message
