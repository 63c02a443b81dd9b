"""An endpoint's queue pairs: made, joined to peers, moved to other ports and planes, forgotten.

With maps a queue pair has its slot in the kernel from when it is joined on, or one for each of its
planes, and the card has it from then on, too.
"""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostagent.algorithms import Parameters, pack, within_line
from hostagent.pinned_maps import PinnedMaps, Plane
from hostagent.rnic.card_records import Access, CardError, QueuePairConfig, Status
from hostagent.rnic.card_statistics import (
    QueuePairStats,
    SeenPath,
    migration_stats_of,
    pair_stats_of,
    plane_stats_of,
    seen_path_of,
)
from hostagent.rnic.endpoint_loop import EndpointLoop
from hostagent.rnic.endpoint_records import (
    EndpointConfig,
    EndpointError,
    EndpointInterface,
    Pair,
    Task,
)
from hostagent.rnic.interface import MTUS
from hostagent.rnic.planes import MigrationStats, PlaneStats, PlaneUse

BUFFER_BYTES_MOST = 1 << 30


@dataclass
class OpenPair:
    """What a queue pair of an endpoint holds."""

    config: QueuePairConfig
    congestion_control: Parameters | None
    rkey: int
    memory: mmap.mmap
    base: Any
    bytes: int
    collects: bool = False
    connected: bool = False
    ways: tuple[tuple[int, int], ...] = ()
    """own and the peer's address, of each interface"""
    task: Task | None = None
    posts: Any = None
    times: Any = None
    left: Any = None
    keep: dict[int, Any] = field(default_factory=dict)


class EndpointPairs(EndpointLoop):
    """A card that runs, with queue pairs."""

    def __init__(
        self,
        config: EndpointConfig,
        maps: PinnedMaps | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """As EndpointLoop."""
        self._pairs: dict[int, OpenPair] = {}
        self._next_qpn = random.randrange(0x100, 0x10000)
        super().__init__(config, maps, on_failure)

    def close(self) -> None:
        """Stop the loop and leave nothing behind, in the kernel's maps neither."""
        super().close()
        self._pairs.clear()

    @property
    def pairs(self) -> tuple[int, ...]:
        """The numbers of the queue pairs."""
        return tuple(self._pairs)

    def open(
        self,
        config: QueuePairConfig,
        *,
        buffer_bytes: int,
        congestion_control: Parameters | None = None,
        udp_port: int | None = None,
        collects: bool = False,
    ) -> Pair:
        """Make a queue pair with memory that its peer may write and read; `config.qpn` is chosen.

        `udp_port` stands in the place of the config's; None: by the queue pair's number.
        `collects`: its data collects telemetry whatever its congestion control wants, which a queue
        pair that shares its load over planes can't.

        Raises CardError (the limit of queue pairs, a setting out of range), AlgorithmError,
        EndpointError.
        """
        if config.mtu > MTUS[-1]:
            raise EndpointError(f"in namespaces a RoCE MTU is at most {MTUS[-1]}, not {config.mtu}")
        if not 0 <= buffer_bytes <= BUFFER_BYTES_MOST:
            raise EndpointError(
                f"a buffer of {buffer_bytes} bytes: 0 to {BUFFER_BYTES_MOST} is right"
            )
        if collects and config.planes.use is PlaneUse.SHARED:
            raise EndpointError("a queue pair that shares its load over planes collects nothing")
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
            held = OpenPair(chosen, congestion_control, rkey, memory, base, size, collects)
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

    def _add(self, held: OpenPair, slots: Sequence[int] = ()) -> None:
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
        if held.collects:
            self._check(self.lib.rnic_collect(self._card, held.config.qpn, 1))

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

    def _take_slots(self, maps: PinnedMaps, held: OpenPair, peer_qpn: int) -> Sequence[int]:
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

    def _forget_slot(self, qpn: int, held: OpenPair) -> None:
        if self.maps is not None and held.ways:
            self.maps.remove_queue_pair(held.ways[0][0], qpn, more=held.ways[1:])

    def _held(self, qpn: int) -> OpenPair:
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
        """Return the memory that the peer may write and read."""
        held = self._held(qpn)
        return memoryview(held.memory)[: held.bytes]

    def source(self, qpn: int) -> memoryview:
        """Return the memory that tasks send from, and READ into."""
        held = self._held(qpn)
        return memoryview(held.memory)[held.bytes : 2 * held.bytes]

    def _is_made(self, held: OpenPair) -> bool:
        """Say whether the card has it: with maps not before it is connected."""
        return self.maps is None or held.connected

    # --- what became of them ----------------------------------------------------------------------

    def pair_stats(self, qpn: int) -> QueuePairStats:
        """Return a queue pair's counters. Raises CardError."""
        row = self.ffi.new("struct rnic_qp_stats *")
        with self._locked():
            held = self._held(qpn)
            if not self._is_made(held):
                raise CardError(f"queue pair {qpn} is not connected", Status.STATE)
            now = self.lib.rnicd_now(self._driver)
            self._check(self.lib.rnic_qp_stats_get(self._card, qpn, now, row))
        return pair_stats_of(row)

    def path_seen(self, qpn: int) -> SeenPath | None:
        """Return what switches wrote into the packets that came; None: none has brought records."""
        row = self.ffi.new("struct rnic_path *")
        with self._locked():
            if self.lib.rnic_path_get(self._card, qpn, row):
                return None
        return seen_path_of(row)

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

    def migrates(self, qpn: int) -> bool:
        """Say whether a queue pair uses an interface at a time, and is connected.

        Raises CardError: there is no such queue pair.
        """
        held = self._held(qpn)
        return held.config.planes.use is PlaneUse.SINGLE and self._is_made(held)

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
