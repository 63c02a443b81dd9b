"""A host's endpoint in this process: a card on an interface, its loop in a thread of its own.

    with Endpoint(EndpointConfig("h1-eth0", ip, mac, gateway_mac), maps=None) as endpoint:
        pair = endpoint.open(QueuePairConfig(...), buffer_bytes=1 << 20)
        endpoint.connect(pair.qpn, peer_ip, peer_qpn=..., peer_psn=...)
        endpoint.post(pair.qpn, Work(...)); endpoint.events()
        endpoint.task(pair.qpn, Task(...)); endpoint.task_state(pair.qpn)

With maps (`PinnedMaps`) the kernel keeps the congestion control of each queue pair, and the loop
paces by the slot that it maps read-only; without, it runs in the card itself. Times are ns.
"""

from __future__ import annotations

import mmap
import os
import random
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hostagent.algorithms import Parameters, pack, within_line
from hostagent.notifications import Heard, heard_rows
from hostagent.pinned_maps import SLOTS, PinnedMaps, Plane
from hostagent.rnic.card_records import (
    Access,
    CardError,
    Event,
    EventKind,
    Failure,
    Operation,
    QueuePairConfig,
    QueuePairState,
    Status,
    Work,
)
from hostagent.rnic.card_statistics import (
    CardStats,
    QueuePairStats,
    migration_stats_of,
    plane_stats_of,
)
from hostagent.rnic.endpoint_records import (
    EndpointConfig,
    EndpointInterface,
    EndpointStats,
    Pair,
    Task,
    TaskState,
)
from hostagent.rnic.interface import MTUS
from hostagent.rnic.measurement import Times
from hostagent.rnic.native import native
from hostagent.rnic.planes import MigrationStats, PlaneStats, PlaneUse

PACE_SLACK_PS = 10_000_000_000
"""A paced packet that leaves late brings the next ones forward by so much at most, so that rates
hold: on a busy machine a thread waits some milliseconds for its turn. So does the line (loop.c)."""

BUFFER_BYTES_MOST = 1 << 30
TASK_COUNT_MOST = 1 << 24

_ERROR_BYTES = 256
_EVENTS = 256
_ENUMS = ("state", "failure")
_INTERFACE = ("mac", "gateway_mac", "line_rate_bps", "ip")


class EndpointError(Exception):
    """The endpoint can't do what was asked; the message says why."""


@dataclass
class _Open:
    """What a queue pair of ours holds."""

    config: QueuePairConfig
    congestion_control: Parameters | None
    rkey: int
    memory: mmap.mmap
    base: Any
    bytes: int
    connected: bool = False
    ways: tuple[tuple[int, int], ...] = ()
    """own and the peer's address, of each interface"""
    task: Task | None = None
    posts: Any = None
    times: Any = None
    left: Any = None
    keep: dict[int, Any] = field(default_factory=dict)


class Endpoint:
    """An endpoint that runs. Calls may come from several threads."""

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
        self._pairs: dict[int, _Open] = {}
        self._next_qpn = random.randrange(0x100, 0x10000)
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

    def __enter__(self) -> Endpoint:
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
        self._pairs.clear()

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
        """The endpoint's own time, which tasks and events have."""
        return int(self.lib.rnicd_now(self._driver)) // 1000

    def monotonic_ns(self, at_ps: int) -> int:
        """Return what CLOCK_MONOTONIC said at a time of the card."""
        return int(self.lib.rnicd_base_ns(self._driver)) + at_ps // 1000

    # --- queue pairs ----------------------------------------------------------------------------

    def open(
        self,
        config: QueuePairConfig,
        *,
        buffer_bytes: int,
        congestion_control: Parameters | None = None,
        udp_port: int | None = None,
    ) -> Pair:
        """Make a queue pair with memory that its peer may write and read; `config.qpn` is chosen.

        `udp_port` stands in the place of the config's; None: by the queue pair's number.

        Raises CardError (the limit of queue pairs, a setting out of range), AlgorithmError,
        EndpointError.
        """
        if config.mtu > MTUS[-1]:
            raise EndpointError(f"in namespaces a RoCE MTU is at most {MTUS[-1]}, not {config.mtu}")
        if not 0 <= buffer_bytes <= BUFFER_BYTES_MOST:
            raise EndpointError(
                f"a buffer of {buffer_bytes} bytes: 0 to {BUFFER_BYTES_MOST} is right"
            )
        pack(self.ffi, congestion_control)  # refused now rather than when it is connected
        size = max(buffer_bytes, 1)
        memory = mmap.mmap(-1, 2 * size)  # the first half is the peer's, the second is sent from
        base = self.ffi.from_buffer("uint8_t[]", memory)
        with self._locked():
            qpn = self._free_qpn()
            psn = random.randrange(1 << 24)
            rkey = (qpn << 8 | random.randrange(256)) & 0xFFFFFFFF
            port = 0xC000 | qpn & 0x1FFF if udp_port is None else udp_port
            chosen = replace(config, qpn=qpn, first_psn=psn, udp_port=port)
            held = _Open(chosen, congestion_control, rkey, memory, base, size)
            access = int(Access.REMOTE_WRITE | Access.REMOTE_READ)
            self._check(self.lib.rnic_register(self._card, rkey, 0, base, size, access))
            if self.maps is None:
                try:
                    self._add(held)
                except CardError:
                    self.lib.rnic_deregister(self._card, rkey)
                    raise
            self._pairs[qpn] = held
        return Pair(qpn, psn, rkey, 0)

    def _free_qpn(self) -> int:
        if len(self._pairs) >= self.config.max_qps:
            raise CardError(f"no more than {self.config.max_qps} queue pairs", Status.FULL)
        places = int(self.lib.rnicd_places(self._driver))
        taken = {qpn % places for qpn in self._pairs}
        while True:  # their places in the loop's table must differ
            self._next_qpn = self._next_qpn % 0xFFFFFE + 1
            if self._next_qpn % places not in taken:
                return self._next_qpn

    def _add(self, held: _Open, slots: Sequence[int] = ()) -> None:
        """Make it; `slots`: the kernel's, of each plane where its interfaces are such."""
        native_config = self.ffi.new("struct rnic_qp_config *", held.config.fields())
        for plane, number in enumerate(slots):
            at = self._slots_base + number * self._stride
            slot, sent = self.ffi.cast("struct cc_slot *", at), self._sent_base + number
            if held.config.planes.use is PlaneUse.SHARED:
                native_config.plane_slots[plane], native_config.plane_sent[plane] = slot, sent
            else:
                native_config.slot, native_config.sent = slot, sent
        cc = pack(self.ffi, held.congestion_control)
        self._check(self.lib.rnic_add_qp(self._card, native_config, cc))

    def connect(
        self, qpn: int, peer_ip: int, *, peer_qpn: int, peer_psn: int, peer_mac: int = 0
    ) -> None:
        """Join a queue pair to its peer; in the kernel it gets its slot now.

        Raises CardError, QueuePairLimit.
        """
        self.connect_ways(qpn, [(peer_ip, peer_mac)], peer_qpn=peer_qpn, peer_psn=peer_psn)

    def connect_ways(
        self, qpn: int, peers: Sequence[tuple[int, int]], *, peer_qpn: int, peer_psn: int
    ) -> None:
        """Join one of several interfaces: the peer's IP and MAC (0: the gateway's) address of each.

        Raises CardError, QueuePairLimit.
        """
        with self._locked():
            held, own = self._held(qpn), self.interfaces_of(qpn)
            if len(own) != len(peers):
                raise CardError(
                    f"queue pair {qpn} has {len(own)} interfaces, its peer {len(peers)}",
                    Status.INVALID,
                )
            if not held.connected:
                held.ways = tuple((i.ip, ip) for i, (ip, _) in zip(own, peers, strict=True))
            if self.maps is not None and not held.connected:
                slots = self._take_slots(self.maps, held, peer_qpn)
                try:
                    self._add(held, slots)
                except CardError:
                    self._forget_slot(qpn, held)
                    raise
            held.connected = True
            rows = [{"ip": ip, "mac": mac} for ip, mac in peers]
            addresses = self.ffi.new("struct rnic_address[]", rows)
            given = (self._card, qpn, addresses, len(rows), peer_qpn, peer_psn)
            self._check(self.lib.rnic_connect_ways(*given))

    def _take_slots(self, maps: PinnedMaps, held: _Open, peer_qpn: int) -> Sequence[int]:
        """Give it its slot in the kernel, or one for each of its planes."""
        config, ways, cc = held.config, held.ways, held.congestion_control
        told = {"mtu": config.mtu, "first_psn": config.first_psn}
        if config.planes.use is not PlaneUse.SHARED:
            own, peer = ways[0]
            return [
                maps.add_queue_pair(
                    *(own, config.qpn, peer, peer_qpn),
                    congestion_control=cc,
                    more=ways[1:],
                    **told,
                )
            ]
        lines = [each.line_rate_bps for each in self.interfaces_of(config.qpn)]
        planes = [
            Plane(own, peer, within_line(cc, line))
            for (own, peer), line in zip(ways, lines, strict=True)
        ]
        return maps.add_planes(config.qpn, peer_qpn, planes, **told)

    def set_udp_port(self, qpn: int, udp_port: int) -> None:
        """Let a queue pair send from source port `udp_port` on, also while it sends.

        Raises CardError (no such queue pair, ports that end behind 65535).
        """
        with self._locked():
            held = self._held(qpn)
            if not 1 <= udp_port <= 65536 - max(1, held.config.udp_ports):
                raise CardError(
                    f"queue pair {qpn}: {max(1, held.config.udp_ports)} UDP ports from {udp_port} "
                    "on do not fit 1 to 65535",
                    Status.INVALID,
                )
            if self._is_made(held):
                self._check(self.lib.rnic_set_udp_port(self._card, qpn, udp_port))
            held.config = replace(held.config, udp_port=udp_port)

    def udp_port(self, qpn: int) -> int:
        """Return the first source port of a queue pair. Raises CardError."""
        return self._held(qpn).config.udp_port

    def interfaces_of(self, qpn: int) -> tuple[EndpointInterface, ...]:
        """Return the interfaces that a queue pair has, in order. Raises CardError."""
        config = self._held(qpn).config
        return self.config.interfaces[config.interface :][: config.interfaces]

    def _forget_slot(self, qpn: int, held: _Open) -> None:
        if self.maps is not None and held.ways:
            self.maps.remove_queue_pair(held.ways[0][0], qpn, more=held.ways[1:])

    def _held(self, qpn: int) -> _Open:
        held = self._pairs.get(qpn)
        if held is None:
            raise CardError(f"there is no queue pair {qpn}", Status.NO_SUCH)
        return held

    def close_pair(self, qpn: int) -> None:
        """Forget a queue pair; its peer finds out by its time-outs."""
        with self._locked():
            held = self._pairs.pop(qpn, None)
            if held is None:
                return
            self.lib.rnicd_task_end(self._driver, qpn)
            self.lib.rnic_remove_qp(self._card, qpn)
            self.lib.rnic_deregister(self._card, held.rkey)
        if held.connected:
            self._forget_slot(qpn, held)

    def memory(self, qpn: int) -> memoryview:
        """What the peer may write and read."""
        held = self._held(qpn)
        return memoryview(held.memory)[: held.bytes]

    def source(self, qpn: int) -> memoryview:
        """What tasks send from, and READ into."""
        held = self._held(qpn)
        return memoryview(held.memory)[held.bytes : 2 * held.bytes]

    # --- work -----------------------------------------------------------------------------------

    def post(self, qpn: int, work: Work) -> None:
        """Hand over work, whose `data` stays alive until the queue pair is closed.

        Raises CardError.
        """
        with self._locked():
            held = self._held(qpn)
            local = self.ffi.NULL
            length = work.length or 0
            if work.data is not None:
                local = self.ffi.from_buffer("uint8_t[]", work.data)
                length = len(local)
                held.keep[work.id] = local
            request = self.ffi.new(
                "struct rnic_work *",
                {
                    "id": work.id,
                    "operation": int(work.operation),
                    "immediate": work.immediate,
                    "length": length,
                    "local": self.ffi.cast("uint8_t *", local),
                    "remote_address": work.remote_address,
                    "rkey": work.rkey,
                },
            )
            now = self.lib.rnicd_now(self._driver)
            self._check(self.lib.rnic_post(self._card, qpn, request, now))

    def post_receive(self, qpn: int, id: int, buffer: Any) -> None:
        """Hand over a receive buffer (writable), which stays alive until the pair is closed."""
        with self._locked():
            local = self.ffi.from_buffer("uint8_t[]", buffer)
            self._held(qpn).keep[-id - 1] = local
            self._check(self.lib.rnic_post_receive(self._card, qpn, id, local, len(local)))

    def events(self) -> list[Event]:
        """Take the events of queue pairs without a task."""
        rows = self.ffi.new("struct rnic_event[]", _EVENTS)
        with self._locked():
            n = self.lib.rnicd_take_events(self._driver, rows, _EVENTS)
        return [
            Event(
                EventKind(row.kind),
                row.qpn,
                row.id,
                row.bytes,
                row.immediate if row.has_immediate else None,
                Failure(row.status),
                Operation(row.operation),
                row.at,
            )
            for row in rows[0:n]
        ]

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

    # --- tasks ----------------------------------------------------------------------------------

    def task(self, qpn: int, task: Task, *, left: Any = None) -> None:
        """Give the loop something to keep going; `left`: messages that it shares with others.

        Raises EndpointError; CardError: a queue pair that has failed takes no receive buffers.
        """
        with self._locked():
            held = self._held(qpn)
            if task.size > held.bytes:
                raise EndpointError(
                    f"messages of {task.size} bytes, and the queue pair's buffer has {held.bytes}"
                )
            if not 0 <= task.count <= TASK_COUNT_MOST:
                raise EndpointError(f"{task.count} messages: at most {TASK_COUNT_MOST} are counted")
            posts = self.ffi.new("uint64_t[]", max(task.count, 1))
            times = self.ffi.new("uint64_t[]", max(task.count, 1))
            native_task = self.ffi.new(
                "struct rnicd_task *",
                {
                    "kind": int(task.kind),
                    "operation": int(task.operation),
                    "size": task.size,
                    "count": task.count,
                    "depth": task.depth,
                    "rkey": task.rkey,
                    "remote_address": task.remote_address,
                    "buffer": held.base + held.bytes,
                    "receive": held.base,
                    "duration_ns": task.duration_ns,
                    "left": self.ffi.NULL if left is None else left,
                    "receive_size": held.bytes,
                    "posts": posts,
                    "times": times,
                },
            )
            if not held.connected:
                raise EndpointError(f"queue pair {qpn} is not connected")
            self._check(self.lib.rnicd_task_set(self._driver, qpn, native_task))
            held.task, held.posts, held.times, held.left = task, posts, times, left

    def share(self, tasks: Mapping[int, Task]) -> None:
        """Let queue pairs, by number, send messages together: as many as one's `count` says.

        Each takes the next one, at first in turn, when fewer than its `depth` are outstanding.
        Raises EndpointError, CardError; then none of them has a task.
        """
        left = self.ffi.new("uint64_t *", max(task.count for task in tasks.values()))
        begun: list[int] = []
        try:
            for qpn, task in tasks.items():
                self.task(qpn, task, left=left)
                begun.append(qpn)
            with self._locked():
                numbers = self.ffi.new("uint32_t[]", begun)
                self._check(self.lib.rnicd_tasks_share(self._driver, numbers, len(begun)))
        except (EndpointError, CardError):
            for qpn in begun:
                self.end_task(qpn)
            raise

    def task_state(self, qpn: int, *, times: bool = False) -> TaskState:
        """How far a task has come; with `times` each message's. Raises CardError, EndpointError."""
        state = self.ffi.new("struct rnicd_task_state *")
        with self._locked():
            if self.lib.rnicd_task_get(self._driver, qpn, state):
                raise EndpointError(f"queue pair {qpn} has no task")
            held = self._held(qpn)
            most = held.task.count if times and held.task else 0
            posts = self._copied(held.posts, min(state.posted, most))
            taken = self._copied(held.times, min(state.completed, most))
        return TaskState(
            state.posted,
            state.completed,
            state.started_ns,
            state.ended_ns,
            bool(state.done),
            Failure(state.failure),
            posts,
            taken,
        )

    def _copied(self, numbers: Any, count: int) -> Times:
        if not count:
            return np.zeros(0, np.uint64)
        return np.frombuffer(self.ffi.buffer(numbers, 8 * count), np.uint64).copy()

    def end_task(self, qpn: int) -> None:
        """Forget a task; what is posted stays posted."""
        with self._locked():
            self.lib.rnicd_task_end(self._driver, qpn)

    # --- what happened --------------------------------------------------------------------------

    def pair_stats(self, qpn: int) -> QueuePairStats:
        """Return a queue pair's counters. Raises CardError."""
        row = self.ffi.new("struct rnic_qp_stats *")
        with self._locked():
            held = self._held(qpn)
            if not self._is_made(held):
                raise CardError(f"queue pair {qpn} is not connected", Status.STATE)
            now = self.lib.rnicd_now(self._driver)
            self._check(self.lib.rnic_qp_stats_get(self._card, qpn, now, row))
        names = [name for name in QueuePairStats.__dataclass_fields__ if name not in _ENUMS]
        return QueuePairStats(
            state=QueuePairState(row.state),
            failure=Failure(row.failure),
            **{name: int(getattr(row, name)) for name in names},
        )

    def plane_stats(self, qpn: int) -> list[PlaneStats]:
        """Return what became of each plane of a queue pair, none if it has none.

        Raises CardError: there is no such queue pair.
        """
        row = self.ffi.new("struct rnic_plane_stats *")
        found: list[PlaneStats] = []
        with self._locked():
            held = self._held(qpn)
            if held.config.planes.use is not PlaneUse.SHARED or not self._is_made(held):
                return []
            now = self.lib.rnicd_now(self._driver)
            for interface in range(held.config.interfaces):
                self._check(self.lib.rnic_plane_stats_get(self._card, qpn, interface, now, row))
                found.append(plane_stats_of(row))
        return found

    def migration_stats(self, qpn: int) -> MigrationStats:
        """Return where one stands that uses an interface at a time.

        Raises CardError: there is no such queue pair, or it uses all, or is not connected.
        """
        row = self.ffi.new("struct rnic_migration_stats *")
        with self._locked():
            self._held(qpn)
            self._check(self.lib.rnic_migration_stats_get(self._card, qpn, row))
        return migration_stats_of(row)

    def drain(self, interface: int, on: bool) -> None:
        """Let no new packet of queue pairs with planes take an interface, or let them again.

        What is on its way arrives. Raises CardError: there is no such interface.
        """
        there = len(self.config.interfaces)
        if not 0 <= interface < there:
            raise CardError(
                f"no interface {interface}: the card has 0 to {there - 1}", Status.INVALID
            )
        with self._locked():
            self.lib.rnic_drain(self._card, interface, int(on))

    def _is_made(self, held: _Open) -> bool:
        """Say whether the card has it: with maps not before it is connected."""
        return self.maps is None or held.connected

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
        return CardStats(*(getattr(row, name) for name in CardStats.__dataclass_fields__))

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

    @property
    def pairs(self) -> tuple[int, ...]:
        """The numbers of the queue pairs."""
        return tuple(self._pairs)
