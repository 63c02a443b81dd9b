"""Custom CRCs whose parameters were changed: `weft cli`'s set_crc16_parameters and _crc32_.

The JSON of a program has them in its calculation, as "crc". Check values are those of the catalogue
of CRC algorithms for "123456789"; the mixed ones are computed here bit by bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softswitch import Switch
from tests.compat.switch_cli_bench import bench_of, compile_into

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<72> text; bit<16> short; bit<32> long; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply {
        hash(hdr.h.short, HashAlgorithm.crc16_custom, 16w0, { hdr.h.text }, 32w0x10000);
        hash(hdr.h.long, HashAlgorithm.crc32_custom, 32w0, { hdr.h.text }, 64w0x100000000);
        std.egress_spec = 2;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
TEXT = b"123456789"
Parameters = tuple[int, int, int, bool, bool]
X25 = (0x1021, 0xFFFF, 0xFFFF, True, True)
BZIP2 = (0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, False, False)


def crc(bits: int, parameters: Parameters) -> int:
    """Return the CRC of TEXT, bit by bit."""
    polynomial, rest, final, reflects_data, reflects_remainder = parameters
    for byte in TEXT:
        turned = int(f"{byte:08b}"[::-1], 2) if reflects_data else byte
        rest ^= turned << (bits - 8)
        for _ in range(8):
            top = rest >> (bits - 1)
            rest = (rest << 1) & ((1 << bits) - 1) ^ (polynomial if top else 0)
    if reflects_remainder:
        rest = int(f"{rest:0{bits}b}"[::-1], 2)
    return rest ^ final


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crc")
    (folder / "crc.p4").write_text(PROGRAM)
    return compile_into(folder, folder / "crc.p4")


def test_the_definition_here_is_the_catalogues() -> None:
    assert crc(16, X25) == 0x906E
    assert crc(32, BZIP2) == 0xFC891918


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (X25, BZIP2),
        (
            (0x1021, 0x1D0F, 0, False, False),
            (0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, True, True),
        ),
        ((0x8005, 0x1234, 0x00FF, True, False), (0x04C11DB7, 0x12345678, 0xFF, False, True)),
    ],
    ids=["reflected", "straight", "mixed"],
)
def test_packets_get_the_crc_with_its_parameters(
    short: Parameters, long: Parameters, folder: Path, tmp_path: Path
) -> None:
    program = json.loads((folder / "lab.json").read_text())
    names = ("polynomial", "initial", "final", "reflect_data", "reflect_remainder")
    for calculation in program["calculations"]:
        parameters = {"crc16_custom": short, "crc32_custom": long}.get(calculation["algo"])
        if parameters is not None:
            calculation["crc"] = dict(zip(names, parameters, strict=True))
    (tmp_path / "crc.json").write_text(json.dumps(program))
    with Switch.from_json(tmp_path / "crc.json", folder / "lab.p4info.txtpb") as switch:
        switch.inject(port=1, packet=TEXT + bytes(6), at_ns=0)
        (output,) = switch.run_until(at_ns=1_000)
    assert int.from_bytes(output.packet[9:11], "big") == crc(16, short)
    assert int.from_bytes(output.packet[11:15], "big") == crc(32, long)


def test_the_command_line_sets_them(folder: Path) -> None:
    with bench_of(folder) as bench:
        names = {bits: name for name, bits in bench.shell.program.crcs.items()}
        parameters = "0x1021 0xffff 0xffff true True"
        assert bench.done(f"set_crc16_parameters {names[16]} {parameters}") == []
        config = json.loads(bench.shell.switch.config().p4_device_config)
        kept = {each["name"]: each.get("crc") for each in config["calculations"]}
        assert kept[names[16]] == {
            "polynomial": 0x1021,
            "initial": 0xFFFF,
            "final": 0xFFFF,
            "reflect_data": True,
            "reflect_remainder": True,
        }
        assert kept[names[32]] is None
        assert bench.done(f"set_crc32_parameters {names[16]} 1 2 3 1 1") == [
            f"Error: Invalid crc32_custom name ({names[16]})"
        ]
        assert bench.done(f"set_crc16_parameters {names[16]} 0x10000 0 0 1 1") == [
            "Error: Integer cannot fit within 16 bits"
        ]
