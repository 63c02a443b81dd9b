"""The RoCEv2 packets that the proof sends."""

from __future__ import annotations

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from emulation import roce
from protocols.rocev2 import RETH, icrc_is_valid

WRITE = roce.build("10.0.1.1", "10.0.2.1", flow=3, number=7)


def test_a_built_packet_is_what_a_nic_would_send() -> None:
    packet = IP(WRITE)
    assert (packet.src, packet.dst, packet[UDP].dport) == ("10.0.1.1", "10.0.2.1", 4791)
    assert packet[UDP].sport == 0xC003
    assert (packet[BTH].opcode, packet[BTH].dqpn, packet[BTH].psn) == (0x0A, 0x103, 7)
    assert packet.id != 0  # the kernel replaces zero, which the ICRC covers
    assert packet.len == len(WRITE) == 20 + 8 + 12 + 16 + roce.PAYLOAD_BYTES + 4
    assert packet[RETH].length == roce.PAYLOAD_BYTES
    assert icrc_is_valid(bytes(Ether() / packet))


def test_flows_differ_in_source_port_and_queue_pair_and_keep_their_order() -> None:
    packets = [IP(roce.build("10.0.1.1", "10.0.2.1", flow, number)) for flow, number in
               ((0, 0), (0, 1), (1, 0))]  # fmt: skip
    assert [packet[UDP].sport for packet in packets] == [0xC000, 0xC000, 0xC001]
    assert [packet[BTH].dqpn for packet in packets] == [0x100, 0x100, 0x101]
    assert [packet[BTH].psn for packet in packets] == [0, 1, 0]
