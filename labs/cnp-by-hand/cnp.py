"""What a CNP must look like, field by field, and what is wrong with one that does not.

Bytes of the frame:  0 Ethernet | 14 IPv4 | 34 UDP | 42 BTH | 54 reserved 16 | 70 ICRC 4
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from ipaddress import IPv4Address

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from labs.grade import Detail, Finding
from protocols.notification import Notification, NotificationType
from protocols.rocev2 import ROCE_V2_PORT, Opcode, icrc

from .control_plane import Connection, Setup

CNP_BYTES = 74
DSCP = 48
TTL = 64
ICRC_AT = 70
RESERVED = slice(54, 70)
LEAST_BYTES = 54

_ONES = b"\xff" * 8
_MASKED = {
    "TOS": (1,),
    "TTL": (8,),
    "the IPv4 checksum": (10, 11),
    "the UDP checksum": (26, 27),
    "BTH's fifth byte": (32,),
}


def address_details(frame: bytes, setup: Setup, flow: Connection) -> list[Detail]:
    """Ethernet, IPv4 and UDP: as the destination would have sent it, routed once by the switch."""
    ether, ip, udp = Ether(frame[:14]), IP(frame[14:34]), UDP(frame[34:42])
    right = bytearray(frame[14:34])
    right[10:12] = bytes(2)
    return [
        Detail.of("Ethernet destination", _mac(flow.source.mac), ether.dst),
        Detail.of("Ethernet source", _mac(setup.router_mac), ether.src),
        Detail.of("IPv4 source", _ip(flow.sink.ip), ip.src),
        Detail.of("IPv4 destination", _ip(flow.source.ip), ip.dst),
        Detail.of("DSCP", DSCP, ip.tos >> 2),
        Detail.of(
            "ECN", "0 (not capable)", f"{ip.tos & 3}{'' if ip.tos & 3 else ' (not capable)'}"
        ),
        Detail.of("IPv4 length", CNP_BYTES - 14, ip.len),
        Detail.of("IPv4 identification", 0, ip.id),
        Detail.of("IPv4 flags", "DF", str(ip.flags) or "none"),
        Detail.of("TTL, after one hop", TTL - 1, ip.ttl),
        Detail.of("IPv4 checksum", f"{checksum(bytes(right)):#06x}", f"{ip.chksum:#06x}"),
        Detail.of("UDP source port", flow.udp_port, udp.sport),
        Detail.of("UDP destination port", ROCE_V2_PORT, udp.dport),
        Detail.of("UDP length", CNP_BYTES - 34, udp.len),
        Detail.of("UDP checksum", 0, udp.chksum),
    ]


def bth_details(frame: bytes, flow: Connection) -> list[Detail]:
    """BTH: a CNP for the source's queue pair."""
    bth = BTH(frame[42:54] + bytes(4))
    return [
        Detail.of("BTH opcode", f"{int(Opcode.CNP):#04x}", f"{int(bth.opcode):#04x}"),
        Detail.of("BECN", 1, bth.becn),
        Detail.of("FECN", 0, bth.fecn),
        Detail.of("destination QP", f"{flow.source_qp:#08x}", f"{bth.dqpn:#08x}"),
        Detail.of("P_Key", "0xffff", f"{bth.pkey:#06x}"),
        Detail.of("PSN", 0, bth.psn),
        Detail.of("solicited, migrated", (0, 0), (bth.solicited, bth.migreq)),
        Detail.of("pad count, version", (0, 0), (bth.padcount, bth.version)),
        Detail.of("acknowledge", 0, bth.ackreq),
        Detail.of("reserved bits", (0, 0), (bth.resv6, bth.resv7)),
    ]


def length_details(frame: bytes) -> list[Detail]:
    """Check the frame's length, and its 16 bytes: zeros or a notification of congestion."""
    reserved = frame[RESERVED]
    notifies = reserved[:1] and reserved[0] >> 4 == NotificationType.CONGESTION
    zeros = bytes(RESERVED.stop - RESERVED.start).hex()
    right = bool(notifies) or reserved.hex() == zeros
    return [
        Detail.of("bytes of the frame", CNP_BYTES, len(frame)),
        Detail("16 reserved bytes", zeros, reserved.hex() or "none", right),
    ]


def notification_details(frame: bytes, setup: Setup, flow: Connection, port: int) -> list[Detail]:
    """Check the notification in the reserved bytes."""
    told = Notification(frame[RESERVED].ljust(16, b"\0"))
    return [
        Detail.of("type, 1: congestion", int(NotificationType.CONGESTION), told.type),
        Detail.of("severity", 0, told.severity),
        Detail.of("hops", 0, told.hops),
        Detail.of("validity", setup.validity, told.validity),
        Detail.of("switch_id", setup.switch_id, told.switch_id),
        Detail.of("port", port, told.port),
        Detail.of("destination", _ip(flow.sink.ip), told.destination),
        Detail.of("destination_qp", f"{flow.sink_qp:#08x}", f"{told.destination_qp:#08x}"),
        Detail.of("queue, the rate", setup.rate, told.queue),
    ]


def icrc_finding(frame: bytes) -> Finding:
    """Check the ICRC, and say what a wrong one was computed over."""
    cnp = frame[:CNP_BYTES]
    if len(cnp) < CNP_BYTES or cnp[14] != 0x45:
        return Finding.nothing(
            f"there is no ICRC at byte {ICRC_AT}: the frame has {len(frame)} bytes",
            "make hdr.icrc valid; it is deparsed behind the 16 reserved bytes",
        )
    came = cnp[ICRC_AT:]
    right = icrc(cnp).to_bytes(4, "little")
    row = Detail.of("ICRC, as on the wire", right.hex(" "), came.hex(" "))
    return Finding.of([row], _icrc_hint(cnp, came), "the ICRC is not the packet's")


def _icrc_hint(cnp: bytes, came: bytes) -> str:
    """Say which mistake gives the value that came; a general hint where none does."""
    for mistake, covered in _mistakes(cnp):
        value = zlib.crc32(covered).to_bytes(4, "little")
        if came == value and mistake:
            return mistake
        if came == value[::-1]:
            known = mistake or "the number is right"
            return f"{known}, and its bytes are turned round: the least significant comes first"
    if came == bytes(4):
        return "it is zero: put the result of hash() there, least significant byte first"
    return "it covers 8 bytes of ones and the packet from IPv4 to the 16 reserved bytes, masked"


def _mistakes(cnp: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may have been covered instead: (mistake, bytes); first what is right."""
    body = cnp[14:ICRC_AT]
    masked = bytearray(body)
    for offsets in _MASKED.values():
        for offset in offsets:
            masked[offset] = 0xFF
    yield "", _ONES + masked
    yield "the eight bytes of ones in front are missing", bytes(masked)
    for name, offsets in _MASKED.items():
        one = bytearray(masked)
        for offset in offsets:
            one[offset] = body[offset]
        yield f"{name} is not masked with ones", _ONES + one
        if name == "TTL":  # the switch has routed it since
            one[offsets[0]] += 1
            yield f"{name} is not masked with ones", _ONES + one
        for offset in offsets:
            one[offset] = 0
        yield f"{name} is masked with zeros: ones are right", _ONES + one


def checksum(header: bytes) -> int:
    """Compute the IPv4 header checksum; its field must be zero."""
    total = sum(int.from_bytes(header[i : i + 2]) for i in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _mac(value: int) -> str:
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6))


def _ip(value: int) -> str:
    return str(IPv4Address(value))
