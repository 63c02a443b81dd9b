"""The compiler as one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from compiler import CompileError, NotSupported, compile_p4, write_outputs
from tests.call_count import calls

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
FABRIC = ROOT / "p4src/fabric.p4"


def test_outputs_are_two_files(tmp_path: Path) -> None:
    result = compile_p4(GOLDEN / "l3.p4")
    json_path, info_path = write_outputs(result, tmp_path / "new" / "folder", "l3")
    assert (json_path.name, info_path.name) == ("l3.json", "l3.p4info.txtpb")
    assert json.loads(json_path.read_text()) == result.json
    assert text_format.Parse(info_path.read_text(), p4i.P4Info()) == result.p4info
    assert info_path.read_text() == (GOLDEN / "l3.p4info.txtpb").read_text()


def test_the_same_source_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "features.p4"
    copy.parent.mkdir()
    copy.write_text((GOLDEN / "features.p4").read_text())
    here, there = compile_p4(GOLDEN / "features.p4"), compile_p4(copy)
    assert here.json_text == there.json_text
    assert here.p4info_text == there.p4info_text


def test_warnings_name_what_bmv2_does_not_do() -> None:
    warnings = [str(w) for w in compile_p4(GOLDEN / "features.p4").warnings]
    assert any("reject" in w and "features.p4:52:" in w for w in warnings), warnings


def test_defines_and_include_folders(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "ports.p4").write_text("const bit<9> PORT = OUT;\n")
    program = (GOLDEN / "l3.p4").read_text()
    program = program.replace("s.egress_spec = 2", "s.egress_spec = PORT")
    program = program.replace("header eth_t", '#include "ports.p4"\nheader eth_t', 1)
    source = tmp_path / "l3.p4"
    source.write_text(program)
    result = compile_p4(source, include_dirs=[tmp_path / "inc"], defines=["OUT=77"])
    assert '"0x004d"' in result.json_text


def test_all_errors_are_listed_with_their_places(tmp_path: Path) -> None:
    source = tmp_path / "bad.p4"
    text = (GOLDEN / "l3.p4").read_text()
    source.write_text(text.replace("h.ip.ttl - 1", "h.ip.tll - 1").replace("= 2;", "= two;"))
    with pytest.raises(CompileError) as caught:
        compile_p4(source)
    messages = str(caught.value).splitlines()
    assert len([m for m in messages if m.startswith(f"{source}:") and ": error: " in m]) >= 2


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    source = tmp_path / "own.p4"
    text = (GOLDEN / "l3.p4").read_text()
    own = """extern own_t { own_t(); abstract bit<8> f(in bit<8> x); }
own_t() own = { bit<8> f(in bit<8> x) { return x; } };
"""
    source.write_text(text.replace("header eth_t", f"{own}header eth_t", 1))
    with pytest.raises(NotSupported, match=r"own\.p4:\d+:\d+: error: not supported yet: instances"):
        compile_p4(source)


@pytest.mark.parametrize("missing", ["nowhere.p4", ""])
def test_a_missing_file_is_an_error_of_ours(tmp_path: Path, missing: str) -> None:
    with pytest.raises(CompileError):
        compile_p4(tmp_path / missing)


def test_fabric_takes_some_tenths_of_a_second() -> None:
    """12 million calls with all mechanisms, of which path telemetry has 0.6; fast machines do some
    10 million in a second."""
    include_dirs = [FABRIC.parent, FABRIC.parent / "include"]
    assert calls(lambda: compile_p4(FABRIC, include_dirs=include_dirs)) < 12_000_000
    result = compile_p4(FABRIC, include_dirs=include_dirs)
    assert set(result.timings) >= {"cpp", "parse", "check", "lower", "p4info", "json"}
