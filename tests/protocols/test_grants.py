"""The word that asks and the body that names a packet: P4, C and scapy have the same bits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostagent.rnic.native import native
from protocols import grants
from protocols.grants import Grants, QueuedPacket, drains_ns
from protocols.notification import Notification

P4 = Path(__file__).parents[2] / "p4src" / "modules" / "bolt" / "types.p4"
BITS = {
    "MORE": grants.MORE,
    "QUEUED": grants.QUEUED,
    "FIRST": grants.FIRST,
    "LAST": grants.LAST,
}


def test_p4_c_and_scapy_have_the_same_bits_and_format() -> None:
    text, lib = P4.read_text(), native().lib
    constants = dict(re.findall(r"const bit<32> GRANT_(\w+)\s*= (0x\w+);", text))
    assert {name: int(value, 16) for name, value in constants.items()} == {
        name: bit << 24 for name, bit in BITS.items()
    }
    assert {name: getattr(lib, f"GRANT_{name}") for name in BITS} == BITS
    (said,) = re.findall(r"const bit<8> TELEMETRY_GRANTS = (\d+);", text)
    assert int(said) == lib.TELEMETRY_GRANTS == grants.GRANTS_FORMAT
    assert lib.TELEMETRY_GRANTS_BYTES == grants.GRANTS_BYTES == len(bytes(Grants()))


@pytest.mark.parametrize("name", BITS)
def test_scapy_names_each_bit(name: str) -> None:
    word = Grants(bytes([BITS[name], 0, 0, 0]))
    assert str(word.flags) == name
    assert bytes(Grants(flags=name)) == bytes([BITS[name], 0, 0, 0])


def test_a_body_names_a_packet_in_its_first_three_bytes() -> None:
    fields = re.search(r"header queued_packet_t \{(.*?)\}", P4.read_text(), re.DOTALL)
    assert fields is not None
    assert re.findall(r"bit<(\d+)>\s+(\w+);", fields[1]) == [("24", "sequence"), ("8", "reserved")]
    assert bytes(QueuedPacket(sequence=0xABCDEF)) == bytes.fromhex("abcdef00")
    assert len(bytes(QueuedPacket())) == native().lib.WEFT_NOTIFICATION_PACKET_BYTES


@pytest.mark.parametrize("ns", [0, 1, 0xFFFF, 0x10000, 0x54321, 0xFFFFF])
def test_the_time_that_a_queue_drains_in_is_severity_and_queue(ns: int) -> None:
    said = Notification(type=8, severity=ns >> 16, queue=ns & 0xFFFF, hops=15, validity=15)
    assert drains_ns(Notification(bytes(said))) == ns
