"""P4Runtime's calls on one device, without gRPC: what to do, and who may.

All methods may be called from any thread. Errors are EntityErrors (one code and message) or
WriteError and ReadError (a status per entity); the server turns them into gRPC's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from softswitch.device import Device
from softswitch.p4runtime.arbitration import Arbitration, Client, Role
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.roles import Scope, object_id, visible
from softswitch.p4runtime.status import (
    Code,
    EntityError,
    PipelineError,
    ReadError,
    UpdateStatus,
    WriteError,
)

API_VERSION = "1.4.1"


MOST_SAVED_BYTES = 64 << 20
"""Most bytes of updates to a config that was saved and not committed."""

UPDATE_BYTES = 64
"""What an update takes beside its own bytes."""


@dataclass(slots=True)
class _Saved:
    """A config that was saved and not committed: `draft` takes reads and writes meanwhile.

    `updates` are those that it took, serialized, to be written once more after the commit.
    """

    pipeline: Pipeline
    config: p4r.ForwardingPipelineConfig
    draft: Device
    updates: list[bytes] = field(default_factory=list)
    size: int = 0

    def check_room(self, request: p4r.WriteRequest) -> None:
        """Raise RESOURCE_EXHAUSTED when the updates of a request would be too many to keep."""
        if self.size + _kept_bytes(request.updates) > MOST_SAVED_BYTES:
            raise EntityError(
                Code.RESOURCE_EXHAUSTED,
                f"{len(self.updates)} updates wait for the saved config: COMMIT it first",
            )

    def keep(self, updates: Sequence[p4r.Update]) -> None:
        """Keep updates that the draft took."""
        self.size += _kept_bytes(updates)
        self.updates += [update.SerializeToString() for update in updates]


class P4RuntimeService:
    """One device's P4Runtime. `packet_out` injects bytes at the CPU port; `make_draft` makes a
    device without ports, on which a saved config can be tried."""

    def __init__(
        self,
        device: Device,
        device_id: int,
        *,
        packet_out: Callable[[bytes], None],
        make_draft: Callable[[], Device],
    ) -> None:
        self.device_id = device_id
        self._device = device
        self._packet_out = packet_out
        self._make_draft = make_draft
        self._arbitration = Arbitration(device_id)
        self._config: p4r.ForwardingPipelineConfig | None = None
        self._saved: _Saved | None = None
        self._lock = threading.RLock()

    # --- pipeline -----------------------------------------------------------------------------

    def set_config(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Serve SetForwardingPipelineConfig.

        Building takes its time; all else goes on meanwhile.
        """
        with self._lock:
            self._check_config_call(request)
        kinds = p4r.SetForwardingPipelineConfigRequest
        building = (
            kinds.VERIFY,
            kinds.VERIFY_AND_SAVE,
            kinds.VERIFY_AND_COMMIT,
            kinds.RECONCILE_AND_COMMIT,
        )
        prepared = self._prepare(request) if request.action in building else None
        with self._lock:
            self._check_config_call(request)
            match request.action:
                case kinds.VERIFY:
                    return
                case kinds.VERIFY_AND_SAVE if prepared is not None:
                    self._save(prepared, request.config)
                case kinds.VERIFY_AND_COMMIT if prepared is not None:
                    self._commit(prepared, request.config)
                case kinds.COMMIT:
                    self._commit_saved(request)
                case kinds.RECONCILE_AND_COMMIT if prepared is not None:
                    self._reconcile(prepared, request.config)
                case _:
                    raise EntityError(Code.INVALID_ARGUMENT, "the action is not set")

    def set_local_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Load a config given on the command line. Raises PipelineError."""
        with self._lock:
            self._commit(self._device.prepare(config.p4info, config.p4_device_config), config)

    def get_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.ForwardingPipelineConfig | None:
        """Serve GetForwardingPipelineConfig; None when none is set."""
        with self._lock:
            self._check_device(request.device_id)
            config = self._saved.config if self._saved is not None else self._config
        if config is None:
            return None
        answer = p4r.ForwardingPipelineConfig()
        kinds = p4r.GetForwardingPipelineConfigRequest
        match request.response_type:
            case kinds.ALL:
                answer.CopyFrom(config)
                return answer
            case kinds.P4INFO_AND_COOKIE:
                answer.p4info.CopyFrom(config.p4info)
            case kinds.DEVICE_CONFIG_AND_COOKIE:
                answer.p4_device_config = config.p4_device_config
            case kinds.COOKIE_ONLY:
                pass
            case other:
                raise EntityError(Code.INVALID_ARGUMENT, f"unknown response type {other}")
        if config.HasField("cookie"):
            answer.cookie.CopyFrom(config.cookie)
        return answer

    def _prepare(self, request: p4r.SetForwardingPipelineConfigRequest) -> Pipeline:
        config = request.config
        if not request.HasField("config") or not config.HasField("p4info"):
            raise EntityError(
                Code.INVALID_ARGUMENT, "the config needs both p4info and p4_device_config"
            )
        try:
            prepared = self._device.prepare(config.p4info, config.p4_device_config)
            self._try(prepared).core.close()
        except PipelineError as error:
            raise EntityError(Code.INVALID_ARGUMENT, str(error)) from error
        return prepared

    def _try(self, prepared: Pipeline) -> Device:
        """Return a draft device that runs `prepared`.

        Raises PipelineError for what only loading shows.
        """
        draft = self._make_draft()
        try:
            draft.load(prepared)
        except PipelineError:
            draft.core.close()
            raise
        return draft

    def _commit(self, prepared: Pipeline, config: p4r.ForwardingPipelineConfig) -> None:
        try:
            self._device.load(prepared)
        except PipelineError as error:
            raise EntityError(Code.INVALID_ARGUMENT, str(error)) from error
        self._config = _copy(config)
        self._forget_saved()

    def _save(self, prepared: Pipeline, config: p4r.ForwardingPipelineConfig) -> None:
        self._forget_saved()
        self._saved = _Saved(prepared, _copy(config), self._try(prepared))

    def _forget_saved(self) -> None:
        if self._saved is not None:
            self._saved.draft.core.close()
            self._saved = None

    def _commit_saved(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        if request.HasField("config"):
            raise EntityError(Code.INVALID_ARGUMENT, "COMMIT takes no config")
        saved = self._saved
        if saved is None:
            raise EntityError(Code.NOT_FOUND, "no config is saved: VERIFY_AND_SAVE one first")
        updates = saved.updates
        self._commit(saved.pipeline, saved.config)
        self._device.write([p4r.Update.FromString(update) for update in updates])

    def _reconcile(self, prepared: Pipeline, config: p4r.ForwardingPipelineConfig) -> None:
        current = self._config
        if (
            current is None
            or current.p4_device_config != config.p4_device_config
            or current.p4info != config.p4info
        ):
            try:
                self._device.reconcile(prepared)
            except PipelineError as error:
                raise EntityError(Code.INVALID_ARGUMENT, str(error)) from error
        self._config = _copy(config)
        self._forget_saved()

    # --- entities -----------------------------------------------------------------------------

    def write(self, request: p4r.WriteRequest) -> None:
        """Write. Raises WriteError when updates failed, EntityError for the whole call."""
        with self._lock:
            self._check_device(request.device_id)
            role = self._arbitration.role(request.role)
            self._check_primary(
                role, request.election_id if request.HasField("election_id") else None
            )
            device = self._target()
            if request.atomicity not in p4r.WriteRequest.Atomicity.values():
                raise EntityError(
                    Code.INVALID_ARGUMENT, f"there is no atomicity {request.atomicity}"
                )
            saved = self._saved
            if saved is not None:
                saved.check_room(request)
            statuses = _write(device, request, role.scope)
            if saved is not None:
                pairs = zip(request.updates, statuses, strict=True)
                saved.keep([update for update, status in pairs if status.code is Code.OK])
        if any(status.code is not Code.OK for status in statuses):
            raise WriteError(statuses)

    def read(self, request: p4r.ReadRequest) -> tuple[list[p4r.Entity], ReadError | None]:
        """Read: all entities found, of one moment, and what went wrong with others.

        With a role, only what is in its scope.
        """
        found: list[p4r.Entity] = []
        failed = None
        with self._lock:
            self._check_device(request.device_id)
            scope = self._arbitration.role(request.role).scope
            device = self._target()
            try:
                for entity in device.read(request.entities):
                    found.append(entity)
            except ReadError as error:
                failed = error
        if scope.ids is not None:
            found = [entity for entity in found if scope.has(object_id(entity))]
        return found, failed

    def capabilities(self, request: p4r.CapabilitiesRequest) -> p4r.CapabilitiesResponse:
        """Serve Capabilities: the version of P4Runtime."""
        if request.device_id:
            self._check_device(request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def _target(self) -> Device:
        device = self._saved.draft if self._saved is not None else self._device
        if device.forwarding is None:
            raise EntityError(
                Code.FAILED_PRECONDITION,
                "no forwarding pipeline config is set: call SetForwardingPipelineConfig first",
            )
        return device

    # --- stream -------------------------------------------------------------------------------

    def stream_message(self, client: Client, message: p4r.StreamMessageRequest) -> None:
        """Handle one message of a controller's stream. Raises EntityError to end the stream."""
        with self._lock:
            kind = message.WhichOneof("update")
            if kind == "arbitration":
                self._arbitration.update(client, message.arbitration)
                return
            try:
                role = client.role
                if role is None or client is not role.primary:
                    raise EntityError(Code.PERMISSION_DENIED, "you are not the primary controller")
                match kind:
                    case "packet":
                        self._packet_out(self._device.packet_out(message.packet))
                    case "digest_ack":
                        if not role.scope.has(message.digest_ack.digest_id):
                            raise _not_in_scope(role.name, message.digest_ack.digest_id)
                        self._device.acknowledge(message.digest_ack)
                    case _:
                        raise EntityError(Code.INVALID_ARGUMENT, "unknown stream message")
            except EntityError as error:
                client.send(_stream_error(message, error))

    def stream_closed(self, client: Client) -> None:
        """Forget a controller whose stream ended."""
        with self._lock:
            self._arbitration.remove(client)

    def notify(self, message: p4r.StreamMessageResponse) -> bool:
        """Send a packet-in, digest or idle notice to the primary of each role in whose scope it is.

        False if there is none.
        """
        sent = False
        with self._lock:
            for role in self._arbitration.roles:
                part = visible(role.scope, message) if role.primary is not None else None
                if part is not None and role.primary is not None:
                    role.primary.send(part)
                    sent = True
        return sent

    def close_streams(self) -> None:
        """End all streams, for a shutdown."""
        with self._lock:
            for client in self._arbitration.clients:
                client.close()

    @property
    def lock(self) -> threading.RLock:
        """Held around every use of the device; drivers hold it around theirs."""
        return self._lock

    # --- checks -------------------------------------------------------------------------------

    def _check_device(self, device_id: int) -> None:
        if device_id != self.device_id:
            raise EntityError(
                Code.NOT_FOUND, f"there is no device {device_id}; this is device {self.device_id}"
            )

    def _check_config_call(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        self._check_device(request.device_id)
        role = self._arbitration.role(request.role)
        self._check_primary(role, request.election_id if request.HasField("election_id") else None)
        if not role.scope.may_push_pipeline:
            raise EntityError(Code.PERMISSION_DENIED, f"role {role.name!r} may not push a pipeline")

    def _check_primary(self, role: Role, election_id: p4r.Uint128 | None) -> None:
        if not self._arbitration.may_write(role, election_id):
            raise EntityError(
                Code.PERMISSION_DENIED,
                "you are not the primary controller: arbitrate on the stream channel with the "
                "highest election id, and use that id here",
            )


def _kept_bytes(updates: Iterable[p4r.Update]) -> int:
    return sum(update.ByteSize() + UPDATE_BYTES for update in updates)


def _write(device: Device, request: p4r.WriteRequest, scope: Scope) -> list[UpdateStatus]:
    """Return the statuses of a batch, including those of updates outside the role's scope."""
    if scope.ids is None:
        return device.write(request.updates, request.atomicity)
    denied: dict[int, UpdateStatus] = {}
    for index, update in enumerate(request.updates):
        number = object_id(update.entity)
        if not scope.has(number):
            denied[index] = _not_in_scope(request.role, number).status
    if not denied:
        return device.write(request.updates, request.atomicity)
    if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
        other = UpdateStatus(Code.ABORTED, "not applied, because other updates are not allowed")
        return [denied.get(index, other) for index in range(len(request.updates))]
    allowed = iter(
        device.write([u for index, u in enumerate(request.updates) if index not in denied])
    )
    return [denied[i] if i in denied else next(allowed) for i in range(len(request.updates))]


def _not_in_scope(role: str, number: int | None) -> EntityError:
    what = "entities without an id in P4Info" if number is None else f"id {number}"
    return EntityError(Code.PERMISSION_DENIED, f"role {role!r} has nothing to do with {what}")


def _copy(config: p4r.ForwardingPipelineConfig) -> p4r.ForwardingPipelineConfig:
    copy = p4r.ForwardingPipelineConfig()
    copy.CopyFrom(config)
    return copy


def _stream_error(
    message: p4r.StreamMessageRequest, error: EntityError
) -> p4r.StreamMessageResponse:
    response = p4r.StreamMessageResponse()
    response.error.canonical_code = error.code
    response.error.message = error.message
    match message.WhichOneof("update"):
        case "packet":
            response.error.packet_out.packet_out.CopyFrom(message.packet)
        case "digest_ack":
            response.error.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
        case _:
            response.error.other.SetInParent()
    return response
