"""A RoCEv2 packet of a flow that no queue pair takes: what switches are asked by where it goes.

To a switch it is a packet of the flow: same addresses, UDP ports and DSCP. It is a SEND to queue
pair 1, which is the network management's and no card here has, without payload: a host drops it.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

ROCE_V2_PORT = 4791
SHORTEST_BYTES = 60
_SEND_ONLY, _P_KEY, _QUEUE_PAIR = 0x04, 0xFFFF, 1
_BTH_BYTES, _ICRC_BYTES = 12, 4
_DO_NOT_FRAGMENT, _TTL, _UDP = 0x4000, 64, 17
_ECN_CAPABLE = 2


def probe_frame(
    macs: tuple[str, str],
    addresses: tuple[IPv4Address, IPv4Address],
    udp_port: int,
    dscp: int,
    *,
    identification: int = 0,
) -> bytes:
    """Return the frame, from the Ethernet header on and without an FCS.

    `macs`: of the gateway and of the source. `addresses`: of source and destination.
    `identification`: IPv4's, which no switch hashes, to tell probes from a flow's own packets.
    """
    bth = struct.pack("!BBHII", _SEND_ONLY, 0, _P_KEY, _QUEUE_PAIR, 0)
    size = 8 + _BTH_BYTES + _ICRC_BYTES
    udp = struct.pack("!HHHH", udp_port, ROCE_V2_PORT, size, 0) + bth + bytes(_ICRC_BYTES)
    version_and_length, tos, length = 0x45, dscp << 2 | _ECN_CAPABLE, 20 + size
    ip = bytearray(
        struct.pack(
            "!BBHHHBBH",
            version_and_length,
            tos,
            length,
            identification,
            _DO_NOT_FRAGMENT,
            _TTL,
            _UDP,
            0,
        )
    )
    ip += addresses[0].packed + addresses[1].packed
    ip[10:12] = _checksum(ip)
    frame: bytes = bytes.fromhex("".join(macs).replace(":", "")) + b"\x08\x00" + bytes(ip) + udp
    return frame.ljust(SHORTEST_BYTES, b"\0")


def _checksum(header: bytes | bytearray) -> bytes:
    """Return IPv4's checksum of a header whose checksum is 0."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")
