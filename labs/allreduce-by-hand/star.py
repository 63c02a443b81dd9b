"""The learner's switch with four workers around it, and their packets.

worker 0 --+
worker 1 --+-- switch        ports, addresses, bits and the job's number are drawn
worker 2 --+
worker 3 --+
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from protocols.allreduce import (
    ALLREDUCE_PORT,
    CAPABLE,
    HOST_TTL,
    AllReduceKind,
    chunk_fields,
)
from softswitch import Switch
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r

WORKERS, LANES, SLOTS = 4, 8, 8
CELLS = 2 * SLOTS
CHUNKS = 1 << 32
GROUP = 1  # the multicast group of all workers
ROUTER_MAC = 0x020100000001
SWITCH_ADDRESS = 192 << 24 | 8
STEP_NS = 10_000
MOST_LEAVING = 64
"""Packets that may leave because of one."""

_IP = struct.Struct(">BBHHHBBHII")
_OURS = struct.Struct(">BBHHHIBBH")
FRAME_BYTES = 14 + 20 + 8 + _OURS.size + 4 * LANES
ON_THE_WIRE = 24  # preamble, FCS and gap

Values = tuple[int, ...]


class Unreadable(ValueError):
    """A packet is not as a worker needs it; the message says what is wrong with it."""


class Flood(Exception):
    """More packets left because of one than any program needs."""


@dataclass(frozen=True)
class Host:
    """A worker: its number, the port it is at, its addresses, and its bit of the bitmap."""

    number: int
    port: int
    mac: int
    address: int
    bit: int


@dataclass(frozen=True)
class Message:
    """An AllReduce packet: its header without what is always 0 here, and its integers."""

    kind: int
    job: int
    chunk: int
    slot: int
    version: int
    lanes: Values
    overflow: bool = False

    def packed(self) -> bytes:
        """Return it as it follows UDP."""
        where = self.version << 15 | self.slot
        header = _OURS.pack(
            self.kind, self.overflow, self.job, 0, where, self.chunk, 0, 0, len(self.lanes)
        )
        return header + struct.pack(f">{len(self.lanes)}i", *self.lanes)


@dataclass(frozen=True)
class Came:
    """What came to a worker, or why it can't be read; `worker` None: by a port without one."""

    worker: int | None
    message: Message | None
    wrong: str = ""


def contribution(job: int, chunk: int, lanes: Sequence[int]) -> Message:
    """Return a worker's contribution to a chunk."""
    where = chunk_fields(chunk % CHUNKS, SLOTS)
    place = where["chunk"], where["slot"], where["version"]
    return Message(AllReduceKind.CONTRIBUTION, job, *place, tuple(lanes))


def frame(message: Message, host: Host, udp_port: int = ALLREDUCE_PORT) -> bytes:
    """Return a packet as the worker at `host` sends it."""
    ours = message.packed()
    fields = [0x45, CAPABLE, 28 + len(ours), 0, 0x4000, HOST_TTL, 17, 0, host.address, 10 << 24 | 1]
    fields[7] = checksum(_IP.pack(*fields))
    ethernet = ROUTER_MAC.to_bytes(6) + host.mac.to_bytes(6) + b"\x08\x00"
    udp = struct.pack(">HHHH", udp_port, udp_port, 8 + len(ours), 0)
    return ethernet + _IP.pack(*fields) + udp + ours


def read(data: bytes, host: Host) -> Message:
    """Read what came to a worker. Raises Unreadable with the first thing that is wrong."""
    if len(data) != FRAME_BYTES:
        raise Unreadable(f"{len(data)} bytes instead of {FRAME_BYTES}")
    ip = _IP.unpack_from(data, 14)
    expected: tuple[tuple[str, object, object], ...] = (
        ("destination MAC", host.mac.to_bytes(6).hex(":"), data[:6].hex(":")),
        ("source MAC", ROUTER_MAC.to_bytes(6).hex(":"), data[6:12].hex(":")),
        ("EtherType and IPv4's first byte", "080045", data[12:15].hex()),
        ("IPv4 checksum over the header", 0, checksum(data[14:34])),
        ("IPv4 length", FRAME_BYTES - 14, ip[2]),
        ("destination address", _dotted(host.address), _dotted(ip[9])),
        ("source address", _dotted(SWITCH_ADDRESS), _dotted(ip[8])),
        ("UDP ports, length and checksum",
         (ALLREDUCE_PORT, ALLREDUCE_PORT, FRAME_BYTES - 34, 0),
         struct.unpack_from(">HHHH", data, 34)),
    )  # fmt: skip
    for what, right, came in expected:
        if right != came:
            raise Unreadable(f"{what} {came} instead of {right}")
    kind, flags, job, _, where, chunk, _, _, count = _OURS.unpack_from(data, 42)
    if count != LANES:
        raise Unreadable(f"lanes {count} instead of {LANES}")
    lanes = struct.unpack_from(f">{LANES}i", data, 42 + _OURS.size)
    return Message(kind, job, chunk, where & 0x7FFF, where >> 15, lanes, bool(flags & 1))


def checksum(header: bytes) -> int:
    """Return the Internet checksum of a header of even length; of one with its checksum: 0."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _dotted(address: int) -> str:
    return ".".join(str(byte) for byte in address.to_bytes(4))


class Star:
    """A switch that has just started, with the control plane's entries."""

    def __init__(self, pipeline: Pipeline, random: Random) -> None:
        """Draw who is where. Raises UnknownName, WriteError if the program lacks a table."""
        ports = random.sample(range(1, 200), WORKERS)
        bits = random.sample(range(WORKERS), WORKERS)
        self.job = random.randrange(1, 1 << 16)
        self.hosts = [
            Host(n, port, 0x0200 << 32 | random.randrange(1, 1 << 32), 10 << 24 | n + 2, bit)
            for n, (port, bit) in enumerate(zip(ports, bits, strict=True))
        ]
        self._at = {host.port: host for host in self.hosts}
        self.switch = Switch()
        self.switch.load(pipeline)
        self._enter()

    def _enter(self) -> None:
        add = self.switch.table_add
        add("job", {"job": self.job}, "set_job", {"all": (1 << WORKERS) - 1})
        group = p4r.MulticastGroupEntry(multicast_group_id=GROUP)
        for host in self.hosts:
            add("worker", {"port": host.port}, "be_worker", {"index": host.bit})
            known = {"src_mac": ROUTER_MAC, "dst_mac": host.mac, "dst": host.address}
            add("address", {"port": host.port}, "address_to_host", known)
            group.replicas.add(egress_port=host.port, instance=1)
        replication = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        self.switch.insert(packet_replication_engine_entry=replication)

    def send(self, worker: int, message: Message) -> list[Came]:
        """Let a worker send a packet; return what came of it. Raises Flood."""
        host = self.hosts[worker]
        return self.send_frame(host.port, frame(message, host))

    def send_frame(self, port: int, data: bytes) -> list[Came]:
        """Let a frame come by a port; return what came of it. Raises Flood."""
        self.switch.inject(port, data)
        outputs = self.switch.run_until(self.switch.now_ns + STEP_NS)
        if len(outputs) > MOST_LEAVING:
            raise Flood(f"{len(outputs)} packets left because of one")
        return [self._came(output.port, output.packet) for output in outputs]

    def _came(self, port: int, data: bytes) -> Came:
        host = self._at.get(port)
        if host is None:
            return Came(None, None, f"that left by port {port}, where there is no worker")
        try:
            return Came(host.number, read(data, host))
        except Unreadable as error:
            return Came(host.number, None, str(error))

    def close(self) -> None:
        """Free the switch."""
        self.switch.close()


@contextmanager
def started(pipeline: Pipeline, random: Random) -> Iterator[Star]:
    """Give a star, and free it afterwards."""
    star = Star(pipeline, random)
    try:
        yield star
    finally:
        star.close()
