"""RETH and the ICRC check against scapy's own RoCEv2."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from protocols.rocev2 import RETH, ROCE_V2_PORT, icrc, icrc_is_valid


def write(payload: bytes, **ip: object) -> bytes:
    """Return an RDMA WRITE only, with the ICRC that scapy computes."""
    return bytes(
        Ether(src="02:00:0a:00:01:01", dst="02:01:00:00:00:01")
        / IP(src="10.0.1.1", dst="10.0.2.1", **ip)
        / UDP(sport=49152, dport=ROCE_V2_PORT)
        / BTH(opcode="RC_RDMA_WRITE_ONLY", dqpn=0x11, psn=7)
        / RETH(address=0x1000, rkey=0xCAFE, length=len(payload))
        / Raw(payload)
    )


@settings(deadline=None)  # other tests share the processor
@given(payload=st.binary(min_size=0, max_size=64), tos=st.integers(0, 255), ttl=st.integers(1, 255))
def test_icrc_is_scapys(payload: bytes, tos: int, ttl: int) -> None:
    frame = write(payload, tos=tos, ttl=ttl)
    assert icrc(frame) == int.from_bytes(frame[-4:], "little")
    assert icrc_is_valid(frame)


def test_what_a_router_changes_leaves_the_icrc_valid() -> None:
    routed = Ether(write(b"payload"))
    routed.dst, routed.src = "02:00:0a:00:02:01", "02:01:00:00:00:02"
    routed[IP].ttl -= 3
    routed[IP].tos = 26 << 2 | 3  # another class, and marked
    del routed[IP].chksum
    assert icrc_is_valid(bytes(routed))


@pytest.mark.parametrize("offset", [26, 30, 34, 36, 42, 47, 50, 53, 54, 65, 70])
def test_anything_else_that_changes_breaks_it(offset: int) -> None:
    frame = bytearray(write(b"payload"))
    frame[offset] ^= 1
    assert not icrc_is_valid(bytes(frame))


@pytest.mark.parametrize(
    ("frame", "message"),
    [(b"", "too few"), (bytes(57), "too few"), (bytes(14) + b"\x46" + bytes(80), "20 bytes")],
)
def test_frames_without_an_icrc_are_refused(frame: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        icrc(frame)


def test_reth_stands_behind_bth() -> None:
    packet = Ether(write(b"abcd"))
    assert (packet[RETH].address, packet[RETH].rkey, packet[RETH].length) == (0x1000, 0xCAFE, 4)
