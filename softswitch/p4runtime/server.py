"""The gRPC server of p4.v1.P4Runtime: threads, streams and status codes around the service."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from softswitch.options import UNIX, Tls
from softswitch.p4runtime.arbitration import MAX_CLIENTS, Client
from softswitch.p4runtime.calls import Unreadable, abort, abort_batch, answers, readable, reader
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.status import Code, EntityError

LOG = logging.getLogger("softswitch")
T = TypeVar("T")

SERVICE = "p4.v1.P4Runtime"

ENTITIES_PER_RESPONSE = 256
"""Entities in one message of a Read's answer; keeps messages far below 4 MiB."""

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest request, as BMv2's server: device configs are larger than gRPC's default of 4 MiB."""

WORKERS = 2 * MAX_CLIENTS
"""Threads: one for each open stream and as many for other calls."""


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
        self._server.add_generic_rpc_handlers((_Servicer(service).handler(), *beside))
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


class _Servicer:
    def __init__(self, service: P4RuntimeService) -> None:
        self._service = service

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler with which a gRPC server serves P4Runtime."""
        requests = {
            self.Write: p4r.WriteRequest,
            self.SetForwardingPipelineConfig: p4r.SetForwardingPipelineConfigRequest,
            self.GetForwardingPipelineConfig: p4r.GetForwardingPipelineConfigRequest,
            self.Capabilities: p4r.CapabilitiesRequest,
        }
        handlers = {
            call.__name__: grpc.unary_unary_rpc_method_handler(
                readable(call), reader(request), _bytes
            )
            for call, request in requests.items()
        }
        handlers["Read"] = grpc.unary_stream_rpc_method_handler(
            readable(self.Read), reader(p4r.ReadRequest), _bytes
        )
        handlers["StreamChannel"] = grpc.stream_stream_rpc_method_handler(
            self.StreamChannel, reader(p4r.StreamMessageRequest), _bytes
        )
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def Write(self, request: p4r.WriteRequest, context: grpc.ServicerContext) -> p4r.WriteResponse:
        with answers(context, "Write"):
            self._service.write(request)
        return p4r.WriteResponse()

    def Read(
        self, request: p4r.ReadRequest, context: grpc.ServicerContext
    ) -> Iterator[p4r.ReadResponse]:
        with answers(context, "Read"):
            entities, error = self._service.read(request)
        for start in range(0, len(entities), ENTITIES_PER_RESPONSE):
            yield p4r.ReadResponse(entities=entities[start : start + ENTITIES_PER_RESPONSE])
        if error is not None:
            abort_batch(context, error)

    def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        with answers(context, "SetForwardingPipelineConfig"):
            self._service.set_config(request)
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        with answers(context, "GetForwardingPipelineConfig"):
            config = self._service.get_config(request)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: grpc.ServicerContext
    ) -> p4r.CapabilitiesResponse:
        with answers(context, "Capabilities"):
            return self._service.capabilities(request)

    def StreamChannel(
        self,
        request_iterator: Iterator[p4r.StreamMessageRequest | Unreadable],
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
                    abort(context, message)
                yield message
        finally:
            self._service.stream_closed(client)

    def _receive(
        self, client: Client, requests: Iterator[p4r.StreamMessageRequest | Unreadable]
    ) -> None:
        try:
            while (request := _next(requests)) is not None:
                if isinstance(request, Unreadable):
                    raise request.error
                self._service.stream_message(client, request)
        except EntityError as error:
            client.fail(error)
        except Exception as error:
            LOG.exception("P4Runtime's stream failed in a way that it must not")
            client.fail(EntityError(Code.INTERNAL, f"a failure inside of the switch: {error!r}"))
        finally:
            client.close()


def _bytes(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _next(requests: Iterator[T]) -> T | None:
    """Return the next request of a stream; None when it is over or cancelled."""
    try:
        return next(requests, None)
    except Exception:  # what gRPC's iterator raises on cancel is of no class of its own
        return None


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    """Return the credentials in the files of `tls`.

    The files are tried here first: gRPC does not report what is wrong with them.
    """
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
