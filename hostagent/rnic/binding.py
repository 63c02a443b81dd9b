"""The passive card as typed Python: one method a function of rnic.h.

    card = Card(CardConfig(mac=0x0200_0a00_0001, gateway_mac=..., ip=0x0a000001, whole=True))
    card.add_queue_pair(QueuePairConfig(qpn=1, mtu=1024))
    card.connect(1, peer_ip, peer_qpn=1, peer_psn=0)
    card.post(1, Work(id=7, operation=Operation.WRITE, data=memory, rkey=5, remote_address=0))
    card.receive(frame, now_ps);  card.transmit(now_ps) -> Packet | None;  card.next_event() -> ps

Times are integer picoseconds, addresses integers in host order. What stands in calls and comes of
them: card_records.py, card_statistics.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from hostagent.algorithms import Parameters, pack
from hostagent.notifications import Heard, HeardCounts, heard_counts, heard_rows
from hostagent.rnic.card_records import (
    Access,
    CardConfig,
    CardError,
    Event,
    EventKind,
    Interface,
    Operation,
    Packet,
    PacketKind,
    QueuePairConfig,
    Status,
    Work,
    event_of,
)
from hostagent.rnic.card_statistics import (
    CardStats,
    QueuePairStats,
    card_stats_of,
    migration_stats_of,
    pair_stats_of,
    plane_stats_of,
)
from hostagent.rnic.native import native
from hostagent.rnic.planes import MigrationStats, PlaneStats

_FRAME_BYTES = 16384
_BATCH = 256


class Card:
    """A card; see rnic.h for what each call does. Not for several threads at once."""

    def __init__(self, config: CardConfig, *more: Interface, sanitize: bool = False) -> None:
        """`more`: its interfaces beside that of `config`. Raises CardError, MemoryError."""
        module = native(sanitize=sanitize)
        self.ffi, self.lib = module.ffi, module.lib
        self.config = config
        native_config = self.ffi.new("struct rnic_config *", vars(config))
        self.handle = self.lib.rnic_create(native_config)
        if self.handle == self.ffi.NULL:
            raise MemoryError("no memory for a card")
        self._finalizer = weakref.finalize(self, self.lib.rnic_destroy, self.handle)
        self.interfaces = 1 + len(more)
        for interface in more:
            native_interface = self.ffi.new("struct rnic_interface *", vars(interface))
            self._check(self.lib.rnic_add_interface(self.handle, native_interface))
        self._packet = self.ffi.new("struct rnic_packet *")
        self._frame = self.ffi.new("uint8_t[]", _FRAME_BYTES)
        self._events = self.ffi.new("struct rnic_event[]", _BATCH)
        self._regions: dict[int, Any] = {}
        self._work: dict[tuple[int, int], list[Any]] = {}
        self._buffers: dict[tuple[int, int], list[Any]] = {}

    def close(self) -> None:
        """Free it; using it afterwards is a mistake of the caller."""
        self._finalizer()

    def _check(self, status: int) -> None:
        if status < 0:
            text = self.ffi.string(self.lib.rnic_error(self.handle)).decode()
            raise CardError(text, Status(status))

    # --- memory and queue pairs -----------------------------------------------------------------

    def register(self, rkey: int, address: int, memory: Any, access: Access) -> None:
        """Let peers use `memory` by `rkey`: a buffer, or how many bytes (header-only cards).

        Raises BufferError if peers may write what is read-only.
        """
        if isinstance(memory, int):
            base, length = self.ffi.NULL, memory
        else:
            writable = Access.REMOTE_WRITE in access
            base = self.ffi.from_buffer("uint8_t[]", memory, require_writable=writable)
            length = len(base)
        self._check(self.lib.rnic_register(self.handle, rkey, address, base, length, int(access)))
        self._regions[rkey] = base

    def deregister(self, rkey: int) -> None:
        """Deregister memory: peers can't use it any more."""
        self._check(self.lib.rnic_deregister(self.handle, rkey))
        self._regions.pop(rkey, None)

    def add_queue_pair(
        self, config: QueuePairConfig, congestion_control: Parameters | None = None
    ) -> None:
        """Make a queue pair; without congestion control it sends as fast as it may.

        Raises CardError, AlgorithmError.
        """
        native_config = self.ffi.new("struct rnic_qp_config *", config.fields())
        cc = pack(self.ffi, congestion_control)
        self._check(self.lib.rnic_add_qp(self.handle, native_config, cc))

    def connect(
        self, qpn: int, peer_ip: int, *, peer_qpn: int, peer_psn: int, peer_mac: int = 0
    ) -> None:
        """Join it to its peer."""
        self._check(self.lib.rnic_connect(self.handle, qpn, peer_ip, peer_mac, peer_qpn, peer_psn))

    def connect_ways(
        self, qpn: int, peer_ips: Sequence[int], *, peer_qpn: int, peer_psn: int
    ) -> None:
        """Join one of several interfaces to its peer, by gateways: the i-th to the i-th address."""
        peers = self.ffi.new("struct rnic_address[]", [{"ip": ip} for ip in peer_ips])
        self._check(
            self.lib.rnic_connect_ways(self.handle, qpn, peers, len(peers), peer_qpn, peer_psn)
        )

    def set_udp_port(self, qpn: int, udp_port: int) -> None:
        """Let a queue pair send from another source port on, also while it sends.

        Raises CardError (no such queue pair, ports that end behind 65535).
        """
        self._check(self.lib.rnic_set_udp_port(self.handle, qpn, udp_port))

    def remove_queue_pair(self, qpn: int) -> None:
        """Forget it, with its work."""
        self._check(self.lib.rnic_remove_qp(self.handle, qpn))
        for kept in (self._work, self._buffers):
            for key in [key for key in kept if key[0] == qpn]:
                del kept[key]

    # --- work -----------------------------------------------------------------------------------

    def post(self, qpn: int, work: Work, now: int = 0) -> None:
        """Hand over work; its memory is kept alive until it completes.

        Raises BufferError for a READ into memory that is read-only.
        """
        local: Any = self.ffi.NULL
        length = work.length
        if work.data is not None:
            writable = work.operation is Operation.READ
            local = self.ffi.from_buffer("uint8_t[]", work.data, require_writable=writable)
            length = len(local) if length is None else length
        request = self.ffi.new(
            "struct rnic_work *",
            {
                "id": work.id,
                "operation": int(work.operation),
                "immediate": work.immediate,
                "length": length or 0,
                "local": self.ffi.cast("uint8_t *", local),
                "remote_address": work.remote_address,
                "rkey": work.rkey,
            },
        )
        self._check(self.lib.rnic_post(self.handle, qpn, request, now))
        self._work.setdefault((qpn, work.id), []).append(local)

    def post_receive(
        self, qpn: int, id: int, buffer: Any = None, length: int | None = None
    ) -> None:
        """Hand over a receive buffer (writable, else BufferError), or None and a length."""
        local: Any = self.ffi.NULL
        if buffer is not None:
            local = self.ffi.from_buffer("uint8_t[]", buffer, require_writable=True)
            length = len(local) if length is None else length
        pointer = self.ffi.cast("uint8_t *", local)
        self._check(self.lib.rnic_post_receive(self.handle, qpn, id, pointer, length or 0))
        self._buffers.setdefault((qpn, id), []).append(local)

    def receive_anything(self, qpn: int) -> None:
        """Accept SENDs to a queue pair without buffers, and discard them."""
        self._check(self.lib.rnic_receive_anything(self.handle, qpn))

    def events(self) -> list[Event]:
        """Take what has happened since the last call."""
        found: list[Event] = []
        while n := self.lib.rnic_take_events(self.handle, self._events, _BATCH):
            for i in range(n):
                event = event_of(self._events[i])
                found.append(event)
                self._let_go(event)
        return found

    def _let_go(self, event: Event) -> None:
        key = (event.qpn, event.id)
        if event.kind in (EventKind.COMPLETED, EventKind.FAILED) and key in self._work:
            kept = self._work
        elif event.kind in (EventKind.RECEIVED, EventKind.FAILED) and key in self._buffers:
            kept = self._buffers
        else:
            return
        kept[key].pop(0)
        if not kept[key]:
            del kept[key]

    # --- packets --------------------------------------------------------------------------------

    def receive(self, frame: bytes, now: int, tail: int = 0, interface: int = 0) -> bool:
        """Receive a frame; return whether it was for a queue pair of this card."""
        given = (self.handle, interface, frame, len(frame), tail, now)
        return bool(self.lib.rnic_receive_on(*given))

    def advance(self, now: int) -> None:
        """Handle the time-outs due up to `now`."""
        self.lib.rnic_advance(self.handle, now)

    def transmit(self, now: int, interface: int = 0) -> Packet | None:
        """Take the next packet that may leave by an interface now."""
        packet = self._packet
        if not self.lib.rnic_transmit_on(self.handle, interface, now, packet):
            return None
        if self.config.whole:
            length = self.lib.rnic_write_packet(packet, self._frame)
            frame, tail = bytes(self.ffi.buffer(self._frame, length)), 0
        else:
            frame = bytes(self.ffi.buffer(packet.header, packet.header_length))
            tail = packet.payload_length + packet.pad + self.lib.RNIC_ICRC
        return Packet(
            frame,
            tail,
            packet.qpn,
            packet.queue,
            packet.psn,
            bool(packet.repeated),
            PacketKind(packet.kind),
        )

    def next_event(self, interface: int = 0) -> int:
        """Return when `advance` has work or `transmit` may have a packet.

        NEVER: not by time alone.
        """
        return int(self.lib.rnic_next_event_on(self.handle, interface))

    def set_pause(self, mask: int, interface: int = 0) -> None:
        """Pause queues (PFC): with bit q, queue q may not send by that interface."""
        self.lib.rnic_set_pause_on(self.handle, interface, mask)

    def set_busy(self, until: int, interface: int = 0) -> None:
        """Say until when an interface's line is taken; needed where there are several."""
        self.lib.rnic_set_busy(self.handle, interface, until)

    def set_link(self, interface: int, up: bool) -> None:
        """Take a link down or up."""
        self.lib.rnic_set_link(self.handle, interface, int(up))

    def outstanding_by(self, qpn: int, interface: int) -> list[int]:
        """Return the PSNs on the way whose last copy took this interface, not cut to 24 bits."""
        given = (self.handle, qpn, interface)
        count = self.lib.rnic_outstanding_by(*given, self.ffi.NULL, 0)
        found = self.ffi.new("uint64_t[]", max(1, count))
        self.lib.rnic_outstanding_by(*given, found, count)
        return [int(found[i]) for i in range(count)]

    def drain(self, interface: int, on: bool) -> None:
        """Let no new packet of queue pairs with planes take an interface, or let them again."""
        self.lib.rnic_drain(self.handle, interface, int(on))

    def plane_stats(self, qpn: int, interface: int, now: int = 0) -> PlaneStats:
        """Return what became of one plane of a queue pair. Raises CardError: it has none there."""
        row = self.ffi.new("struct rnic_plane_stats *")
        self._check(self.lib.rnic_plane_stats_get(self.handle, qpn, interface, now, row))
        return plane_stats_of(row)

    def migration_stats(self, qpn: int) -> MigrationStats:
        """Return where one stands that uses an interface at a time. Raises CardError: another."""
        row = self.ffi.new("struct rnic_migration_stats *")
        self._check(self.lib.rnic_migration_stats_get(self.handle, qpn, row))
        return migration_stats_of(row)

    def rearm(self, qpn: int, interface: int) -> None:
        """Name the next alternate of one that has migrated. Raises CardError (rnic_rearm)."""
        self._check(self.lib.rnic_rearm(self.handle, qpn, interface))

    def migrate(self, qpn: int, now: int) -> None:
        """Let it send by its alternate. Raises CardError: it is not armed, or that one is down."""
        self._check(self.lib.rnic_migrate(self.handle, qpn, now))

    # --- what happened --------------------------------------------------------------------------

    def stats(self) -> CardStats:
        """Return the card's counters."""
        row = self.ffi.new("struct rnic_stats *")
        self.lib.rnic_stats_get(self.handle, row)
        return card_stats_of(row)

    def notifications(self) -> list[Heard]:
        """Return what switches have said in datagrams, the latest first."""
        rows = self.ffi.new("struct rnic_notification[]", self.lib.RNIC_NOTIFICATIONS)
        n = self.lib.rnic_notifications(self.handle, rows, len(rows))
        return heard_rows(rows, n)

    def notification_counts(self) -> HeardCounts:
        """Return how many datagrams came to the notifications' port."""
        row = self.ffi.new("struct rnic_notification_counts *")
        self.lib.rnic_notification_counts_get(self.handle, row)
        return heard_counts(row)

    def queue_pair_stats(self, qpn: int, now: int = 0) -> QueuePairStats:
        """Return a queue pair's counters and its rate at `now`."""
        row = self.ffi.new("struct rnic_qp_stats *")
        self._check(self.lib.rnic_qp_stats_get(self.handle, qpn, now, row))
        return pair_stats_of(row)

    def next_psn(self, qpn: int) -> int:
        """Return the PSN that its next work request will have, not cut to 24 bits."""
        return int(self.lib.rnic_next_psn(self.handle, qpn))
