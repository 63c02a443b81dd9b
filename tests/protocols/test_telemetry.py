"""The telemetry shim is the same in P4, C, the ICRC and scapy (docs/wire-formats.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from protocols.rocev2 import Opcode, icrc_is_valid
from protocols.telemetry import (
    TELEMETRY_PORT,
    VERSION,
    Telemetry,
    TelemetryKind,
    appended,
    has_telemetry,
    shim_of,
    with_shim,
    without,
)

ROOT = Path(__file__).parents[2]
P4_HEADER = ROOT / "p4src/include/telemetry.p4"
C_HEADER = ROOT / "hostagent/include/telemetry.h"
ICRC_C = ROOT / "softswitch/core/icrc.c"

C_PROGRAM = """
#include <stdio.h>
#include "telemetry.h"

/* A line of six values -> eight hex digits, what reading those gives, and the length. */
int main(void)
{
    unsigned v, c, k, w, h, f;
    while (scanf("%u %u %u %u %u %u", &v, &c, &k, &w, &h, &f) == 6) {
        struct weft_telemetry shim = {v, c, k, w, h, f}, again;
        weft_u8 out[TELEMETRY_SHIM_BYTES];
        weft_telemetry_write(&shim, out);
        weft_telemetry_read(out, &again);
        for (int i = 0; i < TELEMETRY_SHIM_BYTES; i++)
            printf("%02x", out[i]);
        printf(" %u %u %u %u %u %u %u\\n", again.version, again.cut, again.kind, again.words,
               again.hops, again.format, weft_telemetry_length(out));
    }
    return 0;
}
"""

FRAME = bytes(
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    / IP(src="10.0.0.1", dst="10.0.0.2")
    / UDP(sport=49152, dport=4791, chksum=0)
    / BTH(opcode=Opcode.SEND_ONLY, dqpn=7, psn=9)
    / Raw(bytes(64))
)
FIELDS = ("version", "cut", "kind", "words", "hops", "format")


def test_p4_has_the_same_fields() -> None:
    text = P4_HEADER.read_text()
    (body,) = re.findall(r"header telemetry_t \{(.*?)\n\}", text, re.DOTALL)
    found = re.findall(r"^ +(?:bit<(\d+)>|(\w+)) +(\w+);", body, re.MULTILINE)
    widths = {field.name: field.size for field in Telemetry.fields_desc[:3]}
    widths |= dict.fromkeys(FIELDS[3:], 8)
    assert [(name, int(bits or 3)) for bits, _, name in found] == list(widths.items())
    (kinds,) = re.findall(r"enum bit<3> TelemetryKind \{(.*?)\}", text, re.DOTALL)
    listed = {name: int(value) for name, value in re.findall(r"(\w+) = (\d)", kinds)}
    assert listed == {kind.name: kind.value for kind in TelemetryKind}


def test_port_and_version_are_one() -> None:
    ports = {
        P4_HEADER: r"TELEMETRY_PORT = (\d+);",
        C_HEADER: r"#define TELEMETRY_PORT (\d+)",
        ICRC_C: r"TELEMETRY_PORT = (\d+),",
        ROOT / "docs/wire-formats.md": r"UDP port (\d+), \*telemetry\*",
    }
    for path, pattern in ports.items():
        assert re.findall(pattern, path.read_text()) == [str(TELEMETRY_PORT)], path
    assert f"TELEMETRY_VERSION = {VERSION};" in P4_HEADER.read_text()
    assert f"#define TELEMETRY_VERSION {VERSION}\n" in C_HEADER.read_text()


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry")
    (folder / "shim.c").write_text(C_PROGRAM)
    program = folder / "shim"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", f"-I{C_HEADER.parent}", "-o", str(program)]
    subprocess.run([*command, str(folder / "shim.c")], check=True)
    return program


def test_c_and_scapy_write_and_read_the_same(in_c: Path) -> None:
    rows = [
        (0, 0, 0, 0, 0, 0), (0, 1, 1, 15, 5, 1), (15, 1, 7, 255, 255, 255), (1, 0, 0, 3, 1, 9),
        (0, 0, 2, 3, 1, 9), (0, 0, 1, 255, 85, 2),
    ]  # fmt: skip
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    done = subprocess.run([str(in_c)], input=text, capture_output=True, text=True, check=True)
    for row, line in zip(rows, done.stdout.splitlines(), strict=True):
        said, *values = line.split()
        shim = Telemetry(**dict(zip(FIELDS, row, strict=True)))
        assert bytes(shim)[:4].hex() == said
        *read, length = map(int, values)
        assert tuple(read) == row
        assert length == (4 + 4 * row[3] if row[0] == 0 and row[2] <= 1 else 0)


def test_a_shim_goes_in_and_out() -> None:
    assert icrc_is_valid(FRAME) and not has_telemetry(FRAME)
    frame = with_shim(FRAME, Telemetry())
    assert has_telemetry(frame) and without(frame) == FRAME
    for n in range(1, 5):
        frame = appended(frame, bytes([n] * 12))
        shim = shim_of(frame)
        assert (shim.hops, shim.words, shim.format) == (n, 3 * n, 1)
        assert shim.data == b"".join(bytes([i] * 12) for i in range(n, 0, -1))
        assert without(frame) == FRAME
    layers = Ether(frame)
    assert layers[UDP].dport == TELEMETRY_PORT
    assert layers[IP].len == len(frame) - 14 == layers[UDP].len + 20
    assert (layers[Telemetry].hops, layers[BTH].psn) == (4, 9)


def test_what_is_no_shim_is_refused() -> None:
    with pytest.raises(ValueError, match="no UDP datagram to port 4794"):
        shim_of(FRAME)
    frame = with_shim(FRAME, Telemetry(data=bytes(8)))
    for wrong in (frame[:52], frame[:42] + b"\x10" + frame[43:]):
        with pytest.raises(ValueError, match="cut short, or of another version"):
            without(wrong)
