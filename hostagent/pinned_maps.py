"""The maps that the kernel and its users share, by their pins: queue pairs' slots, hosts' sockets.

    maps = PinnedMaps.open(Path("/sys/fs/bpf/weft-1f3a"))
    slot = maps.add_queue_pair(
        local_ip, qpn, peer_ip, peer_qpn, mtu=1024, congestion_control=...)
    for each in maps.slots(): print(each.qpn, each.rate_bps)
    for each in maps.notifications(): print(each.kind.name, each.switch_id, each.times)

Several processes may use one directory at a time. Addresses are integers in host order. Who made
a queue pair removes it; `remove_host` takes away what a killed endpoint left.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from hostagent import algorithms, bpf_syscall, notifications, pins
from hostagent.algorithms import Parameters
from hostagent.notifications import Heard, HeardCounts
from hostagent.pins import MAPS
from hostagent.rnic.native import native
from hostagent.slots import Plane, Slot, read_slot

__all__ = ["COUNTERS", "SLOTS", "MapsError", "PinnedMaps", "Plane", "QueuePairLimit", "Slot"]

SLOTS = 4096  # hostagent/bpf/roce_consts.h: CC_SLOTS, ENDPOINTS
ENDPOINTS = 256
COUNTERS = (
    "packets", "bytes", "data", "acks", "naks", "cnps", "notified", "marked", "malformed",
    "unknown_qp", "notification_type", "notification_qp", "redirected", "passed",
    "probes", "probe_answers",
)  # fmt: skip
"""enum roce_counter."""

_INDEX_KEY = struct.Struct("=II")  # struct queue_pair_key: own address and number
_PEER_KEY = struct.Struct("=III")  # struct peer_key: own address, peer's address and number
_HEARD_KEY = struct.Struct("=IHHI")  # struct notification_key: address, switch, port, type
_HEARD = struct.Struct("=QQ16sII")  # struct notification_heard: when, how often, header, body
_HEARD_COUNTERS = 3  # enum notification_counter: behind the types
NOTIFICATIONS = 4096  # hostagent/bpf/notifications.h
_FREE = bytes(4)  # the queue pair's number in a free slot
_READS = 64  # of a slot that is being written
_PLANES = range(2, 9)  # how many a queue pair may have: hostagent/rnic/core/rnic.h, RNIC_INTERFACES


class MapsError(Exception):
    """The maps can't be used; the message says why and what would be right."""


class QueuePairLimit(MapsError):
    """All slots are taken."""


class PinnedMaps:
    """The maps of one run."""

    def __init__(self, directory: Path, descriptors: dict[str, int]) -> None:
        self.directory = directory
        self._fds = descriptors
        self._next_slot = 0  # where to look for a free one first
        module = native()
        self._ffi: Any = module.ffi
        self._lib: Any = module.lib
        self.slot_bytes = int(self._ffi.sizeof("struct cc_slot"))
        self._memory = mmap.mmap(self.slots_fd, SLOTS * self._stride, prot=mmap.PROT_READ)

    @property
    def _stride(self) -> int:
        return (self.slot_bytes + 7) // 8 * 8

    @classmethod
    def open(cls, directory: Path) -> PinnedMaps:
        """Take up what is pinned in `directory`. Raises MapsError."""
        descriptors: dict[str, int] = {}
        try:
            pins.check(directory)
            for name in MAPS:
                descriptors[name] = bpf_syscall.get(directory / name)
        except pins.PinsError as error:
            raise MapsError(str(error)) from None
        except OSError as error:
            for fd in descriptors.values():
                os.close(fd)
            raise MapsError(
                f"no host agent's maps in {directory} ({error.strerror}): is a run active, and "
                "does `weft doctor` find eBPF working?"
            ) from None
        return cls(directory, descriptors)

    def close(self) -> None:
        """Let go of the maps; they stay pinned."""
        self._memory.close()
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    @property
    def slots_fd(self) -> int:
        """The descriptor of the slots, to be mapped read-only."""
        return self._fds["cc_slots"]

    @property
    def sent_fd(self) -> int:
        """The descriptor of the slots' send times (struct cc_sent), to be mapped and written."""
        return self._fds["cc_sent"]

    @property
    def sockets_fd(self) -> int:
        """The descriptor of the map of AF_XDP sockets."""
        return self._fds["sockets"]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others from adding or removing in the block."""
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # --- queue pairs ----------------------------------------------------------------------------

    def add_queue_pair(
        self,
        local_ip: int,
        qpn: int,
        peer_ip: int,
        peer_qpn: int,
        *,
        mtu: int,
        first_psn: int = 0,
        congestion_control: Parameters | None = None,
        more: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Give a queue pair a slot, whose congestion control starts now; return its number.

        Notifications that name its peer are for it from now on, and for no older one of that peer.
        `more`: own and the peer's address of each interface but the first; its packets come to any
        of these from any of the peer's.

        Raises QueuePairLimit; MapsError if it has one already; AlgorithmError.
        """
        ways = ((local_ip, peer_ip), *more)
        row = self._row(Plane(local_ip, peer_ip, congestion_control), qpn, peer_qpn, mtu, first_psn)
        with self._locked():
            self._refuse_known(qpn, ways)
            (number,) = self._free_slots(1)
            row.shared = number
            if not self._put(number, row, ways):  # several addresses take several places
                raise QueuePairLimit(f"no place is left for a queue pair of {len(ways)} addresses")
        return number

    def add_planes(
        self, qpn: int, peer_qpn: int, planes: Sequence[Plane], *, mtu: int, first_psn: int = 0
    ) -> tuple[int, ...]:
        """Give a queue pair a slot for each of its planes, or none; return their numbers.

        The first one's number is what the others have as `shared`: its element of `cc_sent` says
        what was sent by which plane, and each one's own when that plane was lost. Packets come to
        a plane's address from the peer's address there, and from no other.

        Raises QueuePairLimit; MapsError for an address twice, or one that has this queue pair
        already; AlgorithmError; ValueError for fewer than 2 planes or more than 8.
        """
        if len(planes) not in _PLANES:
            raise ValueError(f"queue pair {qpn} has {len(planes)} planes: from 2 to 8 are possible")
        ways = [(each.local_ip, each.peer_ip) for each in planes]
        if len({local for local, _ in ways}) < len(ways):
            raise MapsError(f"queue pair {qpn}: two planes have the same address")
        rows = [self._row(each, qpn, peer_qpn, mtu, first_psn) for each in planes]
        with self._locked():
            self._refuse_known(qpn, ways)
            numbers = self._free_slots(len(rows))
            for plane, (number, row, way) in enumerate(zip(numbers, rows, ways, strict=True)):
                row.shared, row.plane, row.planes = numbers[0], plane, len(rows)
                if not self._put(number, row, [way]):
                    self._remove_planes(numbers[0], numbers[:plane])
                    raise QueuePairLimit(f"no place is left for a queue pair of {len(rows)} planes")
        return tuple(numbers)

    def _row(self, way: Plane, qpn: int, peer_qpn: int, mtu: int, first_psn: int) -> Any:
        """Make a slot whose congestion control starts now. Raises AlgorithmError."""
        row = self._ffi.new("struct cc_slot *")
        row.qpn, row.peer_qpn = qpn, peer_qpn
        row.local_ip, row.peer_ip = way.local_ip, way.peer_ip
        row.mtu, row.acked_psn = mtu, first_psn
        params = algorithms.pack(self._ffi, way.congestion_control)
        self._lib.cc_start_slot(row, params, time.monotonic_ns())
        return row

    def _refuse_known(self, qpn: int, ways: Sequence[tuple[int, int]]) -> None:
        for local, _ in ways:
            key = _INDEX_KEY.pack(local, qpn)
            if bpf_syscall.map_lookup(self._fds["cc_index"], key, 4) is not None:
                raise MapsError(f"queue pair {qpn} of this host has a slot already")

    def _put(self, number: int, row: Any, ways: Sequence[tuple[int, int]]) -> bool:
        """Write a slot and what leads to it; where there is no place for that, nothing."""
        packed = struct.pack("=I", number)
        # Nothing is known of packets of the slot's former owner.
        bpf_syscall.map_update(self.sent_fd, packed, bytes(self._ffi.sizeof("struct cc_sent")))
        bpf_syscall.map_update(self.slots_fd, packed, bytes(self._ffi.buffer(row)))
        try:
            for local, _ in ways:
                key = _INDEX_KEY.pack(local, row.qpn)
                bpf_syscall.map_update(self._fds["cc_index"], key, packed, bpf_syscall.NO_EXIST)
            for peer in _peer_keys(ways, row.peer_qpn):
                bpf_syscall.map_update(self._fds["cc_peers"], peer, packed)
        except OSError:
            self._remove(packed, ways, row.qpn, row.peer_qpn)
            return False
        return True

    def _free_slots(self, wanted: int) -> list[int]:
        """Return numbers of so many free slots. Raises QueuePairLimit."""
        at = self._ffi.offsetof("struct cc_slot", "qpn")
        found: list[int] = []
        for step in range(SLOTS):
            number = (self._next_slot + step) % SLOTS
            start = number * self._stride + at
            if self._memory[start : start + 4] == _FREE:
                found.append(number)
                if len(found) == wanted:
                    self._next_slot = number + 1
                    return found
        if found:
            raise QueuePairLimit(
                f"a queue pair of {wanted} planes takes {wanted} slots, and of the {SLOTS} of this "
                f"run {len(found)} are free"
            )
        raise QueuePairLimit(f"all {SLOTS} slots for queue pairs of this run are taken")

    def remove_queue_pair(
        self, local_ip: int, qpn: int, *, more: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Give the slot back; nothing happens if it has none.

        `more`: as `add_queue_pair` has it. Of a queue pair over planes any plane's address will do:
        all of its slots are given back.
        """
        key = _INDEX_KEY.pack(local_ip, qpn)
        with self._locked():
            number = bpf_syscall.map_lookup(self._fds["cc_index"], key, 4)
            if number is None:
                return
            slot = self.slot(struct.unpack("=I", number)[0])
            if slot is None or (slot.local_ip, slot.qpn) != (local_ip, qpn):
                # Another address of a queue pair that is gone: the slot may be another's by now.
                bpf_syscall.map_delete(self._fds["cc_index"], key)
            elif slot.planes:
                self._remove_planes(slot.shared, self._numbers_of(qpn))
            else:
                self._remove(number, ((local_ip, slot.peer_ip), *more), qpn, slot.peer_qpn)

    def _numbers_of(self, qpn: int) -> list[int]:
        """Return the slots of all hosts' queue pairs of this number."""
        at, wanted = self._ffi.offsetof("struct cc_slot", "qpn"), struct.pack("=I", qpn)
        starts = range(at, SLOTS * self._stride, self._stride)
        return [n for n, start in enumerate(starts) if self._memory[start : start + 4] == wanted]

    def _remove_planes(self, shared: int, numbers: Sequence[int]) -> None:
        """Forget those of these slots that are planes of the queue pair with that first slot.

        The first one goes last: the others need it until then.
        """
        for number in sorted(numbers, key=lambda each: each == shared):
            slot = self.slot(number)
            if slot is not None and slot.planes and slot.shared == shared:
                way = (slot.local_ip, slot.peer_ip)
                self._remove(struct.pack("=I", number), [way], slot.qpn, slot.peer_qpn)

    def _remove(
        self, number: bytes, ways: Sequence[tuple[int, int]], qpn: int, peer_qpn: int
    ) -> None:
        """Forget a slot and whatever leads to it; what leads to another one by now stays."""
        index, peers = self._fds["cc_index"], self._fds["cc_peers"]
        places = [(index, _INDEX_KEY.pack(local, qpn)) for local, _ in ways]
        # Notifications that name its peer have no receiver, unless a newer one has that.
        places += [(peers, key) for key in _peer_keys(ways, peer_qpn)]
        for fd, key in places:
            if bpf_syscall.map_lookup(fd, key, 4) == number:
                bpf_syscall.map_delete(fd, key)
        bpf_syscall.map_update(self.slots_fd, number, bytes(self.slot_bytes))

    def remove_host(self, local_ip: int) -> int:
        """Remove a host's queue pairs and its socket; return how many queue pairs there were.

        Of a queue pair over planes all planes go, also those of other addresses.
        """
        keys = [_INDEX_KEY.unpack(key) for key in bpf_syscall.map_keys(self._fds["cc_index"], 8)]
        own = [qpn for ip, qpn in keys if ip == local_ip]
        for qpn in own:
            self.remove_queue_pair(local_ip, qpn)
        with self._locked():  # and what a queue pair of several addresses had of this one
            for key in bpf_syscall.map_keys(self._fds["cc_peers"], _PEER_KEY.size):
                if _PEER_KEY.unpack(key)[0] == local_ip:
                    bpf_syscall.map_delete(self._fds["cc_peers"], key)
        self.remove_endpoint(local_ip)
        return len(own)

    def slots(self) -> Iterator[Slot]:
        """Yield the queue pairs that have a slot."""
        at = self._ffi.offsetof("struct cc_slot", "qpn")
        for number in range(SLOTS):
            start = number * self._stride + at
            if self._memory[start : start + 4] == _FREE:
                continue
            found = self.slot(number)
            if found is not None:
                yield found

    def slot(self, number: int) -> Slot | None:
        """Return slot `number` as it is now, None if it is free."""
        ffi = self._ffi
        start = number * self._stride
        row = ffi.new("struct cc_slot *")
        for _ in range(_READS):
            data = self._memory[start : start + self.slot_bytes]
            ffi.buffer(row)[:] = data
            again = self._memory[start : start + 4]
            if not row.sequence & 1 and again == data[:4]:
                break
        if not row.qpn:
            return None
        return read_slot(number, row)

    # --- hosts ----------------------------------------------------------------------------------

    def add_endpoint(self, local_ip: int, socket: int) -> int:
        """Redirect a host's packets to an AF_XDP socket (its descriptor); return the socket's key.

        Raises MapsError: there are more hosts than sockets, or no such socket.
        """
        host = struct.pack("=I", local_ip)
        with self._locked():
            keys = bpf_syscall.map_keys(self._fds["endpoints"], 4)
            values = (bpf_syscall.map_lookup(self._fds["endpoints"], key, 4) for key in keys)
            taken = {struct.unpack("=I", value)[0] for value in values if value is not None}
            free = next((key for key in range(ENDPOINTS) if key not in taken), None)
            if free is None:
                raise MapsError(f"more than {ENDPOINTS} hosts have an endpoint")
            key = struct.pack("=I", free)
            try:
                bpf_syscall.map_update(self.sockets_fd, key, struct.pack("=I", socket))
            except OSError as error:
                raise MapsError(f"the AF_XDP socket is refused: {error.strerror}") from None
            bpf_syscall.map_update(self._fds["endpoints"], host, key)
        return free

    def remove_endpoint(self, local_ip: int) -> None:
        """Remove a host: its packets go up the stack again."""
        host = struct.pack("=I", local_ip)
        with self._locked():
            key = bpf_syscall.map_lookup(self._fds["endpoints"], host, 4)
            if key is None:
                return
            bpf_syscall.map_delete(self._fds["endpoints"], host)
            bpf_syscall.map_delete(self.sockets_fd, key)

    def counters(self) -> dict[str, int]:
        """Return what the program has counted, over all hosts and processors."""
        values = self._counted("counters", len(COUNTERS))
        return dict(zip(COUNTERS, values, strict=True))

    def _counted(self, name: str, size: int) -> list[int]:
        """Return the sums over all processors of an array of counters."""
        processors = _possible_processors()
        found: list[int] = []
        for index in range(size):
            key = struct.pack("=I", index)
            data = bpf_syscall.map_lookup(self._fds[name], key, 8 * processors)
            found.append(sum(struct.unpack(f"={processors}Q", data)) if data else 0)
        return found

    # --- notifications --------------------------------------------------------------------------

    def notifications(self, local_ip: int | None = None) -> Iterator[Heard]:
        """Yield what hosts have heard of switches in datagrams, in no order.

        `local_ip`: of one host alone. What is forgotten meanwhile, in a flood, may be missing.
        """
        fd = self._fds["notifications"]
        for key in self._heard_keys():
            data = bpf_syscall.map_lookup(fd, key, _HEARD.size)
            host = _HEARD_KEY.unpack(key)[0]
            if data is None or local_ip not in (None, host):
                continue
            at_ns, times, header, body_bytes, _ = _HEARD.unpack(data)
            yield notifications.read(
                header, local_ip=host, body_bytes=body_bytes, at_ns=at_ns, times=times
            )

    def _heard_keys(self) -> dict[bytes, None]:
        """Return all keys; a walk restarts where its place has been forgotten."""
        keys = bpf_syscall.map_walk(self._fds["notifications"], _HEARD_KEY.size)
        return dict.fromkeys(islice(keys, 4 * NOTIFICATIONS))

    def notification_counts(self) -> HeardCounts:
        """Return how many datagrams came to the notifications' port, over all hosts."""
        *types, malformed, no_queue_pair, lost = self._counted(
            "notified_counts", notifications.TYPES + _HEARD_COUNTERS
        )
        found = {kind: packets for kind, packets in enumerate(types) if packets}
        return HeardCounts(found, malformed, no_queue_pair, lost)


def _peer_keys(ways: Sequence[tuple[int, int]], peer_qpn: int) -> list[bytes]:
    """Return a queue pair's places by its peer: any of its addresses and any of the peer's."""
    return [_PEER_KEY.pack(local, peer, peer_qpn) for local, _ in ways for _, peer in ways]


def _possible_processors() -> int:
    """Count the processors that may come, not only those present: the kernel keeps a value for
    each.
    """
    text = Path("/sys/devices/system/cpu/possible").read_text().strip()
    return 1 + max(int(part.rpartition("-")[2]) for part in text.split(","))
