"""The daemon's packet loop as typed Python: AF_PACKET sockets and a clock around a SwitchCore."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softswitch.core.binding import SwitchCore
from softswitch.core.records import (
    CoreError,
    InterfaceStats,
    LoopStats,
    Output,
    OutputKind,
    TickerStats,
)

_EVENTS = 64
_EVENT_BYTES = 1 << 20


class DaemonLoop:
    """Runs a switch on network interfaces. Needs root or CAP_NET_RAW.

    While `run` runs (in its own thread), all other use of the SwitchCore is inside `locked()`.
    """

    def __init__(self, core: SwitchCore) -> None:
        """Set up the loop for `core`. Raises CoreError when its descriptors can't be made."""
        self.core = core
        self._ffi: Any = core.ffi
        self._lib: Any = core.lib
        self._pointer = self._lib.wd_create(core.pointer)
        if self._pointer == self._ffi.NULL:
            raise CoreError(self._lib.WS_ENOMEM, f"packet loop: {core.last_error()}")
        self._finalizer = weakref.finalize(self, self._lib.wd_destroy, self._pointer)
        self._thread: threading.Thread | None = None
        self._failure: CoreError | None = None
        self._events = self._ffi.new("struct ws_output[]", _EVENTS)
        self._buffer = self._ffi.new("uint8_t[]", _EVENT_BYTES)
        self._reader = threading.Lock()

    def _check(self, status: int) -> None:
        if status < 0:
            raise CoreError(status, self.core.last_error(), os.strerror(-status))

    def add_port(self, port: int, interface: str, *, pcap: Path | None = None) -> None:
        """Open `interface` as `port`; with `pcap`, write PCAP_in.pcap and PCAP_out.pcap.

        Raises CoreError with the interface and the system's reason (`code` is -errno).
        """
        path = self._ffi.NULL if pcap is None else str(pcap).encode()
        self._check(self._lib.wd_add_port(self._pointer, port, interface.encode(), path))

    def remove_port(self, port: int) -> None:
        """Close the port's interface."""
        self._check(self._lib.wd_remove_port(self._pointer, port))

    def run(self) -> None:
        """Run until `stop`; block meanwhile. Raises CoreError when the loop itself fails."""
        self._check(self._lib.wd_run(self._pointer))

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""

        def body() -> None:
            try:
                self.run()
            except CoreError as error:
                self._failure = error

        self._thread = threading.Thread(target=body, name="packet-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End `run`; wait for the thread of `start` and raise what ended it."""
        self._lib.wd_stop(self._pointer)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        """Stop, close the sockets and free the loop."""
        try:
            self.stop()
        finally:
            self._finalizer()

    @contextmanager
    def locked(self) -> Iterator[SwitchCore]:
        """Yield the switch while the loop is held between two batches."""
        self._lib.wd_lock(self._pointer)
        try:
            yield self.core
        finally:
            self._lib.wd_unlock(self._pointer)

    def packet_out(self, data: bytes) -> None:
        """Inject a packet of the controller into ingress at the CPU port. Not inside `locked()`."""
        self._check(self._lib.wd_packet_out(self._pointer, data, len(data)))

    def wait_events(self, timeout_s: float) -> list[Output]:
        """Return CPU packets and digests; wait up to `timeout_s` for the first.

        Not in `locked()`.
        """
        with self._reader:
            n = self._lib.wd_wait_events(
                self._pointer,
                self._events,
                _EVENTS,
                self._buffer,
                _EVENT_BYTES,
                int(timeout_s * 1000),
            )
            return [self._event(self._events[i]) for i in range(n)]

    def nudge_events(self) -> None:
        """Let `wait_events` return now: something is due earlier than its deadline."""
        self._lib.wd_nudge_events(self._pointer)

    def _event(self, out: Any) -> Output:
        data = bytes(self._ffi.buffer(out.data, out.length)) if out.length else b""
        return Output(OutputKind(out.kind), out.port, data, out.at, out.id, out.program)

    def now(self) -> int:
        """Return the switch's time in ps, which the loop takes for `now`."""
        return int(self._lib.wd_now(self._pointer))

    def add_ticker(self, port: int, packet: bytes, period_ps: int, start_ps: int = 0) -> int:
        """Let a packet come in by a port at start + k * period of the switch's time."""
        config = self._ffi.new("struct wd_ticker_config *")
        data = self._ffi.from_buffer("uint8_t[]", packet)
        config.port, config.length, config.data = port, len(packet), data
        config.period_ps, config.start_ps = period_ps, start_ps
        number = int(self._lib.wd_add_ticker(self._pointer, config))
        self._check(number)
        return number

    def ticker_stats(self) -> list[TickerStats]:
        """Return each ticker's counts, by number. Inside `locked()`."""
        found: list[TickerStats] = []
        row = self._ffi.new("struct wd_ticker_stats *")
        while self._lib.wd_ticker_stats_get(self._pointer, len(found), row) == 0:
            found.append(TickerStats.read(row))
        return found

    def interface_stats(self, port: int) -> InterfaceStats | None:
        """Return what the port's interface did to frames; None without one. Inside `locked()`."""
        s = self._ffi.new("struct wd_port_stats *")
        if self._lib.wd_port_stats_get(self._pointer, port, s) < 0:
            return None
        name = self._ffi.string(s.discipline).decode(errors="replace")
        return InterfaceStats(name, int(s.blocked), int(s.lost))

    def stats(self) -> LoopStats:
        """Return the counts of the loop's sockets and the CPU time of its thread."""
        s = self._ffi.new("struct wd_stats *")
        self._lib.wd_stats_get(self._pointer, s)
        return LoopStats.read(s)
