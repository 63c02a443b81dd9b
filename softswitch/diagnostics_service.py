"""The daemon's end of `weft.switch.v1.Diagnostics` (see `softswitch.diagnostics`).

A method is a function from a JSON object to a JSON object in `_methods`; errors are EntityErrors.
They run in gRPC's threads and take `device_lock` or `loop.locked()` themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn, TypeGuard

import grpc

from softswitch.core import CoreError, DaemonLoop, PortState, Session
from softswitch.device import Device
from softswitch.diagnostics import SERVICE, Json, decode, encode
from softswitch.diagnostics_ledger import Ledger
from softswitch.link_settings import LinkChange, link_row, wire_row
from softswitch.p4runtime.status import Code, EntityError
from softswitch.tracing.filter import FilterError
from softswitch.tracing.hub import Follower, TraceHub
from softswitch.tracing.session import TraceError

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_PORTS = 65536


class DiagnosticsService:
    """Answers for one running switch. `ports` are its interfaces by port number."""

    def __init__(
        self,
        device: Device,
        loop: DaemonLoop,
        device_lock: threading.RLock,
        ports: Mapping[int, str],
        *,
        device_id: int = 0,
    ) -> None:
        self._device = device
        self._loop = loop
        self._lock = device_lock
        self._ports = dict(ports)
        self._device_id = device_id
        self._traces = TraceHub(device, loop, device_lock)
        self._ledger = Ledger(lambda: device.forwarding)
        self._methods: dict[str, Callable[[Json], Json]] = {
            "PortStats": self._port_stats,
            "SwitchStats": self._switch_stats,
            "Queue": self._queue,
            "WatchQueue": self._watch_queue,
            "QueuePeak": self._queue_peak,
            "SetPort": self._set_port,
            "SetLink": self._set_link,
            "AddPort": self._add_port,
            "RemovePort": self._remove_port,
            "SessionZero": self._session_zero,
            "Ledger": self._ledger_rows,
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler to register with a gRPC server."""
        handlers = {name: _unary(method) for name, method in self._methods.items()}
        handlers["Trace"] = grpc.unary_stream_rpc_method_handler(self._trace)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def close(self) -> None:
        """End all traces; before the loop and the device go."""
        self._traces.close()

    # --- counts -------------------------------------------------------------------------------

    def _port_stats(self, _request: Json) -> Json:
        with self._loop.locked():
            at_ns = time.monotonic_ns()  # with the loop standing still: rates are over its time
            ports = {str(port): self._port_row(port) for port in sorted(self._ports)}
        return {"ports": ports, "at_ns": at_ns}

    def _port_row(self, port: int) -> Json:
        core = self._device.core
        state, pause_mask = core.port_state(port)
        sends = self._loop.interface_stats(port)
        return {
            "interface": self._ports.get(port, ""),
            "state": state.name.lower(),
            "pause_mask": pause_mask,
            **asdict(core.port_stats(port)),
            "link": link_row(core, port),
            "wire": wire_row(core, port),
            "sends": None if sends is None else asdict(sends),
        }

    def _switch_stats(self, _request: Json) -> Json:
        with self._loop.locked() as core:
            switch = asdict(core.stats())
            tickers = [asdict(each) for each in self._loop.ticker_stats()]
        return {
            "switch": switch,
            "tickers": tickers,
            "loop": asdict(self._loop.stats()),  # takes the lock itself
            "trace": asdict(self._traces.stats()),
            "now_ps": self._loop.now(),
            "device_id": self._device_id,
            "epoch_us": time.time_ns() // 1000,
        }

    def _queue(self, request: Json) -> Json:
        port = _port(request)
        with self._loop.locked() as core:
            stats, config = core.port_stats(port), core.port_config(port)
            _, pause_mask = core.port_state(port)
        return {
            "port": port,
            "priorities": core.config.priorities,
            "pause_mask": pause_mask,
            "depth_packets": stats.depth_packets,
            "depth_bytes": stats.depth_bytes,
            "max_depth_packets": stats.max_depth_packets,
            "drop_queue": stats.drop_queue,
            "queue_packets": config.queue_packets,
            "queue_bytes": config.queue_bytes,
            "queue_cells": config.queue_cells,
        }

    def _watch_queue(self, request: Json) -> Json:
        port, queue, above = _port(request), request.get("queue"), request.get("above_bytes")
        if not _is_number(queue) or not _is_number(above):
            raise EntityError(
                Code.INVALID_ARGUMENT, '"queue" and "above_bytes" are whole numbers from 0'
            )
        with self._loop.locked() as core:
            core.watch_queue(port, queue, above)
        return {}

    def _queue_peak(self, request: Json) -> Json:
        port, queue = _port(request), request.get("queue")
        if not _is_number(queue):
            raise EntityError(Code.INVALID_ARGUMENT, '"queue" is a whole number from 0')
        with self._loop.locked() as core:
            peak = core.queue_peak(port, queue)
        return {
            "bytes": peak.bytes,
            "above_ps": None if peak.above_at < 0 else peak.above_at,
            "now_ps": self._loop.now(),
        }

    # --- settings -----------------------------------------------------------------------------

    def _set_port(self, request: Json) -> Json:
        port, up = _port(request), request.get("up")
        if not isinstance(up, bool):
            raise EntityError(Code.INVALID_ARGUMENT, '"up" has to be true or false')
        with self._lock:
            _, pause_mask = self._device.core.port_state(port)
            self._device.set_port(port, PortState.UP if up else PortState.DOWN, pause_mask)
        return {}

    def _set_link(self, request: Json) -> Json:
        port = _port(request)
        change = LinkChange.read({k: v for k, v in request.items() if k != "port"})
        with self._loop.locked() as core:
            change.apply(core, port)
            return link_row(core, port)

    def _add_port(self, request: Json) -> Json:
        port, interface, pcap = _port(request), request.get("interface"), request.get("pcap")
        if not isinstance(interface, str) or not interface:
            raise EntityError(Code.INVALID_ARGUMENT, '"interface" has to be a name')
        if pcap is not None and not isinstance(pcap, str):
            raise EntityError(Code.INVALID_ARGUMENT, '"pcap" has to be a path')
        with self._lock:
            if port in self._ports:
                raise EntityError(
                    Code.ALREADY_EXISTS, f"port {port} is there already: {self._ports[port]}"
                )
            self._loop.add_port(port, interface, pcap=None if pcap is None else Path(pcap))
            self._ports = {**self._ports, port: interface}
        return {}

    def _remove_port(self, request: Json) -> Json:
        port = _port(request)
        with self._lock:
            if port not in self._ports:
                raise EntityError(Code.NOT_FOUND, f"there is no port {port}")
            self._loop.remove_port(port)
            self._ports = {p: name for p, name in self._ports.items() if p != port}
        return {}

    def _session_zero(self, request: Json) -> Json:
        with self._lock:
            forwarding = self._device.forwarding
            if forwarding is None:
                raise EntityError(Code.FAILED_PRECONDITION, "no program is loaded")
            if request:
                session = None
                if "port" in request:
                    session = Session.to_port(_port(request))
                elif "group" in request:
                    session = Session.to_group(_port({"port": request["group"]}))
                with self._loop.locked():
                    forwarding.replication.set_session_zero(session)
            now = forwarding.replication.session_zero
        if now is None:
            return {}
        return {"port": now.egress_port} if now.port_valid else {"group": now.group}

    def _ledger_rows(self, request: Json) -> Json:
        with self._lock:
            return self._ledger.answer(request)

    # --- traces -------------------------------------------------------------------------------

    def _trace(self, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            follower = self._follow(_request(data))
        except EntityError as error:
            _abort(context, error)
        context.add_callback(follower.end)
        try:
            context.send_initial_metadata(())  # says: attached
            while (event := follower.next()) is not None:
                yield encode(event)
        finally:
            follower.close()

    def _follow(self, request: Json) -> Follower:
        expression = request.get("filter", "")
        limit, ports = request.get("limit"), request.get("ports", [])
        if not isinstance(expression, str):
            raise EntityError(Code.INVALID_ARGUMENT, '"filter" has to be a text')
        if limit is not None and (not _is_whole(limit) or limit < 1):
            raise EntityError(Code.INVALID_ARGUMENT, '"limit" has to be a number from 1')
        if not isinstance(ports, list):
            raise EntityError(Code.INVALID_ARGUMENT, '"ports" has to be a list of numbers')
        numbers = [_port({"port": port}) for port in ports]
        try:
            return self._traces.follow(expression, numbers, limit)
        except FilterError as error:
            raise EntityError(Code.INVALID_ARGUMENT, str(error)) from error
        except TraceError as error:
            raise EntityError(Code.FAILED_PRECONDITION, str(error)) from error


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


def _port(request: Json) -> int:
    port = request.get("port")
    if not isinstance(port, int) or not _is_whole(port) or not 0 <= port < _PORTS:
        raise EntityError(
            Code.INVALID_ARGUMENT, f'"port" has to be a number from 0 to {_PORTS - 1}, not {port!r}'
        )
    return port


def _unary(method: Callable[[Json], Json]) -> grpc.RpcMethodHandler:
    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return encode(method(_request(data)))
        except (EntityError, CoreError) as error:
            _abort(context, error)

    return grpc.unary_unary_rpc_method_handler(answer)


def _request(data: bytes) -> Json:
    try:
        return decode(data)
    except ValueError as error:
        raise EntityError(Code.INVALID_ARGUMENT, f"the request can't be read: {error}") from None


def _abort(context: grpc.ServicerContext, error: EntityError | CoreError) -> NoReturn:
    code = error.code if isinstance(error, EntityError) else Code.INVALID_ARGUMENT
    context.abort(_CODES[int(code)], str(error))
    raise AssertionError("abort always raises")
