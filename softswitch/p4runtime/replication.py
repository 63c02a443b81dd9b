"""The packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from softswitch.core import Replica, Session
from softswitch.p4runtime.bytestrings import decode
from softswitch.p4runtime.core_errors import core_errors
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, EntityError

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

FIRST_RESERVED_GROUP = 1 << 15
"""Groups from here on carry clone sessions (session s uses group FIRST_RESERVED_GROUP + s)."""

MAX_SESSION = FIRST_RESERVED_GROUP - 1
PORT_BITS = 9
"""Width of v1model's egress ports."""
RID_BITS = 16
"""Width of v1model's egress_rid."""


class ReplicationEngine:
    """Multicast groups and clone sessions as the controller wrote them, and in the core.

    A clone session is a multicast group of the core, as with BMv2's P4Runtime: that is what gives
    each clone the replica's instance as its egress_rid.
    """

    def __init__(self, core: SwitchCore) -> None:
        self._core = core
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}
        self._filled: set[int] = set()
        self.session_zero: Session | None = None

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same groups and sessions."""
        self._core = core

    def set_session_zero(self, session: Session | None) -> None:
        """Set BMv2's mirroring session 0, which P4Runtime does not have; None: remove it."""
        if session is None and self.session_zero is None:
            return
        with core_errors("mirroring session 0"):
            self._core.clone_session_set(0, session)
        self.session_zero = session

    def write(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> None:
        """Apply one update. Raises EntityError."""
        match message.WhichOneof("type"):
            case "multicast_group_entry":
                self._write_group(kind, message.multicast_group_entry)
            case "clone_session_entry":
                self._write_session(kind, message.clone_session_entry)
            case _:
                raise EntityError(
                    Code.INVALID_ARGUMENT, "neither a multicast group nor a clone session is given"
                )

    def read(
        self, message: p4r.PacketReplicationEngineEntry
    ) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """Yield one group or session, or all with id 0; nothing when there is none by that id."""
        match message.WhichOneof("type"):
            case "multicast_group_entry":
                wanted = message.multicast_group_entry.multicast_group_id
                for number, group in self._groups.items():
                    if wanted in (0, number):
                        yield p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
            case "clone_session_entry":
                wanted = message.clone_session_entry.session_id
                for number, session in self._sessions.items():
                    if wanted in (0, number):
                        yield p4r.PacketReplicationEngineEntry(clone_session_entry=session)
            case _:
                raise EntityError(
                    Code.INVALID_ARGUMENT, "neither a multicast group nor a clone session is given"
                )

    def everything(self) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """Yield all groups and sessions."""
        for group in self._groups.values():
            yield p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        for session in self._sessions.values():
            yield p4r.PacketReplicationEngineEntry(clone_session_entry=session)

    def _write_group(self, kind: int, message: p4r.MulticastGroupEntry) -> None:
        number = message.multicast_group_id
        what = f"multicast group {number}"
        if number == 0:
            raise EntityError(Code.INVALID_ARGUMENT, "0 is not a multicast group id")
        if number >= FIRST_RESERVED_GROUP:
            raise EntityError(Code.OUT_OF_RANGE, f"{what}: ids go up to {FIRST_RESERVED_GROUP - 1}")
        _check_existence(kind, number in self._groups, what)
        if kind == p4r.Update.DELETE:
            self._set(number, [])
            del self._groups[number]
            return
        replicas = _replicas(message.replicas, what)
        with core_errors(what):
            self._set(number, replicas)
        kept = p4r.MulticastGroupEntry()
        kept.CopyFrom(message)
        self._groups[number] = kept

    def _write_session(self, kind: int, message: p4r.CloneSessionEntry) -> None:
        number = message.session_id
        what = f"clone session {number}"
        if not 0 < number <= MAX_SESSION:
            raise EntityError(Code.INVALID_ARGUMENT, f"{what}: ids are 1..{MAX_SESSION}")
        _check_existence(kind, number in self._sessions, what)
        group = FIRST_RESERVED_GROUP + number
        if kind == p4r.Update.DELETE:
            self._core.clone_session_set(number, None)
            self._set(group, [])
            del self._sessions[number]
            return
        priorities = self._core.config.priorities
        if message.class_of_service >= priorities:
            raise EntityError(
                Code.INVALID_ARGUMENT,
                f"{what}: class_of_service {message.class_of_service} is none of this switch's, "
                f"0..{priorities - 1} (`-- --priority-queues N` sets how many)",
            )
        if message.packet_length_bytes < 0:
            raise EntityError(Code.INVALID_ARGUMENT, f"{what}: packet_length_bytes is negative")
        replicas = _replicas(message.replicas, what)
        with core_errors(what):
            self._set(group, replicas)
            session = Session.to_group(
                group, truncate=message.packet_length_bytes, priority=message.class_of_service
            )
            self._core.clone_session_set(number, session)
        kept = p4r.CloneSessionEntry()
        kept.CopyFrom(message)
        self._sessions[number] = kept

    def _set(self, group: int, replicas: Sequence[Replica]) -> None:
        """Set a group in the core, which has no empty groups: one without replicas does not
        exist.
        """
        if replicas or group in self._filled:
            self._core.multicast_set(group, replicas)
        if replicas:
            self._filled.add(group)
        else:
            self._filled.discard(group)


def _check_existence(kind: int, there: bool, what: str) -> None:
    if kind == p4r.Update.INSERT:
        if there:
            raise EntityError(Code.ALREADY_EXISTS, f"{what} is there already")
    elif not there:
        raise EntityError(Code.NOT_FOUND, f"there is no {what}")


def _replicas(messages: Sequence[p4r.Replica], what: str) -> list[Replica]:
    """Return the core's replicas by instance, then by port, each followed by its backups.

    P4Runtime leaves the order open; BMv2's is that of its hash map (docs/parity.md).
    """
    seen: set[tuple[int, int]] = set()
    found: list[tuple[tuple[int, int], list[tuple[int, int]]]] = []
    for message in messages:
        place = _place(message, what, seen)
        backups = [_place(backup, what, seen) for backup in message.backup_replicas]
        if any(port == place[1] for _, port in backups):
            raise EntityError(
                Code.INVALID_ARGUMENT, f"{what}: port {place[1]} is its own backup replica"
            )
        found.append((place, backups))
    replicas: list[Replica] = []
    for (rid, port), backups in sorted(found):
        replicas.append(Replica(port=port, rid=rid))
        replicas += [Replica(port=port, rid=rid, backup=True) for rid, port in backups]
    return replicas


def _place(
    message: p4r.Replica | p4r.BackupReplica, what: str, seen: set[tuple[int, int]]
) -> tuple[int, int]:
    """Return (instance, port) of a replica or backup, which is added to `seen`.

    Raises EntityError.
    """
    if isinstance(message, p4r.Replica) and message.WhichOneof("port_kind") == "egress_port":
        port = message.egress_port
    elif message.port:
        port = decode(message.port, 32, f"{what}, port", Code.INVALID_ARGUMENT)
    else:
        raise EntityError(Code.INVALID_ARGUMENT, f"{what}: a replica has no port")
    if port.bit_length() > PORT_BITS:
        raise EntityError(
            Code.INVALID_ARGUMENT, f"{what}: port {port} does not fit in {PORT_BITS} bits"
        )
    if message.instance.bit_length() > RID_BITS:
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{what}: instance {message.instance} does not fit in {RID_BITS} bits",
        )
    place = (message.instance, port)
    if place in seen:
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{what}: port {port} with instance {message.instance} is given twice",
        )
    seen.add(place)
    return place
