"""`weft stf` with programs and tests of our own, and with p4c's where they are.

$WEFT_P4C_SAMPLES names p4c's testdata/p4_16_samples; without it that test is skipped, saying so.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from weft.cli import main

OWN = Path(__file__).with_name("stf")
NAMES = ("keys", "copies", "state")
PASSED_OF_P4C = 187
"""What real p4c and BMv2 pass of them too."""


def stf(*arguments: str | Path) -> int:
    return main(["stf", *map(str, arguments)])


def own(name: str) -> tuple[Path, Path]:
    return OWN / f"{name}-bmv2.p4", OWN / f"{name}-bmv2.stf"


@pytest.mark.parametrize("name", NAMES)
def test_own_tests_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stf(*own(name), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["passed"] and len(result["rows"]) > 5


ZERO = """
mirroring_add 0 3
packet 0 00000000 0000 00 00
expect 1
expect 3
mc_mgrp_create 7
mc_node_create 5 4 5
mc_node_associate 7 0
mirroring_add_mc 0 7
packet 0 00000000 0000 00 00
expect 1
expect 4
expect 5
mirroring_delete 0
packet 0 00000000 0000 00 00
expect 1
"""


def test_session_zero_mirrors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = own("copies")[0].read_text().replace("if (hdr.probe.level != 0)", "if (true)")
    (tmp_path / "zero.p4").write_text(program)
    (tmp_path / "frame.p4").write_text((OWN / "frame.p4").read_text())
    (tmp_path / "zero.stf").write_text(ZERO)
    assert stf(tmp_path / "zero.p4", tmp_path / "zero.stf", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["rows"]) == 6
    assert all(row["ok"] for row in result["rows"])


@pytest.mark.reference("simple_switch_grpc")
@pytest.mark.parametrize("name", ["keys", "copies"])
def test_own_tests_pass_on_bmv2(name: str) -> None:
    assert stf(*own(name), "--target", "bmv2") == 0


@pytest.mark.reference("simple_switch_grpc")
def test_bmv2_has_no_registers(capsys: pytest.CaptureFixture[str]) -> None:
    assert stf(*own("state"), "--target", "bmv2") == 1
    assert "line 3: register ProbeIngress.memory[3]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "before", "after", "why"),
    [
        ("keys", "expect 3 00000000 0000 07 11", "expect 3 00000000 0000 07 12", "1 digit differ"),
        ("keys", "07 11 AABB $", "07 11 $", "10 B, expected exactly 8 B"),
        ("keys", "07 11 AABB $", "07 11 AABBCC", "10 B, expected 11 B"),
        ("keys", "packet 0 00000000 0000 09 00\nno_packet", "packet 0 00000000 0000 08 00\n"
         "no_packet", "not expected"),
        ("keys", "packets == 1", "packets != 1", "it is not"),
        ("keys", "expect 4\n", "", "not expected"),
        ("keys", "level:0x08", "level:0x108", "refused"),
        ("state", "03 43\ncheck", "03 44\ncheck", "1 digit differ"),
        ("copies", "expect 7", "expect 8", "no packet came out"),
    ],
)  # fmt: skip
def test_what_is_not_as_expected_fails(
    name: str, before: str, after: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, test = own(name)
    text = test.read_text()
    assert before in text
    changed = tmp_path / "changed.stf"
    changed.write_text(text.replace(before, after, 1))
    assert stf(program, changed, "--json") == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert any(why in f"{row['why']} {row['got']}" for row in rows if not row["ok"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wait\nadd nowhere level:1 refuse()", ":2: there is no table 'nowhere'; there are: "),
        ("add by_level height:1 refuse()", ":1: key 'height' is none of the keys of table"),
        ("add by_level level:1 jump()", ":1: there is no action of table"),
        ("add by_level level:1 answer(value:1)", "lacks port"),
        ("add by_level level:1 answer(value:1, port:1, x:1)", "has no argument 'x'"),
        ("add by_kind kind:0x12** refuse()", "needs a priority"),
        ("check_counter asked(nobody)", "no entry has the label 'nobody'"),
        ("mirroring_get 5", "no mirroring session 5"),
        ("mc_node_associate 1 0", "no multicast node 0"),
        ("register_read r 1", "there is no register 'r'; there are: none"),
        ("packet 1 0", ":1: packet data is whole bytes"),
    ],
)
def test_statement_that_can_not_be_done(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "wrong.stf"
    test.write_text(text)
    assert stf(own("keys")[0], test) == 1
    assert message in capsys.readouterr().err


def test_table_shows_line_expected_and_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "short.stf"
    test.write_text("packet 0 00000000 0006 00 00\nexpect 1 00000000 0007 00 00\n")
    assert stf(own("copies")[0], test) == 1
    out = capsys.readouterr().out
    assert "0000000000070000" in out and "nothing" in out and "FAILED" in out
    assert "0 as expected, 1 not" in out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (own("keys")[0],),
        (own("keys")[0], Path("no.stf")),
        (*own("keys"), "--report", Path("x.md")),
        ("--all", Path("no-such-directory")),
        (own("keys")[0], "--all", OWN),
        ("--all", OWN, "--jobs", "0"),
    ],
)
def test_wrong_arguments(arguments: tuple[str | Path, ...]) -> None:
    assert stf(*arguments) == 2


def test_a_directory_is_not_called_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert stf(OWN, own("keys")[1]) == 2
    assert f"{OWN}: is a directory" in capsys.readouterr().err


def test_page_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    for name in ("frame.p4", "copies-bmv2.p4", "copies-bmv2.stf"):
        (samples / name).write_text((OWN / name).read_text())
    (samples / "wrong-bmv2.p4").write_text((OWN / "copies-bmv2.p4").read_text())
    (samples / "wrong-bmv2.stf").write_text("packet 1 00000000 0000 00 00\nexpect 2 00\n")
    (samples / "refused-bmv2.p4").write_text("#include <v1model.p4>\nbit<8> x = y;\n")
    (samples / "refused-bmv2.stf").write_text("wait\n")
    (samples / "other-bmv2.p4").write_text("#include <psa.p4>\n")
    (samples / "other-bmv2.stf").write_text("wait\n")
    page = tmp_path / "page.md"
    assert stf("--all", samples, "--report", page, "--json") == 1
    found = {one["test"]: one for one in json.loads(capsys.readouterr().out)}
    assert {name: one["verdict"] for name, one in found.items()} == {
        "copies-bmv2": "pass",
        "other-bmv2": "another architecture",
        "refused-bmv2": "fail",
        "wrong-bmv2": "fail",
    }
    assert found["refused-bmv2"]["stage"] == "compile"
    text = page.read_text()
    assert "**1 of 3 pass.** 2 fail" in text
    assert "| wrong-bmv2 | compare | line 1: expected port 1: nothing more" in text
    assert str(tmp_path) not in text


@pytest.mark.reference(variable="WEFT_P4C_SAMPLES", names="p4c's testdata/p4_16_samples")
def test_p4c_samples(capsys: pytest.CaptureFixture[str]) -> None:
    stf("--all", os.environ["WEFT_P4C_SAMPLES"], "--json")
    outcomes = json.loads(capsys.readouterr().out)
    passed = [one["test"] for one in outcomes if one["verdict"] == "pass"]
    assert len(passed) >= PASSED_OF_P4C
