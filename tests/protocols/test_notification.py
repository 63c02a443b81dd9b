"""The notification's three mirrors agree bit for bit: P4, C and scapy (docs/wire-formats.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from compiler import compile_p4
from protocols.notification import (
    CELL_BYTES,
    CNP_OPCODE,
    NEIGHBOUR_TTL,
    NEIGHBOURS,
    NEIGHBOURS_MAC,
    NOTIFICATION_PORT,
    RATE_MOST,
    RATE_UNIT_BPS,
    SOURCE,
    Notification,
    NotificationType,
    as_cnp_padding,
    body_of,
    datagram,
    notification_of,
    rate_of,
    rate_units,
)
from protocols.rocev2 import icrc_is_valid
from softswitch import Switch

ROOT = Path(__file__).parents[2]
P4_HEADER = ROOT / "p4src/include/notification.p4"
P4_TYPES = ROOT / "p4src/include/types.p4"
P4_CONSTANTS = ROOT / "p4src/include/constants.p4"
C_HEADER = ROOT / "hostagent/include/notification.h"

C_PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
#include "notification.h"

/* A line: "w" and ten values -> 32 hex digits; "r" and 32 hex digits -> ten values;
   "f" and 16 bits of a rate -> its units; "u" and units -> 16 bits. */
int main(void)
{
    char kind;
    while (scanf(" %c", &kind) == 1) {
        struct weft_notification n = {0};
        uint8_t bytes[WEFT_NOTIFICATION_BYTES];
        uint64_t rate;
        if (kind == 'f' || kind == 'u') {
            if (scanf("%" SCNu64, &rate) != 1)
                return 1;
            rate = kind == 'f' ? weft_rate_units((uint16_t)rate) : weft_rate_of(rate);
            printf("%" PRIu64 "\\n", rate);
            continue;
        }
        if (kind == 'w') {
            if (scanf("%" SCNu8 "%" SCNu8 "%" SCNu8 "%" SCNu8 "%" SCNu16 "%" SCNu16 "%" SCNu16
                      "%" SCNu32 "%" SCNu32 "%" SCNu16, &n.type, &n.severity, &n.hops, &n.validity,
                      &n.switch_id, &n.port, &n.sequence, &n.destination, &n.destination_qp,
                      &n.queue) != 10)
                return 1;
            weft_notification_write(&n, bytes);
            for (int i = 0; i < WEFT_NOTIFICATION_BYTES; i++)
                printf("%02x", bytes[i]);
            printf("\\n");
        } else {
            for (int i = 0; i < WEFT_NOTIFICATION_BYTES; i++)
                if (scanf("%2" SCNx8, &bytes[i]) != 1)
                    return 1;
            weft_notification_read(bytes, &n);
            printf("%u %u %u %u %u %u %u %" PRIu32 " %" PRIu32 " %u\\n", n.type, n.severity, n.hops,
                   n.validity, n.switch_id, n.port, n.sequence, n.destination, n.destination_qp,
                   n.queue);
        }
    }
    return 0;
}
"""


P4_PROGRAM = """
#include <core.p4>
#include <v1model.p4>
#include "notification.p4"
struct headers_t { notification_t notification; }
struct metadata_t { }
parser ReadIt(packet_in packet, out headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) {
    state start { packet.extract(hdr.notification); transition accept; }
}
control Checksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Change(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.notification.type == NotificationType.CONGESTION) {
            hdr.notification.type = NotificationType.LINK_DOWN;
        }
        hdr.notification.hops = hdr.notification.hops - 1;
        hdr.notification.sequence = hdr.notification.sequence + 1;
    }
}
control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}
control WriteIt(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.notification); } }
V1Switch(ReadIt(), Checksum(), Change(), Leave(), Checksum(), WriteIt()) main;
"""


def p4_fields() -> list[tuple[str, int]]:
    """Return the header's fields and widths as P4 declares them."""
    text = P4_TYPES.read_text() + P4_HEADER.read_text()
    named = re.findall(r"(?:typedef|enum)\s+bit<(\d+)>\s+(\w+)", text)
    widths = {name: int(bits) for bits, name in named}
    body = re.search(r"header notification_t \{(.*?)\n\}", P4_HEADER.read_text(), re.DOTALL)
    assert body is not None
    fields = re.findall(r"^\s*(bit<(\d+)>|\w+)\s+(\w+);", body.group(1), re.MULTILINE)
    return [(name, int(bits) if bits else widths[kind]) for kind, bits, name in fields]


FIELDS = p4_fields()
VALUES = st.tuples(*(st.integers(0, (1 << bits) - 1) for _, bits in FIELDS))


def packed(values: tuple[int, ...]) -> bytes:
    """Return the 16 bytes of field values, by the widths that P4 declares."""
    number = 0
    for (_, bits), value in zip(FIELDS, values, strict=True):
        number = number << bits | value
    return number.to_bytes(16, "big")


@pytest.fixture(scope="module")
def c_mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the C header compiled as strictly as the project compiles C."""
    folder = tmp_path_factory.mktemp("notification")
    source, program = folder / "mirror.c", folder / "mirror"
    source.write_text(C_PROGRAM)
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    command = ["gcc", *warnings, f"-I{C_HEADER.parent}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.fixture
def echo_program(tmp_path: Path) -> Path:
    """Return a program that reads a notification and sends it back changed."""
    source = tmp_path / "echo.p4"
    source.write_text(P4_PROGRAM)
    return source


def test_a_compiled_program_reads_and_writes_these_bits(echo_program: Path) -> None:
    program = compile_p4(echo_program, include_dirs=[P4_HEADER.parent])
    (header,) = (h for h in program.json["header_types"] if h["name"] == "notification_t")
    assert [(field[0], field[1]) for field in header["fields"]] == FIELDS
    sent = Notification(type="CONGESTION", hops=3, switch_id=7, sequence=4095, queue=1)
    with Switch.from_json(program.json_text.encode(), program.p4info) as switch:
        switch.inject(1, bytes(sent) + b"body")
        (output,) = switch.run_until(1_000_000)
    sent.type, sent.hops, sent.sequence = NotificationType.LINK_DOWN, 2, 0
    assert output.packet == bytes(sent) + b"body"


@pytest.mark.reference("p4c-bm2-ss")
def test_p4c_takes_the_header_without_warnings(echo_program: Path, tmp_path: Path) -> None:
    # types.p4 names more than this small program uses.
    options = ["--Werror", "--Wdisable=unused", f"-I{P4_HEADER.parent}"]
    command = ["p4c-bm2-ss", *options, "-o", str(tmp_path / "o.json"), str(echo_program)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_p4_declares_128_bits() -> None:
    assert sum(bits for _, bits in FIELDS) == 128


def test_scapy_has_p4s_fields_and_widths() -> None:
    widths = [(field.name, round(field.sz * 8)) for field in Notification.fields_desc]
    assert widths == FIELDS


@settings(deadline=None)  # other tests share the processor
@given(VALUES)
def test_scapy_writes_and_reads_p4s_bits(values: tuple[int, ...]) -> None:
    wanted = packed(values)
    given_fields = dict(zip((name for name, _ in FIELDS), values, strict=True))
    given_fields["destination"] = ".".join(str(b) for b in values[7].to_bytes(4, "big"))
    assert bytes(Notification(**given_fields)) == wanted
    back = Notification(wanted)
    assert {name: getattr(back, name) for name in given_fields} == given_fields


def test_c_writes_and_reads_p4s_bits(c_mirror: Path) -> None:
    ones = [
        tuple((1 << bits) - 1 if i == only else 0 for i, (_, bits) in enumerate(FIELDS))
        for only in range(len(FIELDS))
    ]
    mixed = tuple((0x5A5A5A5A5A >> i) & ((1 << bits) - 1) for i, (_, bits) in enumerate(FIELDS))
    cases = [*ones, mixed, tuple(0 for _ in FIELDS)]
    lines = [f"w {' '.join(map(str, case))}" for case in cases]
    lines += [f"r {packed(case).hex()}" for case in cases]
    result = subprocess.run(
        [str(c_mirror)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    written, read = (
        result.stdout.splitlines()[: len(cases)],
        result.stdout.splitlines()[len(cases) :],
    )
    assert written == [packed(case).hex() for case in cases]
    assert [tuple(map(int, line.split())) for line in read] == cases


def test_type_numbers_agree_in_all_three() -> None:
    scapy_types = {kind.name: kind.value for kind in NotificationType}
    c_text, p4_text = C_HEADER.read_text(), P4_HEADER.read_text()
    in_c = re.findall(r"^    WEFT_NOTIFICATION_(\w+) = (\d+),", c_text, re.MULTILINE)
    p4_enum = re.search(r"enum bit<4> NotificationType \{(.*?)\n\}", p4_text, re.DOTALL)
    assert p4_enum is not None
    in_p4 = re.findall(r"^\s*(\w+)\s*=\s*(\d+)", p4_enum.group(1), re.MULTILINE)
    assert {name: int(value) for name, value in in_c} == scapy_types
    assert {name: int(value) for name, value in in_p4} == scapy_types
    assert f"WEFT_NOTIFICATION_CELL_BYTES {CELL_BYTES}\n" in c_text


def test_a_cnp_carries_it_in_its_reserved_bytes() -> None:
    sent = Notification(type="CONGESTION", severity=9, switch_id=3, port=1, queue=6250)
    network = Ether() / IP(src="10.0.2.1", dst="10.0.1.1", tos=48 << 2) / UDP(sport=49152)
    frame = bytes(network / BTH(opcode=CNP_OPCODE, becn=1, dqpn=17) / as_cnp_padding(sent))
    assert len(frame) == 14 + 20 + 8 + 12 + 16 + 4
    assert icrc_is_valid(frame)
    received = Ether(frame)
    assert received[BTH].opcode == CNP_OPCODE
    assert notification_of(received[CNPPadding]) == Notification(bytes(sent))


def test_a_stock_cnp_reads_as_no_notification() -> None:
    assert notification_of(CNPPadding()).type == NotificationType.NONE


# --- in a datagram --------------------------------------------------------------------------------


def number(address: str, base: int = 10) -> int:
    parts = address.replace(":", ".").split(".")
    return int.from_bytes(bytes(int(part, base) for part in parts), "big")


def test_port_and_addresses_agree_in_all_three() -> None:
    c_text = C_HEADER.read_text()
    in_p4 = {
        name: int(value, 0)
        for name, value in re.findall(
            r"^const \S+ (N\w+) = (\w+);", P4_CONSTANTS.read_text(), re.MULTILINE
        )
    }
    assert in_p4 == {
        "NOTIFICATION_PORT": NOTIFICATION_PORT,
        "NOTIFICATION_NEIGHBOURS": number(NEIGHBOURS),
        "NOTIFICATION_NEIGHBOURS_MAC": number(NEIGHBOURS_MAC, 16),
        "NOTIFICATION_SOURCE": number(SOURCE),
        "NEIGHBOUR_TTL": NEIGHBOUR_TTL,
    }
    assert f"WEFT_NOTIFICATION_PORT {NOTIFICATION_PORT}\n" in c_text
    assert f"WEFT_NOTIFICATION_SOURCE {number(SOURCE):#010x}u " in c_text


def test_the_port_is_nobody_s_by_chance() -> None:
    """Below what systems give to clients (IANA's 49152 on, Linux's 32768 on), and no RoCEv2's."""
    assert 1024 < NOTIFICATION_PORT < 32768
    with Path("/etc/services").open() as services:
        assert not [line for line in services if f"\t{NOTIFICATION_PORT}/" in line]


BY_HAND = bytes.fromhex(
    "45c0 0030 0000 4000 ff11 d9f5 c0000008 e00000fe"  # IPv4
    "7077 7077 001c 0000"  # UDP
    "29 34 0007 00c0ab 0a000201 000011 186a"  # LINK_DOWN of switch 7's port 12, number 171
    "b0d7b0d7"
)


def test_a_datagram_byte_by_byte() -> None:
    said = Notification(
        type="LINK_DOWN",
        severity=9,
        hops=3,
        validity=4,
        switch_id=7,
        port=12,
        sequence=0xAB,
        destination="10.0.2.1",
        destination_qp=17,
        queue=6250,
    )
    assert bytes(datagram(said, body=b"\xb0\xd7\xb0\xd7")).hex() == BY_HAND.hex()


def test_scapy_reads_it_by_its_port() -> None:
    read = IP(BY_HAND)
    assert read[Notification].type == NotificationType.LINK_DOWN
    assert (read[Notification].switch_id, body_of(read)) == (7, b"\xb0\xd7\xb0\xd7")
    assert bytes(read) == BY_HAND
    assert body_of(IP(bytes(datagram(Notification(type=3))))) == b""
    other = IP(bytes(IP() / UDP(dport=NOTIFICATION_PORT + 1) / bytes(16)))
    assert Notification not in other


def test_to_a_host_it_is_addressed_to_it() -> None:
    packet = datagram(Notification(type=2), to="10.0.1.1")
    assert (packet.dst, packet.ttl, packet.src) == ("10.0.1.1", 64, SOURCE)
    assert (packet[UDP].dport, packet[UDP].chksum) == (NOTIFICATION_PORT, 0)


def test_a_rate_of_16_bits_is_the_same_in_c_and_python(c_mirror: Path) -> None:
    units = [(1 << e) + d for e in range(1, 29) for d in (-1, 0, 1)]
    lines = [f"f {rate}" for rate in range(1 << 16)] + [f"u {each}" for each in units]
    result = subprocess.run(
        [str(c_mirror)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    said = [int(line) for line in result.stdout.split()]
    assert said[: 1 << 16] == [rate_units(rate) for rate in range(1 << 16)]
    assert said[1 << 16 :] == [rate_of(each) for each in units]


@given(st.integers(0, 1 << 60))
def test_a_rate_is_rounded_down_by_a_2048th_at_most(units: int) -> None:
    read = rate_units(rate_of(units))
    within = min(units, RATE_MOST)
    assert read <= within
    assert within - read <= within >> 11
    assert rate_of(read) == rate_of(within)


def test_a_rate_reaches_from_a_megabit_to_beyond_any_port() -> None:
    assert rate_units(rate_of(0)) == 0
    assert RATE_UNIT_BPS * rate_units(rate_of(10**6 // RATE_UNIT_BPS)) == 15 * RATE_UNIT_BPS
    assert RATE_UNIT_BPS * rate_units(rate_of(1600 * 10**9 // RATE_UNIT_BPS)) > 1599 * 10**9
    assert RATE_UNIT_BPS * RATE_MOST > 8 * 10**12
