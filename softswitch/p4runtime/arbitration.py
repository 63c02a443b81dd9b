"""Who may write: arbitration among connected controllers (specification, "Client Arbitration").

One device with any number of roles; each has a primary of its own: the client whose election id is
the highest that was ever seen for the role. There may be none.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, field

from softswitch.p4runtime.protos import p4r, rpc_status
from softswitch.p4runtime.roles import FULL, Scope, scope_of
from softswitch.p4runtime.status import Code, EntityError

MAX_CLIENTS = 16
"""Open streams at a time, of all roles, as many as BMv2's server takes."""

MAX_QUEUED = 4096
"""Stream messages that wait for a slow client before packet-ins and digests are dropped."""


@dataclass(slots=True, eq=False)
class Client:
    """One open stream. `outbox` holds what is to be sent; None ends the stream."""

    outbox: queue.SimpleQueue[p4r.StreamMessageResponse | EntityError | None] = field(
        default_factory=queue.SimpleQueue
    )
    role: Role | None = None
    election_id: int | None = None
    dropped: int = 0

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a message; dropped and counted when the client does not keep up."""
        if self.outbox.qsize() >= MAX_QUEUED:
            self.dropped += 1
        else:
            self.outbox.put(message)

    def fail(self, error: EntityError) -> None:
        """End the stream with an error."""
        self.outbox.put(error)

    def close(self) -> None:
        """End the stream."""
        self.outbox.put(None)


@dataclass(slots=True, eq=False)
class Role:
    """One role: its live clients, and what the server remembers of it for as long as it runs."""

    name: str
    scope: Scope = FULL
    config: p4r.Role = field(default_factory=p4r.Role)
    highest: int | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def primary(self) -> Client | None:
        """The client that may write, if there is one."""
        if self.highest is None:
            return None
        return next((c for c in self.clients if c.election_id == self.highest), None)


class Arbitration:
    """The live clients of one device. Not thread-safe: callers serialise calls."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles = {"": Role("")}

    @property
    def clients(self) -> tuple[Client, ...]:
        """All live clients."""
        return tuple(client for role in self._roles.values() for client in role.clients)

    @property
    def roles(self) -> tuple[Role, ...]:
        """All roles that a client has ever had."""
        return tuple(self._roles.values())

    def role(self, name: str) -> Role:
        """Return the role called `name` ("": the default one). Raises EntityError NOT_FOUND."""
        role = self._roles.get(name)
        if role is None:
            raise EntityError(
                Code.NOT_FOUND,
                f"there is no role {name!r}: arbitrate for it on the stream channel first",
            )
        return role

    def update(self, client: Client, message: p4r.MasterArbitrationUpdate) -> None:
        """Take a client's arbitration message and tell those concerned.

        Raises EntityError with the code that ends the client's stream.
        """
        role, scope = self._check(client, message)
        election_id = None
        if message.HasField("election_id"):
            election_id = (message.election_id.high << 64) | message.election_id.low
        if election_id is not None and any(
            other is not client and other.election_id == election_id for other in role.clients
        ):
            raise EntityError(
                Code.INVALID_ARGUMENT, f"election id {election_id} is used by another controller"
            )
        if client.role is None:
            if len(self.clients) >= MAX_CLIENTS:
                raise EntityError(
                    Code.RESOURCE_EXHAUSTED, f"{MAX_CLIENTS} controllers are connected already"
                )
            self._roles[role.name] = role
            role.clients.append(client)
        before, was_config = role.primary, role.config
        client.role = role
        client.election_id = election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            role.scope = scope
            role.config = p4r.Role()
            role.config.CopyFrom(message.role)
        if before is not role.primary or role.config != was_config:
            self._tell(role, [c for c in role.clients if c is not role.primary])
            if role.primary is not None:
                self._tell(role, [role.primary])
        elif role.primary is client:
            self._tell(role, role.clients)
        else:
            self._tell(role, [client])

    def _check(self, client: Client, message: p4r.MasterArbitrationUpdate) -> tuple[Role, Scope]:
        if message.device_id != self.device_id:
            raise EntityError(
                Code.NOT_FOUND if client.role is None else Code.FAILED_PRECONDITION,
                f"there is no device {message.device_id}; this is device {self.device_id}",
            )
        if message.role.id and not message.role.name:
            raise EntityError(
                Code.UNIMPLEMENTED, f"role {message.role.id}: roles have names, not numbers"
            )
        name = message.role.name
        if client.role is not None and client.role.name != name:
            raise EntityError(
                Code.FAILED_PRECONDITION,
                f"this stream has role {client.role.name!r}: open another one for role {name!r}",
            )
        scope = scope_of(message.role)
        for other in self._roles.values():
            if other.name == name or not other.clients:
                continue
            both = (scope.exclusive & (other.scope.ids or frozenset())) | (
                other.scope.exclusive & (scope.ids or frozenset())
            )
            if both:
                raise EntityError(
                    Code.INVALID_ARGUMENT,
                    f"role {name!r}: ids {', '.join(map(str, sorted(both)))} can't be exclusive, "
                    f"role {other.name!r} has them too",
                )
        return self._roles.get(name) or Role(name), scope

    def remove(self, client: Client) -> None:
        """Remove a client whose stream ended."""
        role = client.role
        if role is None or client not in role.clients:
            return
        was_primary = client is role.primary
        role.clients.remove(client)
        if was_primary:
            self._tell(role, role.clients)

    def may_write(self, role: Role, election_id: p4r.Uint128 | None) -> bool:
        """Return whether a unary call with this election id (None: unset) comes from the role's
        primary.

        As with BMv2, calls without an election id pass while no controller is connected.
        """
        if election_id is None:
            return not self.clients
        value = (election_id.high << 64) | election_id.low
        return role.primary is not None and value == role.highest

    def _tell(self, role: Role, clients: list[Client]) -> None:
        primary = role.primary
        for client in clients:
            update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
            if role.name:
                update.role.CopyFrom(role.config)
                update.role.name = role.name
            if role.highest is not None:
                update.election_id.high = role.highest >> 64
                update.election_id.low = role.highest & 0xFFFF_FFFF_FFFF_FFFF
            if client is primary:
                status = rpc_status.Status(code=Code.OK, message="you are the primary")
            elif primary is not None:
                status = rpc_status.Status(
                    code=Code.ALREADY_EXISTS, message="you are a backup; there is a primary"
                )
            else:
                status = rpc_status.Status(
                    code=Code.NOT_FOUND, message="you are a backup; there is no primary"
                )
            update.status.CopyFrom(status)
            client.outbox.put(p4r.StreamMessageResponse(arbitration=update))
