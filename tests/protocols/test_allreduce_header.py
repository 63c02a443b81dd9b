"""AllReduce's three mirrors agree bit for bit: P4, C and scapy (docs/allreduce.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from compiler import compile_p4
from protocols import allreduce
from protocols.allreduce import (
    ALLREDUCE_PORT,
    BIAS,
    HEADER_BYTES,
    HOST_TTL,
    NEIGHBOUR_TTL,
    NEIGHBOURS,
    NEIGHBOURS_MAC,
    PEER_PORT,
    SOURCE,
    TREES,
    AllReduce,
    AllReduceKind,
    chunk_fields,
    datagram,
    frame,
    lanes_of,
)
from tests.mechanisms.allreduce import wire

ROOT = Path(__file__).parents[2]
P4_TYPES = ROOT / "p4src/modules/allreduce/types.p4"
P4_SEND = ROOT / "p4src/modules/allreduce/send.p4"
C_HEADER = ROOT / "hostagent/include/allreduce.h"

C_PROGRAM = """
#include <stdio.h>
#include "allreduce.h"
int main(void)
{
    printf("%d %d %d %d %d\\n", WEFT_ALLREDUCE_PORT, WEFT_ALLREDUCE_PEER_PORT, WEFT_ALLREDUCE_BYTES,
           WEFT_ALLREDUCE_TREES, WEFT_ALLREDUCE_BIAS);
    printf("%d %d %d %d %d\\n", WEFT_ALLREDUCE_CONTRIBUTION, WEFT_ALLREDUCE_RESULT,
           WEFT_ALLREDUCE_MOVE, WEFT_ALLREDUCE_BLOCK, WEFT_ALLREDUCE_PARTIAL);
    printf("%d %d %d %d %d\\n", WEFT_ALLREDUCE_OVERFLOW, WEFT_ALLREDUCE_CONGESTION,
           WEFT_ALLREDUCE_FROM_ROOT, WEFT_ALLREDUCE_EXPONENT_ONLY, WEFT_ALLREDUCE_AGAIN);
    return 0;
}
"""
FLAGS = ("overflow", "congestion", "from_root", "exponent_only", "again")  # from bit 0 on


@pytest.fixture(scope="module")
def p4_fields() -> list[tuple[str, int]]:
    """Return the header's fields and widths as the compiled program has them."""
    program = compile_p4(ROOT / "p4src/fabric.p4", defines=("PROFILE", "WITH_ALLREDUCE"))
    (header,) = (h for h in program.json["header_types"] if h["name"] == "allreduce_header_t")
    return [(field[0], field[1]) for field in header["fields"]]


def test_scapy_has_p4s_fields_and_widths(p4_fields: list[tuple[str, int]]) -> None:
    widths = [(field.name, round(field.sz * 8)) for field in AllReduce.fields_desc]
    assert widths == p4_fields
    assert sum(bits for _, bits in widths) == 8 * HEADER_BYTES


WIDTHS = [round(field.sz * 8) for field in AllReduce.fields_desc]


@settings(deadline=None, max_examples=50)
@given(st.tuples(*(st.integers(0, (1 << bits) - 1) for bits in WIDTHS)))
def test_scapy_writes_and_reads_p4s_bits(values: tuple[int, ...]) -> None:
    number = 0
    for bits, value in zip(WIDTHS, values, strict=True):
        number = number << bits | value
    wanted = number.to_bytes(HEADER_BYTES, "big")
    names = [field.name for field in AllReduce.fields_desc]
    assert bytes(AllReduce(**dict(zip(names, values, strict=True)))) == wanted
    assert [getattr(AllReduce(wanted), name) for name in names] == list(values)


def test_c_has_the_same_numbers(tmp_path: Path) -> None:
    source, program = tmp_path / "mirror.c", tmp_path / "mirror"
    source.write_text(C_PROGRAM)
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *warnings, f"-I{C_HEADER.parent}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    numbers, kinds, flags = (list(map(int, line.split())) for line in done.stdout.splitlines())
    assert numbers == [ALLREDUCE_PORT, PEER_PORT, HEADER_BYTES, TREES, BIAS]
    assert kinds == [kind.value for kind in AllReduceKind]
    for name, bit in zip(FLAGS, flags, strict=True):
        assert bytes(AllReduce(**{name: 1}))[1] == bit
    names = (wire.OVERFLOW, wire.CONGESTION, wire.FROM_ROOT, wire.EXPONENT_ONLY, wire.AGAIN)
    assert tuple(flags) == names


def test_kinds_and_addresses_agree_with_p4() -> None:
    text = P4_TYPES.read_text()
    enum = re.search(r"enum bit<8> AllReduceKind \{(.*?)\n\}", text, re.DOTALL)
    assert enum is not None
    kinds = re.findall(r"^\s*(\w+)\s*=\s*(\d+)", enum.group(1), re.MULTILINE)
    assert {name: int(value) for name, value in kinds} == {k.name: k.value for k in AllReduceKind}
    constants = re.findall(r"^const \S+ ALLREDUCE_(\w+) = (\w+);", text + P4_SEND.read_text(), re.M)
    octets = (
        [int(part) for part in SOURCE.split(".")],
        [int(part) for part in NEIGHBOURS.split(".")],
    )
    assert {name: int(value, 0) for name, value in constants} == {
        "PORT": ALLREDUCE_PORT,
        "SOURCE": int.from_bytes(bytes(octets[0]), "big"),
        "NEIGHBOURS": int.from_bytes(bytes(octets[1]), "big"),
        "NEIGHBOURS_MAC": int(NEIGHBOURS_MAC.replace(":", ""), 16),
        "NEIGHBOUR_TTL": NEIGHBOUR_TTL,
        "HOST_TTL": HOST_TTL,
    }


def test_outcomes_agree_with_p4() -> None:
    from mechanisms.allreduce.counters import OUTCOMES  # loads the registry's rooms

    enum = re.search(r"enum bit<8> AllReduceOutcome \{(.*?)\n\}", P4_TYPES.read_text(), re.DOTALL)
    assert enum is not None
    names = re.findall(r"^\s*(\w+)\s*=\s*(\d+)", enum.group(1), re.MULTILINE)
    assert [(name.lower(), int(number)) for name, number in names] == [
        (name, number) for number, name in enumerate(OUTCOMES)
    ]


BY_HAND = bytes.fromhex(
    "4502 0034 0000 4000 4011 25b8 0a000001 0afe0001"  # IPv4, ECN-capable
    "7078 7078 0020 0000"  # UDP
    "01 08 0007 0011 8002 0000000e e5 00 0002"  # job 7, epoch 17, chunk 14 of 4 slots, exponent
    "00000001 ffffffff"
)


def test_a_packet_byte_by_byte() -> None:
    header = AllReduce(
        kind="CONTRIBUTION", exponent_only=1, job=7, epoch=17, exponent=0xE5, **chunk_fields(14, 4)
    )
    made = datagram(header, (1, -1), to="10.254.0.1", src="10.0.0.1")
    assert bytes(made).hex() == BY_HAND.hex()
    read = IP(BY_HAND)
    assert (read[AllReduce].tree, lanes_of(read)) == (1, (1, -1))
    assert AllReduce not in IP(bytes(IP() / UDP(dport=PEER_PORT) / bytes(16)))


def test_the_tests_own_frames_are_scapy_s() -> None:
    """tests/mechanisms/allreduce/wire.py writes and reads bytes itself, as it is quicker."""
    header = AllReduce(kind=1, job=7, epoch=17, exponent=3, **chunk_fields(14, 4))
    addresses = {
        "src_mac": wire.mac(5).hex(":"), "gateway_mac": wire.gateway_mac(5).hex(":"),
        "src": "10.0.0.5", "gateway": "10.254.0.5",
    }  # fmt: skip
    packet = bytes(frame(header, (1, -2), **addresses))
    message = wire.Message(AllReduceKind.CONTRIBUTION, 7, 17, lanes=(1, -2), exponent=3)
    assert wire.frame(message.of_chunk(14, 4), 5).hex() == packet.hex()
    assert wire.message_of(packet) == message.of_chunk(14, 4)
    assert Ether(packet)[IP].chksum == Ether(wire.frame(message.of_chunk(14, 4), 5))[IP].chksum


def test_the_port_is_nobody_s_by_chance() -> None:
    with Path("/etc/services").open() as services:
        taken = services.read()
    assert not re.search(rf"\t({ALLREDUCE_PORT}|{PEER_PORT})/", taken)
    assert allreduce.ALLREDUCE_PORT < 32768  # below what systems give to clients
