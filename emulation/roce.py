"""RoCEv2 packets from one host to another: built with scapy, checked by their ICRC on arrival.

Each flow is a UDP source port of its own, as NICs choose it per queue pair, so that the fabric's
hash spreads flows over equal paths. Requests leave through the sender's kernel (its route, its
ARP); they are caught on the receiver's interface as the wire brought them.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from emulation import namespace
from emulation.live_host import LiveHost
from protocols.rocev2 import RETH, ROCE_V2_PORT, icrc_is_valid

FLOWS = 32
PACKETS_A_FLOW = 2
PAYLOAD_BYTES = 1024

_FIRST_SOURCE_PORT = 0xC000  # RoCEv2 NICs choose from the dynamic ports
_FIRST_QUEUE_PAIR = 0x100
_REMOTE_MEMORY, _REMOTE_KEY = 0x1000_0000, 0x1234
_WRITE_ONLY = 0x0A  # RC RDMA WRITE only
_DSCP_LOSSLESS = 26
_ETH_P_IP = 0x0800
_ETHERNET, _IPV4, _UDP = 14, 20, 8
_PACKET_OUTGOING = 4
_RECEIVE_BUFFER = 4 << 20
_PACE = 8  # packets between looks at the receiving socket


@dataclass(frozen=True)
class RoceReport:
    """How many packets were sent, arrived with a right ICRC, arrived damaged, and came twice."""

    source: str
    destination: str
    flows: int
    sent: int
    received: int
    bad_icrc: int
    duplicates: int

    @property
    def ok(self) -> bool:
        """Whether each packet arrived once and whole."""
        whole = self.bad_icrc == 0 and self.duplicates == 0
        return self.sent > 0 and self.received == self.sent and whole


def build(source: str, destination: str, flow: int, number: int) -> bytes:
    """Build one RDMA WRITE request, from its IPv4 header to its ICRC.

    `flow` chooses the UDP source port and the queue pair, `number` is the packet sequence number.
    """
    payload = bytes((flow + number + at) & 0xFF for at in range(PAYLOAD_BYTES))
    address = _REMOTE_MEMORY + number * PAYLOAD_BYTES
    packet = (
        # A set identification: the kernel would replace zero, which the ICRC covers.
        IP(src=source, dst=destination, id=number + 1, tos=_DSCP_LOSSLESS << 2, flags="DF")
        / UDP(sport=_FIRST_SOURCE_PORT + flow, dport=ROCE_V2_PORT, chksum=0)
        / BTH(opcode=_WRITE_ONLY, dqpn=_FIRST_QUEUE_PAIR + flow, psn=number, ackreq=1)
        / RETH(address=address, rkey=_REMOTE_KEY, length=PAYLOAD_BYTES)
        / Raw(payload)
    )
    return bytes(packet)


def exchange(
    source: LiveHost,
    destination: LiveHost,
    *,
    flows: int = FLOWS,
    packets_a_flow: int = PACKETS_A_FLOW,
    timeout_s: float = 5.0,
) -> RoceReport:
    """Send `flows` x `packets_a_flow` packets; count what arrives until `timeout_s` after them."""
    packets = [
        build(source.address, destination.address, flow, number)
        for number in range(packets_a_flow)
        for flow in range(flows)
    ]
    with (
        namespace.open_socket(
            source.pid, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW
        ) as tx,
        namespace.open_socket(
            destination.pid, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_IP)
        ) as rx,
        # A socket listens, else the receiver's kernel answers each packet "port unreachable".
        namespace.open_socket(destination.pid, socket.AF_INET, socket.SOCK_DGRAM) as listener,
    ):
        tx.bind((source.address, 0))  # the route is chosen by it, not by the header's address
        with suppress(OSError):  # the host's endpoint has the port
            listener.bind((destination.address, ROCE_V2_PORT))
        rx.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        rx.bind((destination.interface, _ETH_P_IP))
        seen: dict[tuple[int, int], int] = {}
        bad = 0
        for start in range(0, len(packets), _PACE):
            for packet in packets[start : start + _PACE]:
                tx.sendto(packet, (destination.address, 0))
            bad += _take(rx, seen, source.address)
        deadline = time.monotonic() + timeout_s
        while len(seen) + bad < len(packets) and (left := deadline - time.monotonic()) > 0:
            select.select([rx], [], [], left)
            bad += _take(rx, seen, source.address)
    duplicates = sum(count - 1 for count in seen.values())
    return RoceReport(
        source.name, destination.name, flows, len(packets), len(seen), bad, duplicates
    )


def _take(rx: socket.socket, seen: dict[tuple[int, int], int], source: str) -> int:
    """Sort what has arrived into `seen`, by (queue pair, sequence number); return the damaged."""
    bad = 0
    for frame in _arrived(rx, source):
        if not icrc_is_valid(frame):
            bad += 1
            continue
        bth = frame[_ETHERNET + _IPV4 + _UDP :]
        key = (int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big"))
        seen[key] = seen.get(key, 0) + 1
    return bad


def _arrived(rx: socket.socket, source: str) -> Iterator[bytes]:
    """Yield the frames with RoCEv2 packets from `source` that wait on a packet socket."""
    shortest = _ETHERNET + _IPV4 + _UDP + 12 + 4
    while True:
        try:
            frame, address = rx.recvfrom(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if address[2] == _PACKET_OUTGOING or len(frame) < shortest:
            continue
        packet = frame[_ETHERNET:]
        is_udp = packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP
        port = int.from_bytes(packet[22:24], "big")
        if is_udp and port == ROCE_V2_PORT and packet[12:16] == socket.inet_aton(source):
            # Ethernet pads short frames; the packet ends where its own header says.
            yield frame[: _ETHERNET + int.from_bytes(packet[2:4], "big")]
