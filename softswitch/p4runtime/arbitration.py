"""Who may write: arbitration among connected controllers (specification, "Arbitration").

One device and one role (the default one, which may do everything). The primary is the client whose
election id is the highest that was ever seen; there may be none.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, field

from softswitch.p4runtime.protos import p4r, rpc_status
from softswitch.p4runtime.status import Code, EntityError

MAX_CLIENTS = 16
"""Open streams at a time, as many as BMv2's server takes."""

MAX_QUEUED = 4096
"""Stream messages that wait for a slow client before packet-ins and digests are dropped."""


@dataclass(slots=True, eq=False)
class Client:
    """One open stream. `outbox` holds what is to be sent; None ends the stream."""

    outbox: queue.SimpleQueue[p4r.StreamMessageResponse | EntityError | None] = field(
        default_factory=queue.SimpleQueue
    )
    arbitrated: bool = False
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


class Arbitration:
    """The live clients of one device. Not thread-safe: callers serialise calls."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._clients: list[Client] = []
        self._highest: int | None = None

    @property
    def primary(self) -> Client | None:
        """The client that may write, if there is one."""
        if self._highest is None:
            return None
        return next((c for c in self._clients if c.election_id == self._highest), None)

    @property
    def clients(self) -> tuple[Client, ...]:
        """All live clients."""
        return tuple(self._clients)

    def update(self, client: Client, message: p4r.MasterArbitrationUpdate) -> None:
        """Take a client's arbitration message and tell those concerned.

        Raises EntityError with the code that ends the client's stream.
        """
        if message.device_id != self.device_id:
            raise EntityError(
                Code.FAILED_PRECONDITION if client.arbitrated else Code.NOT_FOUND,
                f"there is no device {message.device_id}; this is device {self.device_id}",
            )
        if message.HasField("role") and (message.role.name or message.role.id):
            raise EntityError(
                Code.UNIMPLEMENTED,
                f"role {message.role.name or message.role.id!r}: roles are not supported, leave "
                "the role unset",
            )
        election_id = None
        if message.HasField("election_id"):
            election_id = (message.election_id.high << 64) | message.election_id.low
        if election_id is not None and any(
            other is not client and other.election_id == election_id for other in self._clients
        ):
            raise EntityError(
                Code.INVALID_ARGUMENT, f"election id {election_id} is used by another controller"
            )
        if not client.arbitrated:
            if len(self._clients) >= MAX_CLIENTS:
                raise EntityError(
                    Code.RESOURCE_EXHAUSTED, f"{MAX_CLIENTS} controllers are connected already"
                )
            self._clients.append(client)
        before = self.primary
        client.arbitrated = True
        client.election_id = election_id
        if election_id is not None and (self._highest is None or election_id >= self._highest):
            self._highest = election_id
        if before is not self.primary:
            others = [c for c in self._clients if c is not self.primary]
            self._tell(others)
            if self.primary is not None:
                self._tell([self.primary])
        elif self.primary is client:
            self._tell(self._clients)
        else:
            self._tell([client])

    def remove(self, client: Client) -> None:
        """A stream ended."""
        if client not in self._clients:
            return
        was_primary = client is self.primary
        self._clients.remove(client)
        if was_primary:
            self._tell(self._clients)

    def may_write(self, election_id: p4r.Uint128 | None) -> bool:
        """Whether a unary call with this election id (None: unset) comes from the primary.

        As with BMv2, calls without an election id pass while no controller is connected.
        """
        if election_id is None:
            return not self._clients
        value = (election_id.high << 64) | election_id.low
        return self.primary is not None and value == self._highest

    def _tell(self, clients: list[Client]) -> None:
        primary = self.primary
        for client in clients:
            update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
            if self._highest is not None:
                update.election_id.high = self._highest >> 64
                update.election_id.low = self._highest & 0xFFFF_FFFF_FFFF_FFFF
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
