"""A card on interfaces of this process, and the loop that keeps it going, in a thread of its own.

It opens the interfaces and takes what the kernel keeps of them; its clocks, its lock and its
counters are here, too. What it carries: endpoint_pairs.py.
"""

from __future__ import annotations

import mmap
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from hostagent.notifications import Heard, heard_rows
from hostagent.pinned_maps import SLOTS, PinnedMaps
from hostagent.rnic.card_records import CardError, Status
from hostagent.rnic.card_statistics import CardStats, card_stats_of
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointError, EndpointStats
from hostagent.rnic.native import native

PACE_SLACK_PS = 10_000_000_000
"""A paced packet that leaves late brings the next ones forward by so much at most, so that rates
hold: on a busy machine a thread waits some milliseconds for its turn. So does the line (loop.c)."""

_ERROR_BYTES = 256
_INTERFACE = ("mac", "gateway_mac", "line_rate_bps", "ip")


class EndpointLoop:
    """A card and its loop, which runs. Calls may come from several threads."""

    def __init__(
        self,
        config: EndpointConfig,
        maps: PinnedMaps | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the interface. Raises EndpointError, MapsError.

        `on_failure` is called, in the loop's thread, when the interface is lost: see `failure`.
        """
        module = native()
        self.ffi, self.lib = module.ffi, module.lib
        self.config = config
        self.maps = maps
        self._slots: mmap.mmap | None = None
        self._sent: mmap.mmap | None = None
        self._stride = (int(self.ffi.sizeof("struct cc_slot")) + 7) // 8 * 8
        self.failure: str | None = None
        self._on_failure = on_failure
        self._driver: Any = self._opened()
        self._card = self.lib.rnicd_card(self._driver)
        try:
            self._take_maps()
        except Exception:
            self.lib.rnicd_close(self._driver)
            raise
        self._thread = threading.Thread(target=self._run, name="rnic", daemon=True)
        self._thread.start()

    def _opened(self) -> Any:
        config = self.config
        error = self.ffi.new("char[]", _ERROR_BYTES)
        drivers = []
        for each in config.interfaces:
            name = self.ffi.new("char[]", each.interface.encode())
            values = {
                "interface": name,
                # Without the program nothing is redirected to a socket of AF_XDP.
                "use_packet": int(config.af_packet or self.maps is None),
                "line_rate_bps": each.line_rate_bps,
            }
            drivers.append((self.ffi.new("struct rnicd_config *", values), name))
        card = self.ffi.new(
            "struct rnic_config *",
            {
                "mac": config.mac,
                "gateway_mac": config.gateway_mac,
                "ip": config.ip,
                "max_qps": config.max_qps,
                "line_rate_bps": config.line_rate_bps,
                "whole": 1,
                "check_icrc": int(config.check_icrc),
                "cnp_dscp": config.cnp_dscp,
                "cnp_queue": 7,
                "pace_slack_ps": PACE_SLACK_PS,
            },
        )
        found = self.lib.rnicd_open(drivers[0][0], card, error, _ERROR_BYTES)
        if found == self.ffi.NULL:
            raise EndpointError(self.ffi.string(error).decode())
        for each, (driver, _) in zip(config.more, drivers[1:], strict=True):
            addresses = {name: getattr(each, name) for name in _INTERFACE}
            interface = self.ffi.new("struct rnic_interface *", addresses)
            if self.lib.rnicd_add_interface(found, driver, interface, error, _ERROR_BYTES) < 0:
                self.lib.rnicd_close(found)
                raise EndpointError(self.ffi.string(error).decode())
        return found

    def _take_maps(self) -> None:
        if self.maps is None:
            return
        for each in self.config.interfaces:
            self.maps.remove_host(each.ip)  # what a killed one left
        self._slots = mmap.mmap(self.maps.slots_fd, SLOTS * self._stride, prot=mmap.PROT_READ)
        self._slots_base = self.ffi.from_buffer("uint8_t[]", self._slots)
        size = SLOTS * int(self.ffi.sizeof("struct cc_sent"))
        self._sent = mmap.mmap(self.maps.sent_fd, size)
        self._sent_base = self.ffi.from_buffer("struct cc_sent[]", self._sent)
        for number, each in enumerate(self.config.interfaces):
            socket = self.lib.rnicd_socket(self._driver, number)
            if socket >= 0:
                self.maps.add_endpoint(each.ip, socket)

    def _run(self) -> None:
        status = self.lib.rnicd_run(self._driver)
        if status < 0:
            names = " or ".join(each.interface for each in self.config.interfaces)
            self.failure = f"interface {names} is lost: {os.strerror(-status)}"
            self._on_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the loop and leave nothing behind, in the kernel's maps neither."""
        if self._driver is None:
            return
        self.lib.rnicd_stop(self._driver)
        self._thread.join()
        if self.maps is not None:
            for each in self.config.interfaces:
                self.maps.remove_host(each.ip)
        self.lib.rnicd_close(self._driver)
        self._driver = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.lib.rnicd_lock(self._driver)
        try:
            yield
        finally:
            self.lib.rnicd_unlock(self._driver)
            self.lib.rnicd_wake(self._driver)

    def _check(self, status: int) -> None:
        if status < 0:
            text = self.ffi.string(self.lib.rnic_error(self._card)).decode()
            raise CardError(text or f"status {status}", Status(status))

    @property
    def mode(self) -> str:
        """How frames come and go: "af_xdp" or "af_packet"."""
        return "af_xdp" if self.lib.rnicd_mode(self._driver) else "af_packet"

    @property
    def mode_reason(self) -> str:
        """Why it is not AF_XDP; empty if it is."""
        if self.maps is None and not self.config.af_packet:
            return "no host agent (eBPF) runs for this host"
        return str(self.ffi.string(self.lib.rnicd_mode_reason(self._driver)).decode())

    @property
    def event_fd(self) -> int:
        """Readable when a task has ended or events wait; `clear_event` before looking."""
        return int(self.lib.rnicd_event_fd(self._driver))

    def clear_event(self) -> None:
        """Read `event_fd`."""
        try:
            os.read(self.event_fd, 8)
        except BlockingIOError:
            return

    def now_ns(self) -> int:
        """Return the endpoint's own time in ns, which tasks and events use."""
        return int(self.lib.rnicd_now(self._driver)) // 1000

    def monotonic_ns(self, at_ps: int) -> int:
        """Return what CLOCK_MONOTONIC said at a time of the card."""
        return int(self.lib.rnicd_base_ns(self._driver)) + at_ps // 1000

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `done`, looking whenever the loop has news; False if the time is over."""
        deadline = time.monotonic() + timeout_s
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            select.select([self.event_fd], [], [], min(left, 0.1))
            self.clear_event()
        return True

    # --- what happened --------------------------------------------------------------------------

    def stats(self) -> EndpointStats:
        """Return the loop's counters."""
        row = self.ffi.new("struct rnicd_stats *")
        with self._locked():
            self.lib.rnicd_stats_get(self._driver, row)
        return EndpointStats(*(getattr(row, name) for name in EndpointStats.__dataclass_fields__))

    def card_stats(self) -> CardStats:
        """Return the card's counters."""
        row = self.ffi.new("struct rnic_stats *")
        with self._locked():
            self.lib.rnic_stats_get(self._card, row)
        return card_stats_of(row)

    def notifications(self) -> list[Heard]:
        """Return what switches have said to this host in datagrams, the latest first.

        With maps the kernel has it, as `PinnedMaps.notifications` says. Times are CLOCK_MONOTONIC.
        """
        if self.maps is not None:
            own = (each.ip for each in self.config.interfaces)
            found = [heard for ip in own for heard in self.maps.notifications(ip)]
            return sorted(found, key=lambda each: -each.at_ns)
        rows = self.ffi.new("struct rnic_notification[]", self.lib.RNIC_NOTIFICATIONS)
        with self._locked():
            n = self.lib.rnic_notifications(self._card, rows, len(rows))
        base = int(self.lib.rnicd_base_ns(self._driver))
        return [replace(row, at_ns=base + row.at_ns) for row in heard_rows(rows, n)]
