"""Captures: tails as the core writes them out, ICRCs that NICs accept, frames in order of time."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from protocols.rocev2 import icrc_is_valid
from simulator.pcap import PortCapture, parse_port, payload, written_out
from simulator.result_model import ResultError
from softswitch.core.binding import SwitchCore
from topologies import load

PS = 10**12


class Tapped(NamedTuple):
    at: int
    node: int
    port: int
    data: bytes
    tail_length: int = 0
    tail_seed: int = 0


def roce_headers(tail: int) -> bytes:
    """Ethernet to BTH of a frame that `tail` bytes follow, the ICRC among them."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2", len=20 + 8 + 12 + tail, ttl=64)
    udp = UDP(sport=49152, dport=4791, len=8 + 12 + tail, chksum=0)
    head = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / udp)
    return head + bytes(BTH(opcode=4, dqpn=7, psn=3))[:12]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1028, 4100])
def test_a_tail_is_what_the_core_writes_out(length: int) -> None:
    core = SwitchCore()
    for seed in (0, 1, 0xDEADBEEF, 2**64 - 1):
        assert payload(seed, length) == core.payload(seed, length)


def test_a_roce_packet_gets_its_icrc() -> None:
    frame = written_out(roce_headers(1028), 1028, 99)
    assert len(frame) == 14 + 20 + 8 + 12 + 1028
    assert icrc_is_valid(frame)
    packet = Ether(frame)  # scapy computes it anew when it builds the same packet
    assert packet[BTH].icrc == int.from_bytes(frame[-4:], "big")
    again = packet.copy()
    again[BTH].icrc = None
    assert bytes(again) == frame


def test_marking_does_not_change_the_icrc() -> None:
    plain, marked = roce_headers(260), bytearray(roce_headers(260))
    marked[15] |= 3
    assert written_out(plain, 260, 5)[-4:] == written_out(bytes(marked), 260, 5)[-4:]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((36, b"\x12\xb8"), id="another port"),
        pytest.param((23, b"\x06"), id="tcp"),
        pytest.param((12, b"\x86\xdd"), id="ipv6"),
        pytest.param((16, b"\x00\x50"), id="truncated"),
    ],
)
def test_what_is_not_roce_keeps_its_tail(change: tuple[int, bytes]) -> None:
    offset, value = change
    data = bytearray(roce_headers(100))
    data[offset : offset + len(value)] = value
    assert written_out(bytes(data), 100, 8) == bytes(data) + payload(8, 100)


def test_a_packet_without_a_tail_is_left_alone() -> None:
    data = roce_headers(8) + b"12345678"
    assert written_out(data, 0, 3) == data


def test_frames_are_written_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "s1-2.pcap"
    frames = [bytes([number]) * 64 for number in range(4)]
    with PortCapture(path, node=3, port=2, hold_ps=5000) as capture:
        capture.write([Tapped(2_000_000, 3, 2, frames[1]), Tapped(1, 9, 2, b"other node" * 8)])
        capture.write([Tapped(1_999_000, 3, 2, frames[0]), Tapped(1, 3, 1, b"other port" * 8)])
        capture.write([Tapped(7 * PS + 1_999, 3, 2, frames[3]), Tapped(PS, 3, 2, frames[2])])
    assert capture.frames == 4
    raw = path.read_bytes()
    assert struct.unpack_from("<IHH", raw) == (0xA1B23C4D, 2, 4)
    found = rdpcap(str(path))
    assert [bytes(packet) for packet in found] == frames
    assert [float(packet.time) for packet in found] == pytest.approx(
        [1.999e-6, 2e-6, 1.0, 7.000000001]
    )
    assert struct.unpack_from("<II", raw, 24 + 3 * (16 + 64)) == (7, 1)


def test_a_file_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="can't write"):
        PortCapture(tmp_path / "no" / "x.pcap", 0, 0)


def test_ports_are_named_as_in_topologies() -> None:
    topology = load("leafspine")
    assert str(parse_port("s1:2", topology)) == "s1:2"
    assert str(parse_port("h1", topology)) == "h1"
    for text, message in (
        ("x9:1", "no node is called 'x9'"),
        ("s1", "s1 has no such port"),
        ("s1:99", "s1 has no such port"),
        ("h1:3", "h1 has no such port"),
        ("s1:a", "s1 has no such port"),
    ):
        with pytest.raises(ResultError, match=message) as caught:
            parse_port(text, topology)
        assert caught.value.remedy
