"""`weft cli` on whole programs: another one beside the running one, state forgotten or written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.switch_cli_bench import bench_of, compile_into

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    register<bit<8>>(2) cells;
    action to(bit<9> port) { std.egress_spec = port; }
    table NAME { key = { hdr.h.a: exact; } actions = { to; NoAction; } }
    apply { NAME.apply(); cells.write(0, hdr.h.b); }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def made(folder: Path, table: str) -> Path:
    folder.mkdir()
    (folder / "program.p4").write_text(PROGRAM.replace("NAME", table))
    return compile_into(folder, folder / "program.p4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    made(folder / "first", "one")
    made(folder / "second", "two")
    return folder


@pytest.mark.parametrize("has_p4info", [True, False], ids=["P4Info beside it", "JSON alone"])
def test_another_program_is_filled_before_it_runs(folder: Path, has_p4info: bool) -> None:
    second = folder / "second" / ("lab.json" if has_p4info else "alone.json")
    second.write_text((folder / "second" / "lab.json").read_text())
    with bench_of(folder / "first") as bench:
        bench.done("table_add one to 7 => 1")
        assert bench.done(f"load_new_config_file {second}") == ["Loading new Json config"]
        assert bench.done("table_add two to 8 => 2")[-1] == "Entry has been added with handle 0"
        assert bench.done("table_add one to 9 => 2") == ["Error: Invalid table name (one)"]
        assert bench.done("swap_configs") == ["Swapping configs"]
        assert bench.done("table_num_entries two", "show_tables")[0] == "1"
        assert bench.done("table_dump_entry two 0")[-1] == "Action entry: I.to - 02"
        assert bench.done("swap_configs")[-1] == "Invalid swap operation (NO_ONGOING_SWAP)"


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "Error: Not a valid filename"), ("{", "Error: Not a valid JSON file"), ("{}", "Error")],
)
def test_what_is_no_program_is_refused(
    folder: Path, tmp_path: Path, text: str | None, says: str
) -> None:
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with bench_of(folder / "first") as bench:
        assert bench.done(f"load_new_config_file {path}")[-1].startswith(says)
        assert bench.done("table_num_entries one") == ["0"]


def test_state_is_forgotten(folder: Path) -> None:
    with bench_of(folder / "first") as bench:
        bench.done("table_add one to 7 => 1", "table_delete one 0", "table_add one to 7 => 1")
        bench.done("register_write cells 1 5", "table_set_default one to 3", "mc_mgrp_create 1")
        bench.done("mc_node_create 1 1", "mc_node_associate 1 0")
        assert bench.done("reset_state") == []
        assert bench.done("table_num_entries one", "register_read cells 1") == ["0", "cells[1]= 0"]
        assert bench.done("table_dump one")[-2] == "Action entry: NoAction - "
        assert not [line for line in bench.done("mc_dump") if line.startswith("mgrp")]
        assert bench.done("table_add one to 7 => 1")[-1].endswith("handle 0")


def test_program_and_state_are_written(folder: Path, tmp_path: Path) -> None:
    with bench_of(folder / "first") as bench:
        bench.done("table_add one to 7 => 1", "register_write cells 1 5", "mirroring_add 4 2")
        assert bench.done(f"write_config_to_file {tmp_path / 'a.json'}") == []
        assert bench.done(f"serialize_state {tmp_path / 'state'}") == []
        assert bench.done(f"serialize_state {tmp_path / 'none' / 'state'}") == [
            f"Error: {tmp_path / 'none' / 'state'}: No such file or directory"
        ]
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == json.loads((folder / "first" / "lab.json").read_text())
    state = (tmp_path / "state").read_text()
    assert all(f"{kind} {{" in state for kind in ("table_entry", "register_entry"))
    assert "session_id: 4" in state


def test_a_default_entry_that_is_constant_stays(tmp_path: Path) -> None:
    text = PROGRAM.replace("NAME", "one")
    text = text.replace("NoAction; } }", "NoAction; } const default_action = to(1); }")
    (tmp_path / "program.p4").write_text(text)
    with bench_of(compile_into(tmp_path, tmp_path / "program.p4")) as bench:
        refused = "Invalid table operation (DEFAULT_ENTRY_IS_CONST)"
        for action in ("NoAction", "to 1", "to 2"):
            assert bench.done(f"table_set_default one {action}")[-1] == refused
        assert bench.done("table_reset_default one") == []  # BMv2 has nothing against it
        assert bench.done("table_dump one")[-2] == "Action entry: I.to - 01"
