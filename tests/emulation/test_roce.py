"""RoCEv2 packets and their ICRC, checked against scapy's own computation."""

from __future__ import annotations

import pytest
from scapy.contrib.roce import BTH, cnp
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from emulation import roce

WRITE = roce.build("10.0.1.1", "10.0.2.1", flow=3, number=7)


@pytest.mark.parametrize(
    "packet",
    [
        IP(src="10.0.0.1", dst="10.0.0.2", id=1, tos=104) / UDP(sport=49152, dport=4791, chksum=0)
        / BTH(opcode=0x0A, dqpn=0x123456, psn=0xFFFFFF) / Raw(b"x" * 64),
        IP(src="192.168.9.9", dst="10.0.0.2", id=77, ttl=3) / UDP(sport=1, dport=4791)
        / BTH(opcode=0x04, fecn=1, becn=1, resv6=0x15) / Raw(b"odd"),
        IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=50000, dport=4791) / cnp(dqpn=9),
    ],
    ids=["write", "marked", "cnp"],
)  # fmt: skip
def test_the_icrc_is_scapys(packet: IP) -> None:
    assert roce.has_right_icrc(bytes(packet))


def test_a_built_packet_is_what_a_nic_would_send() -> None:
    packet = IP(WRITE)
    assert (packet.src, packet.dst, packet[UDP].dport) == ("10.0.1.1", "10.0.2.1", 4791)
    assert packet[UDP].sport == 0xC003
    assert (packet[BTH].opcode, packet[BTH].dqpn, packet[BTH].psn) == (0x0A, 0x103, 7)
    assert packet.id != 0  # the kernel replaces zero, which the ICRC covers
    assert packet.len == len(WRITE) == 20 + 8 + 12 + 16 + roce.PAYLOAD_BYTES + 4
    assert roce.has_right_icrc(WRITE)


MAY_CHANGE = (1, 8, 10, 26, 32)  # bytes of the packet: TOS, TTL, two checksums, FECN and BECN
MUST_NOT_CHANGE = (4, 12, 20, 24, 28, 35, 60)


@pytest.mark.parametrize(
    ("at", "may_change"),
    [*((at, True) for at in MAY_CHANGE), *((at, False) for at in MUST_NOT_CHANGE)],
)
def test_the_icrc_covers_what_switches_must_not_change(at: int, may_change: bool) -> None:
    changed = bytearray(WRITE)
    changed[at] ^= 0x40
    assert roce.has_right_icrc(bytes(changed)) is may_change
