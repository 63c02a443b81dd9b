"""Another implementation reads every packet that the card sends: scapy's.

All operations under loss with both kinds of retransmission make all kinds of packets; scapy
dissects each, computes its ICRC, and builds the same bytes again from the fields that it found.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hostagent.rnic.card_records import Access, Operation, QueuePairConfig, Repeat, Work
from protocols.rocev2 import RETH, ImmDt, NakBitmap, Opcode, Syndrome, icrc
from tests.hostagent.virtual_wire import US, Faults, Passed, VirtualWire, make_card

EXTENSIONS: dict[Opcode, list[type]] = {
    Opcode.SEND_FIRST: [],
    Opcode.SEND_MIDDLE: [],
    Opcode.SEND_LAST: [],
    Opcode.SEND_LAST_IMM: [ImmDt],
    Opcode.SEND_ONLY: [],
    Opcode.SEND_ONLY_IMM: [ImmDt],
    Opcode.WRITE_FIRST: [RETH],
    Opcode.WRITE_MIDDLE: [],
    Opcode.WRITE_LAST: [],
    Opcode.WRITE_LAST_IMM: [ImmDt],
    Opcode.WRITE_ONLY: [RETH],
    Opcode.WRITE_ONLY_IMM: [RETH, ImmDt],
    Opcode.READ_REQUEST: [RETH],
    Opcode.READ_FIRST: [AETH],
    Opcode.READ_MIDDLE: [],
    Opcode.READ_LAST: [AETH],
    Opcode.READ_ONLY: [AETH],
    Opcode.ACK: [AETH],
    Opcode.CNP: [CNPPadding],
}


def traffic(repeat: Repeat) -> list[Passed]:
    """Everything two cards say while they exchange messages of all kinds under loss."""
    a, b = make_card(1), make_card(2)
    config = QueuePairConfig(
        qpn=0x123456,
        mtu=256,
        repeat=repeat,
        udp_ports=4,
        first_psn=0xFFFFF0,
        retries=100,
        timeout_ps=50 * US,
        cnp_interval_ns=0,
    )
    other = replace(config, qpn=0x654321)
    memory = bytearray(Random(4).randbytes(8192))
    for card, own, peer, peer_ip in ((a, config, other, b), (b, other, config, a)):
        card.register(0xABCD1234, 1 << 40, memory, Access.REMOTE_WRITE | Access.REMOTE_READ)
        card.add_queue_pair(own)
        card.connect(own.qpn, peer_ip.config.ip, peer_qpn=peer.qpn, peer_psn=peer.first_psn)
    wire = VirtualWire(a, b, faults=Faults(loss=0.05, reordering=0.05), seed=3)
    wire.mark = lambda packet: packet.psn % 50 == 7 and packet.frame[42] < Opcode.ACK
    for number, (operation, length) in enumerate(
        (operation, length) for operation in Operation for length in (0, 1, 256, 700, 2002)
    ):
        for card, own in ((a, config), (b, other)):
            data = bytearray(Random(number).randbytes(length))
            work = Work(number, operation, data, None, 0x01020304, 1 << 40, 0xABCD1234)
            card.post(own.qpn, work)
            wire.at(
                30 * US, lambda card=card, own=own: card.post_receive(own.qpn, 1, bytearray(2002))
            )
    wire.run()
    return wire.passed


@pytest.mark.parametrize("repeat", list(Repeat))
def test_scapy_reads_what_the_card_sends(repeat: Repeat) -> None:
    seen, syndromes = set(), set()
    for row in traffic(repeat):
        frame = row.packet.frame
        assert int.from_bytes(frame[-4:], "little") == icrc(frame)
        packet = Ether(frame)
        bth = packet[BTH]
        opcode = Opcode(bth.opcode)
        seen.add(opcode)
        layers = [Ether, IP, UDP, BTH, *EXTENSIONS[opcode]]
        if packet.haslayer(AETH):
            syndromes.add(packet[AETH].syndrome)
        if opcode is Opcode.ACK and packet[AETH].syndrome == Syndrome.SEQUENCE_ERROR:
            layers += [NakBitmap] if repeat is Repeat.SELECTIVE else []
        found = packet.layers()
        assert found[: len(layers)] == layers
        assert found[len(layers) :] in ([], [Raw])
        if found[-1] is Raw:
            assert 0 < len(packet[Raw].load) <= 256 and len(packet[Raw].load) % 4 == 0
            assert opcode not in (Opcode.ACK, Opcode.CNP, Opcode.READ_REQUEST)
        assert bth.psn == row.packet.psn
        assert bth.dqpn == (0x654321 if row.packet.qpn == 0x123456 else 0x123456)
        assert packet[IP].len == len(frame) - 14 and packet[UDP].len == len(frame) - 34
        # Everything scapy computes by itself comes out the same.
        again = packet.copy()
        del again[IP].len, again[IP].chksum, again[UDP].len, again[BTH].icrc
        assert bytes(again) == frame
    assert seen == set(Opcode)
    assert {Syndrome.ACK, Syndrome.SEQUENCE_ERROR, Syndrome.RNR + 1} <= syndromes
