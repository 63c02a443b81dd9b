"""UDP datagrams of host programs, beside scapy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hostagent.programs.frames import Datagram, datagram_of, udp_frame
from hostagent.programs.program import Interface

HERE = Interface(1, 0x020000000001, 0x02FF00000002, 0x0A000001, 1500)
words = st.integers(0, 0xFFFF)


@given(st.integers(0, 0xFFFFFFFF), words, words, st.binary(max_size=300), st.integers(0, 63))
def test_a_datagram_is_what_scapy_makes_of_it(
    to: int, source_port: int, port: int, payload: bytes, dscp: int
) -> None:
    frame = udp_frame(HERE, to, source_port, port, payload, dscp=dscp, ecn=2)
    packet = Ether(frame)
    ip, udp = packet[IP], packet[UDP]
    assert (packet.dst, packet.src) == ("02:ff:00:00:00:02", "02:00:00:00:00:01")
    assert (ip.src, ip.tos, ip.len) == ("10.0.0.1", dscp << 2 | 2, 28 + len(payload))
    assert (udp.sport, udp.dport, udp.chksum) == (source_port, port, 0)
    assert bytes(udp)[8:] == payload
    given_sum, ip.chksum = ip.chksum, None
    assert IP(bytes(ip)).chksum == given_sum
    assert datagram_of(frame) == Datagram(HERE.ip, to, source_port, port, dscp, payload)


def test_options_are_passed_over_and_padding_is_left_out() -> None:
    packet = Ether() / IP(dst="10.0.0.9", options=[b"\x01" * 4]) / UDP(sport=1, dport=2) / Raw(b"x")
    found = datagram_of(bytes(packet) + bytes(20))
    assert found is not None
    assert (found.to, found.port, found.payload) == (0x0A000009, 2, b"x")


WHOLE = bytes(Ether() / IP(dst="10.0.0.9") / UDP(sport=1, dport=2) / Raw(b"hello"))


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_what_is_cut_off_is_no_datagram(length: int) -> None:
    assert datagram_of(WHOLE[:length]) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read(data: bytes) -> None:
    datagram_of(data)
    datagram_of(WHOLE[:14] + data)


def test_what_has_no_room_in_its_field_is_refused() -> None:
    with pytest.raises(ValueError, match="no such datagram"):
        udp_frame(HERE, 1, 2, 70_000, b"")
    with pytest.raises(ValueError, match="no such datagram"):
        udp_frame(HERE, 1, 2, 3, bytes(70_000))
    with pytest.raises(ValueError, match="no such datagram"):
        udp_frame(HERE, 1, 2, 3, b"", dscp=64)
