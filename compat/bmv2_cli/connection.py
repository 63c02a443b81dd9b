"""A P4Runtime session beside the controller's: what `weft cli` writes and reads through.

On our own switch it has a role of its own, so that the controller stays primary. A switch without
roles (BMv2) lets one client write: there it takes the default role, with the election id given.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc

from softswitch.client_tls import ClientTls, channel
from softswitch.p4runtime.device_config import bmv2_json
from softswitch.p4runtime.protos import p4r, rpc_code, rpc_status

ROLE = "weft-cli"
TIMEOUT_S = 10.0
BUILD_S = 120.0
"""Longest wait for a switch that builds a program."""

BATCH = 256
"""Updates in one request: their outcomes are reported together."""

_SERVICE = "/p4.v1.P4Runtime/"


class ConnectionFailedError(Exception):
    """The switch does not answer, or does not let this client in; the message says why."""


class RefusedError(Exception):
    """The switch refused a request. `code` is gRPC's name of it, such as "ALREADY_EXISTS".

    `each`: what became of each update of a write, None for those that were done; empty where the
    whole request was refused.
    """

    def __init__(self, code: str, message: str, each: Sequence[RefusedError | None] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.each = each


class Connection:
    """One session. A context manager: it ends the session."""

    def __init__(
        self,
        address: str,
        device_id: int,
        *,
        election_id: int | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        """Connect to HOST:PORT. Without `election_id`, a role beside the controller is tried.

        Raises ConnectionFailedError.
        """
        self.address = address
        self.device_id = device_id
        self._election_id = election_id
        self._role = "" if election_id is not None else ROLE
        self._channel = channel(address, tls)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream: Any = None
        try:
            grpc.channel_ready_future(self._channel).result(timeout=TIMEOUT_S)
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise ConnectionFailedError(f"no switch answers on {address}") from None
        try:
            self._begin()
        except ConnectionFailedError:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._requests.put(None)
        if self._stream is not None:
            self._stream.cancel()
        self._channel.close()
        # While Python ends, the stream's own end would wait for a lock that a thread of gRPC's
        # may have died with: so it goes now.
        self._stream = None

    def config(self) -> p4r.ForwardingPipelineConfig:
        """Return the program's P4Info and, where the switch returns it, its JSON.

        Raises RefusedError when there is none.
        """
        kinds = p4r.GetForwardingPipelineConfigRequest
        answer = self._config(kinds.ALL)
        if not answer.HasField("p4info"):
            answer = self._config(kinds.P4INFO_AND_COOKIE)
        if not answer.HasField("p4info"):
            raise RefusedError(
                "FAILED_PRECONDITION",
                f"the switch on {self.address} has no program with P4Info: load one through "
                "P4Runtime first",
            )
        answer.p4_device_config = bmv2_json(answer.p4_device_config)
        return answer

    def set_config(self, action: int, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        """Give the switch a program. Raises RefusedError."""
        try:
            self._set_config_once(action, config)
        except RefusedError as error:
            if error.code != "PERMISSION_DENIED" or not self._role:
                raise
            self._begin()
            self._set_config_once(action, config)

    def _set_config_once(self, action: int, config: p4r.ForwardingPipelineConfig | None) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, role=self._role, election_id=self._election(), config=config
        )
        request.action = action  # type: ignore[assignment]  # the enum's numbers are plain ones
        answer = p4r.SetForwardingPipelineConfigResponse
        self._unary("SetForwardingPipelineConfig", request, answer, BUILD_S)

    def _config(self, kind: int) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id)
        request.response_type = kind  # type: ignore[assignment]  # likewise
        answer = self._unary(
            "GetForwardingPipelineConfig", request, p4r.GetForwardingPipelineConfigResponse
        )
        config: p4r.ForwardingPipelineConfig = answer.config
        return config

    def read(self, **entity: Any) -> Iterator[p4r.Entity]:
        """Read one kind of entity: `read(table_entry=...)`. Raises RefusedError."""
        request = p4r.ReadRequest(device_id=self.device_id, role=self._role)
        request.entities.append(p4r.Entity(**entity))
        call = self._channel.unary_stream(
            f"{_SERVICE}Read",
            request_serializer=p4r.ReadRequest.SerializeToString,
            response_deserializer=p4r.ReadResponse.FromString,
        )
        try:
            for answer in call(request, timeout=TIMEOUT_S):
                yield from answer.entities
        except grpc.RpcError as error:
            raise _refused(error) from None

    def insert(self, **entity: Any) -> None:
        """Write one new entity. Raises RefusedError."""
        self._write([p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(**entity))])

    def modify(self, **entity: Any) -> None:
        """Change one entity. Raises RefusedError."""
        self._write([p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(**entity))])

    def delete(self, **entity: Any) -> None:
        """Remove one entity. Raises RefusedError."""
        self._write([p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(**entity))])

    def insert_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Write new entities in order; a refused one does not stop the next.

        Returns why each was refused, None for those that are written.
        """
        return self._write_each(p4r.Update.INSERT, entities)

    def modify_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Change entities, as `insert_each` does."""
        return self._write_each(p4r.Update.MODIFY, entities)

    def delete_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Remove entities, as `insert_each` does."""
        return self._write_each(p4r.Update.DELETE, entities)

    def _write_each(
        self, kind: p4r.Update.Type.ValueType, entities: Iterable[p4r.Entity]
    ) -> list[RefusedError | None]:
        updates = [p4r.Update(type=kind, entity=each) for each in entities]
        told: list[RefusedError | None] = []
        for start in range(0, len(updates), BATCH):
            batch = updates[start : start + BATCH]
            try:
                self._write(batch)
            except RefusedError as error:
                told += error.each if len(error.each) == len(batch) else [error] * len(batch)
            else:
                told += [None] * len(batch)
        return told

    def _write(self, updates: Sequence[p4r.Update]) -> None:
        try:
            self._write_once(updates)
        except RefusedError as error:
            if error.code != "PERMISSION_DENIED" or error.each or not self._role:
                raise
            # Another `weft cli` has started since: the last writer is primary of the role.
            self._begin()
            self._write_once(updates)

    def _write_once(self, updates: Sequence[p4r.Update]) -> None:
        request = p4r.WriteRequest(device_id=self.device_id, role=self._role, updates=updates)
        request.election_id.CopyFrom(self._election())
        self._unary("Write", request, p4r.WriteResponse)

    def _election(self) -> p4r.Uint128:
        return p4r.Uint128(high=0, low=self._election_id or 0)

    def _begin(self) -> None:
        """Become primary, of the own role where the switch has roles."""
        failure = self._arbitrate()
        if failure and self._role:
            self._role, self._election_id = "", 1
            failure = self._arbitrate()
        if failure:
            raise ConnectionFailedError(
                f"the switch on {self.address} accepts no writes: {failure}"
            )

    def _arbitrate(self) -> str:
        """Open a stream and say who this is; return what is wrong, or ""."""
        self._requests.put(None)
        self._requests = queue.SimpleQueue()
        if self._role:
            self._election_id = time.time_ns()  # more than any `weft cli` before
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.CopyFrom(self._election())
        if self._role:
            request.arbitration.role.name = self._role
        self._requests.put(request)
        call = self._channel.stream_stream(
            f"{_SERVICE}StreamChannel",
            request_serializer=p4r.StreamMessageRequest.SerializeToString,
            response_deserializer=p4r.StreamMessageResponse.FromString,
        )
        self._stream = call(iter(self._requests.get, None))
        try:
            for answer in self._stream:
                if answer.HasField("arbitration"):
                    status = answer.arbitration.status
                    if status.code == rpc_code.OK:
                        return ""
                    taken = answer.arbitration.election_id.low
                    return (
                        f"another controller is primary, with election id {taken}; "
                        "--election-id takes a higher one"
                    )
        except grpc.RpcError as error:
            return str(_refused(error))
        return "the stream ended"

    def _unary(self, method: str, request: Any, answer: Any, timeout_s: float = TIMEOUT_S) -> Any:
        function: Callable[..., Any] = self._channel.unary_unary(
            f"{_SERVICE}{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            return function(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise _refused(error) from None


def _refused(error: grpc.RpcError) -> RefusedError:
    """Return the switch's error: that of an update where it reports one, else the request's."""
    code, text = error.code().name, str(error.details() or "")
    each: list[RefusedError | None] = []
    for key, data in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in rpc_status.Status.FromString(data).details:
                one = p4r.Error()
                if detail.Unpack(one):
                    name = rpc_code.Code.Name(one.canonical_code)
                    done = one.canonical_code == rpc_code.OK
                    each.append(None if done else RefusedError(name, one.message or name))
    first = next((one for one in each if one is not None), None)
    if first is None:
        return RefusedError(code, text or code)
    return RefusedError(first.code, str(first), each)
