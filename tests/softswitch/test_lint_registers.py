"""`weft lint prog.p4`: registers that egress threads would tear, and those that they can't.

Each case is the body of an egress (and of an ingress where it matters) with two registers `r` and
`q`. A split change reads in one action and writes in another.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler import compile_p4
from softswitch.codegen import Bmv2Program
from softswitch.lint_registers import RegisterFinding, register_findings
from weft.cli import main

PROGRAM = """\
#include <core.p4>
#include <v1model.p4>
header tag_t {{ bit<8> slot; bit<16> value; }}
struct headers_t {{ tag_t tag; }}
struct meta_t {{ bit<32> index; bit<16> value; }}
register<bit<16>>(4096) r;
register<bit<16>>(4096) q;
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.tag); transition accept; }}
}}
control V(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    {ingress_locals}
    apply {{ s.egress_spec = 1; {ingress} }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    {locals}
    apply {{
{body}
    }}
}}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
SPLIT = "bit<16> x; {r}.read(x, {i}); if (x > 3) {{ {r}.write({i}, x + 1); }}"
PORT = "(bit<32>)s.egress_port"


def split(index: str, register: str = "r") -> str:
    """Return a counter that is read in one action and written in another."""
    return SPLIT.format(r=register, i=index)


def check(
    tmp_path: Path, body: str, *, local: str = "", ingress: str = "", ingress_locals: str = ""
) -> list[RegisterFinding]:
    path = tmp_path / "prog.p4"
    path.write_text(
        PROGRAM.format(body=body, locals=local, ingress=ingress, ingress_locals=ingress_locals)
    )
    return register_findings(Bmv2Program.from_json(compile_p4(path).json_text))


ONE_ACTION = """action bump() {
    bit<16> x;
    r.read(x, (bit<32>)h.tag.slot);
    x = x > 3 ? 0 : x + 1;
    r.write((bit<32>)h.tag.slot, x);
}"""


@pytest.mark.parametrize(
    ("body", "local"),
    [
        pytest.param("", "", id="no register"),
        pytest.param(split(PORT), "", id="by port"),
        pytest.param(split(f"{PORT} * 8 + (bit<32>)s.priority"), "", id="by port and queue"),
        pytest.param(split(f"{PORT} << 3 | (bit<32>)s.priority"), "", id="by port, shifted"),
        pytest.param(split(f"{PORT} + 512"), "", id="by port, moved"),
        pytest.param(split("(bit<32>)(s.egress_port ++ s.priority)"), "", id="concatenated"),
        pytest.param(f"bit<32> i = {PORT}; {split('i')}", "", id="through a variable"),
        pytest.param(
            f"m.index = {PORT} * 4; if (h.tag.slot == 1) {{ {split('m.index')} }}",
            "",
            id="through metadata",
        ),
        pytest.param("bump();", ONE_ACTION, id="one action with a mux"),
        pytest.param("r.write(0, h.tag.value);", "", id="only written"),
        pytest.param("bit<16> x; r.read(x, 0); h.tag.value = x;", "", id="only read"),
        pytest.param(
            "if (h.tag.slot == 1) { r.write(0, 7); } else { bit<16> x; r.read(x, 0); "
            "h.tag.value = x; }",
            "",
            id="written or read, never both",
        ),
        pytest.param(
            "r.write(0, 7); bit<16> x; if (h.tag.slot == 1) { r.read(x, 0); h.tag.value = x; }",
            "",
            id="written, then read",
        ),
    ],
)
def test_good(tmp_path: Path, body: str, local: str) -> None:
    assert check(tmp_path, body, local=local) == []


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("0", id="one cell"),
        pytest.param("(bit<32>)h.tag.slot", id="by a header"),
        pytest.param(f"{PORT} + (bit<32>)s.priority", id="ports overlap"),
        pytest.param(f"{PORT} * 4 + (bit<32>)s.priority", id="too few cells a port"),
        pytest.param(f"{PORT} << 2 | (bit<32>)s.priority", id="too few bits a port"),
        pytest.param(f"{PORT} & 3", id="ports share"),
        pytest.param("(bit<32>)s.ingress_port", id="by another port"),
        pytest.param(f"(bit<32>)((bit<8>)s.egress_port) + 0 * {PORT}", id="cut"),
        pytest.param("m.index", id="from ingress"),
    ],
)
def test_bad_index(tmp_path: Path, index: str) -> None:
    (found,) = check(tmp_path, "\n" + split(index), ingress="m.index = 5;")
    assert "egress reads register r" in found.message
    assert found.source is not None and found.source.text.startswith("r.write")
    assert "one action" in found.right


def test_an_index_that_is_not_always_set(tmp_path: Path) -> None:
    body = f"if (h.tag.slot == 1) {{ m.index = {PORT}; }} {split('m.index')}"
    assert len(check(tmp_path, body)) == 1


def test_an_index_with_two_sources(tmp_path: Path) -> None:
    body = f"m.index = {PORT}; if (h.tag.slot == 1) {{ m.index = 0; }} {split('m.index')}"
    assert len(check(tmp_path, body)) == 1


def test_an_index_out_of_a_tables_entry(tmp_path: Path) -> None:
    local = """action cell(bit<32> index) { m.index = index; }
    table cells { key = { s.egress_port: exact; } actions = { cell; } }"""
    assert len(check(tmp_path, f"cells.apply(); {split('m.index')}", local=local)) == 1


def test_both_registers_are_told_apart(tmp_path: Path) -> None:
    body = split("0").replace("x", "y") + "\n" + split(PORT, "q")
    (found,) = check(tmp_path, body)
    assert "register r" in found.message


def test_a_read_and_a_write_in_a_tables_actions(tmp_path: Path) -> None:
    local = """action look() { r.read(m.value, 0); }
    action note() { r.write(0, m.value + 1); }
    table first { key = { h.tag.slot: exact; } actions = { look; } }
    table second { key = { h.tag.slot: exact; } actions = { note; } }"""
    assert len(check(tmp_path, "first.apply(); second.apply();", local=local)) == 1
    assert check(tmp_path, "second.apply(); first.apply();", local=local) == []


def test_ingress_may_keep_state_across_ports(tmp_path: Path) -> None:
    assert check(tmp_path, "", ingress=split("0")) == []


def test_ingress_and_egress_do_not_share_what_is_split(tmp_path: Path) -> None:
    (found,) = check(tmp_path, split(PORT), ingress="r.write(1, 0);")
    assert "ingress writes it too" in found.message
    (found,) = check(tmp_path, "r.write(1, 0);", ingress=split("0"))
    assert "egress writes it too" in found.message
    # Reading what the other writes tears nothing, and one action is atomic everywhere.
    assert check(tmp_path, split(PORT), ingress="bit<16> x; r.read(x, 1); m.value = x;") == []
    assert (
        check(tmp_path, "bump();", local=ONE_ACTION, ingress="bump();", ingress_locals=ONE_ACTION)
        == []
    )


def test_the_command_names_the_line_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prog.p4"
    body = "\nbit<16> x;\nr.read(x, 0);\nx = x + 1;\nif (x > 2) {\n    r.write(0, x);\n}"
    text = PROGRAM.format(body=body, locals="", ingress="", ingress_locals="")
    path.write_text(text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "r.write" in each)
    assert main(["lint", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{path}:{line}:1: error: egress reads register r (line {line - 3})")
    assert main(["lint", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["good"], found["findings"][0]["line"]) == (False, line)
    assert main(["lint", "p4src/fabric.p4", "p4src/base.p4"]) == 0
    assert "nothing to complain about" in capsys.readouterr().out


def test_bmv2_json_is_taken_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "prog.p4"
    source.write_text(PROGRAM.format(body=split("0"), locals="", ingress="", ingress_locals=""))
    path = tmp_path / "prog.json"
    path.write_text(compile_p4(source).json_text)
    assert main(["lint", str(path)]) == 1
    assert "prog.p4:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("x.p4", "control", 1, "x.p4:1"),
        ("x.json", "{}", 1, "no BMv2 JSON"),
        ("x.json", "{", 1, ""),
        ("x.yaml", "a: [", 1, "x.yaml:1"),
        ("x.txt", "", 2, "give a .p4, .json or .yaml file"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    code: int,
    message: str,
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert main(["lint", str(path)]) == code
    both = capsys.readouterr()
    assert message in both.out + both.err
    assert "bug in Weft" not in both.err


@pytest.mark.parametrize("name", ["no.p4", "no.json", "no.yaml"])
def test_files_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["lint", str(tmp_path / name)]) == 1
    both = capsys.readouterr()
    assert name in both.out + both.err
    assert "bug in Weft" not in both.err
