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
import ipaddress
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hostagent import algorithms, bpf_syscall, notifications, pins
from hostagent.algorithms import Parameters
from hostagent.notifications import Heard, HeardCounts
from hostagent.pins import MAPS
from hostagent.rnic.native import native

SLOTS = 4096  # hostagent/bpf/roce_consts.h: CC_SLOTS, ENDPOINTS
ENDPOINTS = 256
COUNTERS = (
    "packets", "bytes", "data", "acks", "naks", "cnps", "notified", "marked", "malformed",
    "unknown_qp", "notification_type", "notification_qp", "redirected", "passed",
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


class MapsError(Exception):
    """The maps can't be used; the message says why and what would be right."""


class QueuePairLimit(MapsError):
    """All slots are taken."""


@dataclass(frozen=True)
class Slot:
    """A queue pair as the kernel keeps it: struct cc_slot.

    `algorithms`: those that apply, by name; `rates`: what each alone allows, in bits/s, `rate_bps`
    the smallest of these, 0 without any; `states`: each one's own fields, as its header in
    hostagent/include has them. `first_cut_at`: when the rate was first lowered, 0 for never; times
    are ns of CLOCK_MONOTONIC. `notified`: switches' notifications that an algorithm hears; `cnps`:
    all other CNPs.
    """

    number: int
    local_ip: int
    qpn: int
    peer_ip: int
    peer_qpn: int
    algorithms: tuple[str, ...]
    packets: int
    bytes: int
    cnps: int
    notified: int
    marked: int
    acks: int
    naks: int
    last_ns: int
    first_cut_at: int
    rate_bps: int
    line_rate_bps: int
    rates: Mapping[str, int]
    states: Mapping[str, Mapping[str, int]]

    @property
    def local(self) -> str:
        """Its own address, dotted."""
        return str(ipaddress.IPv4Address(self.local_ip))

    @property
    def peer(self) -> str:
        """Its peer's address, dotted."""
        return str(ipaddress.IPv4Address(self.peer_ip))


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
        """Nobody else adds or removes meanwhile."""
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
        """Give a queue pair a slot, whose congestion control starts now; returns its number.

        Notifications that name its peer are for it from now on, and for no older one of that peer.
        `more`: own and the peer's address of each interface but the first; its packets come to any
        of these from any of the peer's.

        Raises QueuePairLimit; MapsError if it has one already; AlgorithmError.
        """
        slot = self._ffi.new("struct cc_slot *")
        slot.qpn, slot.peer_qpn = qpn, peer_qpn
        slot.local_ip, slot.peer_ip = local_ip, peer_ip
        slot.mtu, slot.acked_psn = mtu, first_psn
        params = algorithms.pack(self._ffi, congestion_control)
        self._lib.cc_start_slot(slot, params, time.monotonic_ns())
        ways = ((local_ip, peer_ip), *more)
        keys = [_INDEX_KEY.pack(local, qpn) for local, _ in ways]
        with self._locked():
            for key in keys:
                if bpf_syscall.map_lookup(self._fds["cc_index"], key, 4) is not None:
                    raise MapsError(f"queue pair {qpn} of this host has a slot already")
            number = self._free_slot()
            packed = struct.pack("=I", number)
            # Nothing is known of packets of whoever had the slot before.
            bpf_syscall.map_update(self.sent_fd, packed, bytes(self._ffi.sizeof("struct cc_sent")))
            bpf_syscall.map_update(self.slots_fd, packed, bytes(self._ffi.buffer(slot)))
            try:
                for key in keys:
                    bpf_syscall.map_update(self._fds["cc_index"], key, packed, bpf_syscall.NO_EXIST)
                for peer in _peer_keys(ways, peer_qpn):
                    bpf_syscall.map_update(self._fds["cc_peers"], peer, packed)
            except OSError:  # one of several addresses takes more than one place of each
                self._remove(packed, ways, qpn, peer_qpn)
                raise QueuePairLimit(
                    f"no place is left for a queue pair of {len(ways)} addresses"
                ) from None
        return number

    def _free_slot(self) -> int:
        at = self._ffi.offsetof("struct cc_slot", "qpn")
        for step in range(SLOTS):
            number = (self._next_slot + step) % SLOTS
            start = number * self._stride + at
            if self._memory[start : start + 4] == _FREE:
                self._next_slot = number + 1
                return number
        raise QueuePairLimit(f"all {SLOTS} slots for queue pairs of this run are taken")

    def remove_queue_pair(
        self, local_ip: int, qpn: int, *, more: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Give the slot back; nothing happens if it has none.

        `more`: as `add_queue_pair` has it.
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
                return
            self._remove(number, ((local_ip, slot.peer_ip), *more), qpn, slot.peer_qpn)

    def _remove(
        self, number: bytes, ways: Sequence[tuple[int, int]], qpn: int, peer_qpn: int
    ) -> None:
        """Forget a slot and whatever leads to it; what leads to another one by now stays."""
        index, peers = self._fds["cc_index"], self._fds["cc_peers"]
        places = [(index, _INDEX_KEY.pack(local, qpn)) for local, _ in ways]
        # Notifications that name its peer are for nobody, unless a newer one has that.
        places += [(peers, key) for key in _peer_keys(ways, peer_qpn)]
        for fd, key in places:
            if bpf_syscall.map_lookup(fd, key, 4) == number:
                bpf_syscall.map_delete(fd, key)
        bpf_syscall.map_update(self.slots_fd, number, bytes(self.slot_bytes))

    def remove_host(self, local_ip: int) -> int:
        """Remove a host's queue pairs and its socket; returns how many queue pairs there were."""
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
        return self._read(number, row)

    def _read(self, number: int, row: Any) -> Slot:
        """Return a copy of a slot, which it changes, as Python has it."""
        now = time.monotonic_ns()
        own = algorithms.members(self._ffi, row.algorithms)
        rate = self._lib.cc_rate_now(row, now)
        rates: dict[str, int] = {}
        for place, name in enumerate(algorithms.names(self._ffi)):
            if name in own:
                row.algorithms = 1 << place
                rates[name] = self._lib.cc_rate_now(row, now)
        lines = [getattr(row, name).params.line_rate for name in own]
        return Slot(
            number,
            row.local_ip,
            row.qpn,
            row.peer_ip,
            row.peer_qpn,
            own,
            row.packets,
            row.bytes,
            row.cnps,
            row.notified,
            row.marked,
            row.acks,
            row.naks,
            row.last_at,
            row.first_cut_at,
            rate,
            min(lines, default=0),
            rates,
            {name: algorithms.state(self._ffi, getattr(row, name)) for name in own},
        )

    # --- hosts ----------------------------------------------------------------------------------

    def add_endpoint(self, local_ip: int, socket: int) -> int:
        """Redirect a host's packets to an AF_XDP socket (its descriptor); returns the socket's key.

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
        """A host's packets go up the stack again."""
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
        """Return the keys there are; a walk begins anew where its place has been forgotten."""
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
    """The kernel keeps a value for each processor that may come, not only those that are there."""
    text = Path("/sys/devices/system/cpu/possible").read_text().strip()
    return 1 + max(int(part.rpartition("-")[2]) for part in text.split(","))
