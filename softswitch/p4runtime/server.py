"""The gRPC server of p4.v1.P4Runtime: threads, streams and status codes around the service."""

from __future__ import annotations

import importlib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import grpc

from softswitch.options import UNIX, Tls
from softswitch.p4runtime import protos
from softswitch.p4runtime.arbitration import MAX_CLIENTS, Client
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.reconcile import ReconcileError
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.status import (
    EntityError,
    ReadError,
    WriteError,
    batch_status,
    refusal_status,
)

if TYPE_CHECKING:
    from finsy.proto import p4r_grpc
else:
    p4r_grpc = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")

ENTITIES_PER_RESPONSE = 256
"""Entities in one message of a Read's answer; keeps messages far below 4 MiB."""

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest request, as BMv2's server: device configs are larger than gRPC's default of 4 MiB."""

WORKERS = 2 * MAX_CLIENTS
"""Threads: one for each open stream and as many for other calls."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ServerError(Exception):
    """The server can't be made; the message says why."""


class AddressError(ServerError):
    """The server can't listen; the message says where and why."""


class P4RuntimeServer:
    """Serves one device on one TCP address."""

    def __init__(
        self,
        service: P4RuntimeService,
        address: str,
        beside: Sequence[grpc.GenericRpcHandler] = (),
        tls: Tls | None = None,
        *,
        also: str | None = None,
    ) -> None:
        """`address` is HOST:PORT; port 0 takes a free one. `beside`: other services on the same
        address; `also`: another address with the same services. Without `tls` nothing is encrypted.
        Raises ServerError."""
        self._service = service
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix="p4runtime"),
            options=[
                # Without this two switches could share a port, and calls would go to either.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ],
        )
        p4r_grpc.add_P4RuntimeServicer_to_server(_Servicer(service), self._server)
        self._server.add_generic_rpc_handlers(tuple(beside))
        self.port: int = self._listen(address, tls)
        if also is not None:
            self._listen(also, tls)

    def _listen(self, address: str, tls: Tls | None) -> int:
        _check_address(address)
        try:
            port: int = (
                self._server.add_insecure_port(address)
                if tls is None
                else self._server.add_secure_port(address, _credentials(tls))
            )
        except RuntimeError as error:
            raise AddressError(f"can't listen on {address}: {error}") from error
        return port

    def start(self) -> None:
        """Accept calls."""
        self._server.start()

    def stop(self, grace_s: float = 0.5) -> None:
        """End streams, give running calls `grace_s` seconds, then cancel them."""
        self._service.close_streams()
        self._server.stop(grace_s).wait()


class _Servicer(p4r_grpc.P4RuntimeServicer):
    def __init__(self, service: P4RuntimeService) -> None:
        self._service = service

    def Write(self, request: p4r.WriteRequest, context: grpc.ServicerContext) -> p4r.WriteResponse:
        try:
            self._service.write(request)
        except WriteError as error:
            _abort_batch(context, error)
        except EntityError as error:
            _abort(context, error)
        return p4r.WriteResponse()

    def Read(
        self, request: p4r.ReadRequest, context: grpc.ServicerContext
    ) -> Iterator[p4r.ReadResponse]:
        try:
            entities, error = self._service.read(request)
        except EntityError as refused:
            _abort(context, refused)
        for start in range(0, len(entities), ENTITIES_PER_RESPONSE):
            yield p4r.ReadResponse(entities=entities[start : start + ENTITIES_PER_RESPONSE])
        if error is not None:
            _abort_batch(context, error)

    def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        try:
            self._service.set_config(request)
        except EntityError as error:
            _abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        try:
            config = self._service.get_config(request)
        except EntityError as error:
            _abort(context, error)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: grpc.ServicerContext
    ) -> p4r.CapabilitiesResponse:
        try:
            return self._service.capabilities(request)
        except EntityError as error:
            _abort(context, error)

    def StreamChannel(
        self,
        request_iterator: Iterator[p4r.StreamMessageRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[p4r.StreamMessageResponse]:
        client = Client()
        context.add_callback(client.close)
        reader = threading.Thread(
            target=self._receive, args=(client, request_iterator), name="p4runtime-stream"
        )
        reader.daemon = True
        reader.start()
        try:
            while True:
                message = client.outbox.get()
                if message is None:
                    return
                if isinstance(message, EntityError):
                    _abort(context, message)
                yield message
        finally:
            self._service.stream_closed(client)

    def _receive(self, client: Client, requests: Iterator[p4r.StreamMessageRequest]) -> None:
        try:
            for request in requests:
                self._service.stream_message(client, request)
        except EntityError as error:
            client.fail(error)
        except Exception:  # gRPC's iterator raises a bare Exception on cancel
            pass
        finally:
            client.close()


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    """The files of `tls`, tried by ourselves first: gRPC does not tell what is wrong with them."""
    path = tls.cert
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for path in (tls.cert, tls.key):
            path.read_bytes()
        context.load_cert_chain(tls.cert, tls.key)
        if tls.cacert is not None:
            path = tls.cacert
            context.load_verify_locations(tls.cacert)
    except ssl.SSLError as error:
        what = tls.cacert if path == tls.cacert else f"{tls.cert} with key {tls.key}"
        raise ServerError(f"TLS: {what} can't be used: {error.reason or error}") from error
    except OSError as error:
        raise ServerError(f"TLS: {path}: {error.strerror or error}") from error
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.cert.read_bytes())],
        root_certificates=None if tls.cacert is None else tls.cacert.read_bytes(),
        require_client_auth=tls.client_auth,
    )


def _check_address(address: str) -> None:
    """Bind once by ourselves: gRPC does not tell why it can't. Raises AddressError."""
    if address.startswith(UNIX):
        folder = Path(address.removeprefix(UNIX)).parent
        if not folder.is_dir():
            raise AddressError(f"can't listen on {address}: there is no folder {folder}")
        return
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AddressError(f"can't listen on {address}: {reason}") from error


def _abort(context: grpc.ServicerContext, error: EntityError) -> NoReturn:
    if isinstance(error, ReconcileError):
        status = refusal_status(error.code, error.message, error.statuses)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(_CODES[int(error.code)], error.message)
    raise AssertionError("abort always raises")


def _abort_batch(context: grpc.ServicerContext, error: WriteError | ReadError) -> NoReturn:
    status = batch_status(error.statuses)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, str(error))
    raise AssertionError("abort always raises")
