"""A P4Runtime client that does one thing at a time: what parity runs need of a controller."""

from __future__ import annotations

import importlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

# Switches are started while a client is open; gRPC would comment on each fork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

from compat.parity.targets import TargetError
from softswitch.p4runtime import protos
from softswitch.p4runtime.protos import p4i, p4r

_p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")

CALL_S = 30.0
DEVICE_ID = 1


class Client:
    """The primary controller of a switch; the switch's messages wait in `incoming`.

    `ready` is a file descriptor that can be read when something waits.
    """

    def __init__(self, address: str) -> None:
        """Connect. Raises TargetError when the switch does not answer."""
        self._channel = grpc.insecure_channel(address)
        try:
            grpc.channel_ready_future(self._channel).result(CALL_S)
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise TargetError(f"no P4Runtime server answers at {address}") from None
        self._stub = _p4r_grpc.P4RuntimeStub(self._channel)
        self._outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[p4r.StreamMessageResponse] = queue.SimpleQueue()
        self.ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stream = self._stub.StreamChannel(iter(self._outgoing.get, None))
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID)
        arbitration.election_id.low = 1
        self._outgoing.put(p4r.StreamMessageRequest(arbitration=arbitration))
        try:
            next(self._stream)
        except (grpc.RpcError, StopIteration) as error:
            self.close()
            raise TargetError(f"{address} refuses a controller: {_text(error)}") from error
        self._reader = threading.Thread(target=self._receive, daemon=True)
        self._reader.start()

    def set_pipeline(self, p4info: p4i.P4Info, json: bytes) -> None:
        """Load a program; all that was there is forgotten. Raises TargetError."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.election_id.low = 1
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = json
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=CALL_S)
        except grpc.RpcError as error:
            raise TargetError(f"the program is refused: {_text(error)}") from error

    def write(self, update: p4r.Update) -> str:
        """Write one update; return why it was refused, "" when it was not."""
        request = p4r.WriteRequest(device_id=DEVICE_ID, updates=[update])
        request.election_id.low = 1
        try:
            self._stub.Write(request, timeout=CALL_S)
        except grpc.RpcError as error:
            return _text(error)
        return ""

    def read(self, entities: Sequence[p4r.Entity]) -> list[p4r.Entity]:
        """Read all that `entities` select. Raises TargetError."""
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=entities)
        try:
            return [
                found
                for response in self._stub.Read(request, timeout=CALL_S)
                for found in response.entities
            ]
        except grpc.RpcError as error:
            raise TargetError(f"reading counters: {_text(error)}") from error

    def send(self, message: p4r.StreamMessageRequest) -> None:
        """Send a packet-out or the acknowledgement of a digest."""
        self._outgoing.put(message)

    def incoming(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield the messages that have arrived, without waiting for more."""
        try:
            os.eventfd_read(self.ready)
        except BlockingIOError:
            return
        while True:
            try:
                yield self._incoming.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """Leave."""
        self._outgoing.put(None)
        self._channel.close()

    def _receive(self) -> None:
        try:
            for message in self._stream:
                self._incoming.put(message)
                os.eventfd_write(self.ready, 1)
        except grpc.RpcError:
            return  # the switch or this client has ended


def _text(error: BaseException) -> str:
    """Return one line of the server's message; a failed write's reasons are in its details."""
    if not isinstance(error, grpc.RpcError):
        return str(error) or type(error).__name__
    for key, value in getattr(error, "trailing_metadata", lambda: ())() or ():
        if key == "grpc-status-details-bin":
            status = protos.rpc_status.Status.FromString(value)
            for detail in status.details:
                found = p4r.Error()
                if detail.Unpack(found) and found.canonical_code:
                    return f"{found.message or 'refused'} (code {found.canonical_code})"
    return f"{error.code().name}: {error.details()}"
