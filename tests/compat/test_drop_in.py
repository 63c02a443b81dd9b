"""`weft drop-in`: programs with p4lang's names, and p4c's command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf import json_format, text_format

from compat.dropin.p4c import main as p4c_main
from softswitch.p4runtime.protos import p4i
from weft.cli import main

PROGRAM = """\
#include <core.p4>
#include <v1model.p4>
#ifndef WIDTH
#define WIDTH 8
#endif
header a_t { bit<WIDTH> a; }
struct headers { a_t a; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
  state start { p.extract(hdr.a); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
  action go() { s.egress_spec = 1; }
  action never() { }
  table t { key = { hdr.a.a: exact; } actions = { go; NoAction; } }
  apply { t.apply(); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.a); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
UNUSED_LINE = PROGRAM.splitlines().index("  action never() { }") + 1


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drop-in") / "bin"
    assert main(["drop-in", str(folder)]) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "prog.p4").write_text(PROGRAM)
    # A folder of the user's, with a module that must not stand in for Python's own.
    (tmp_path / "enum.py").write_text("raise SystemExit('the wrong enum')\n")
    return tmp_path


Run = subprocess.CompletedProcess[str]


def run(here: Path, program: Path, *words: str) -> Run:
    return subprocess.run(
        [program, *words],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_programs_are_there_and_start(programs: Path, here: Path) -> None:
    versions = {"p4c-bm2-ss": "1.2.5", "p4c": "1.2.5"}
    versions |= {"simple_switch": "1.15", "simple_switch_grpc": "1.15"}
    for name, version in versions.items():
        done = run(here, programs / name, "--version")
        assert done.returncode == 0, done.stderr
        assert version in done.stdout
    assert "simple_switch_CLI" in {path.name for path in programs.iterdir()}


def test_it_prints_the_line_for_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drop-in", str(tmp_path / "my bin")]) == 0
    assert capsys.readouterr().out == f"export PATH='{tmp_path}/my bin':$PATH\n"
    assert main(["drop-in", str(tmp_path / "my bin")]) == 0  # its own may be replaced


def link(path: Path) -> None:
    path.symlink_to("/bin/true")


@pytest.mark.parametrize(
    "put",
    [lambda path: path.write_text("#!/bin/sh\n"), link, Path.mkdir],
    ids=["file", "link", "dir"],
)
def test_what_others_put_there_stays(
    put: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(put)
    put(tmp_path / "p4c")
    assert main(["drop-in", str(tmp_path)]) == 1
    assert "p4c is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["p4c"]


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["drop-in", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err


# ----------------------------------------------------------------------- p4c's command line


def p4c(here: Path, *words: str, driver: bool = False) -> Run:
    """p4c-bm2-ss, or p4c, in this folder."""
    code = f"import sys; from compat.dropin.p4c import main; sys.exit(main(driver={driver}))"
    return run(here, Path(sys.executable), "-I", "-c", code, *words)


def test_tutorials_line_writes_json_and_p4info(here: Path) -> None:
    words = "--p4v 16 --p4runtime-files a.p4.p4info.txtpb,a.json,a.bin,a.txt -o out.json prog.p4"
    done = p4c(here, *words.split())
    assert done.returncode == 0, done.stderr
    assert json.loads((here / "out.json").read_text())["pipelines"]
    info = text_format.Parse((here / "a.p4.p4info.txtpb").read_text(), p4i.P4Info())
    assert info.tables[0].preamble.name == "I.t"
    assert p4i.P4Info.FromString((here / "a.bin").read_bytes()) == info
    assert json_format.Parse((here / "a.json").read_text(), p4i.P4Info()) == info
    assert (here / "a.txt").read_text() == (here / "a.p4.p4info.txtpb").read_text()


def test_the_driver_writes_into_a_folder(here: Path) -> None:
    words = "--target bmv2 --arch v1model --std p4-16 --p4runtime-files i.txtpb -o new/dir prog.p4"
    done = p4c(here, *words.split(), driver=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (here / "new" / "dir").iterdir()} == {"prog.json", "prog.p4i"}
    assert (here / "i.txtpb").exists()


def test_errors_of_p4info_only_where_it_is_wanted(here: Path) -> None:
    wrong = '@p4runtime_translation("x", bool) type bit<8> n_t;\n'
    (here / "prog.p4").write_text(PROGRAM.replace("header a_t", f"{wrong}header a_t"))
    done = p4c(here, "--p4runtime-files", "i.txtpb", "-o", "out.json", "prog.p4")
    assert done.returncode == 1 and "prog.p4(6): " in done.stderr
    assert not (here / "out.json").exists()
    done = p4c(here, "-o", "out.json", "prog.p4")
    assert done.returncode == 0, done.stderr
    assert json.loads((here / "out.json").read_text())["pipelines"]


def test_without_o_nothing_is_written(here: Path) -> None:
    before = {path.name for path in here.iterdir()}
    assert p4c(here, "prog.p4").returncode == 0
    assert {path.name for path in here.iterdir()} == before


def test_a_warning_looks_as_p4cs(here: Path) -> None:
    done = p4c(here, "prog.p4")
    lines = done.stderr.splitlines()
    at = next(i for i, line in enumerate(lines) if "never" in line)
    assert lines[at].startswith(f"prog.p4({UNUSED_LINE}): [--Wwarn=unused] warning: ")
    assert lines[at + 1] == "  action never() { }"
    assert lines[at + 2] == "         ^"


@pytest.mark.parametrize(
    ("options", "code", "mark"),
    [
        ("", 0, "[--Wwarn=unused] warning: "),
        ("--Wdisable=unused", 0, ""),
        ("--Wdisable", 0, ""),
        ("--Winfo=unused", 0, "[--Winfo=unused] info: "),
        ("--Werror", 1, "[--Werror=unused] error: "),
        ("--Werror=unused", 1, "[--Werror=unused] error: "),
        ("--Werror --Wwarn=unused", 0, "[--Wwarn=unused] warning: "),
        ("--Werror=shadow", 0, "[--Wwarn=unused] warning: "),
    ],
)
def test_levels_of_warnings(options: str, code: int, mark: str, here: Path) -> None:
    done = p4c(here, *options.split(), "-o", "out.json", "prog.p4")
    assert done.returncode == code, done.stderr
    assert mark in done.stderr
    assert bool(done.stderr) == bool(mark)
    assert (here / "out.json").exists() == (code == 0)


def test_errors_name_file_and_line(here: Path) -> None:
    (here / "prog.p4").write_text(PROGRAM.replace("t.apply();", "nothing = 1;"))
    done = p4c(here, "-o", "out.json", "prog.p4")
    line = PROGRAM.splitlines().index("  apply { t.apply(); }") + 1
    assert done.returncode == 1
    assert f"prog.p4({line}): [--Werror" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (here / "out.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--frob", "prog.p4"], "Unknown option --frob"),
        ([], "No input files specified"),
        (["prog.p4", "prog.p4"], "Only one input file"),
        (["-o"], "-o is missing required argument"),
        (["--p4v", "14", "prog.p4"], "P4_16 only"),
        (["--std", "p4-17", "prog.p4"], "Illegal language version p4-17"),
        (["--target", "tofino", "prog.p4"], "target tofino"),
        (["--arch", "psa", "prog.p4"], "architecture psa"),
        (["--pp", "x", "prog.p4"], "--pp"),
        (["--p4runtime-files", "x.foo", "prog.p4"], "x.foo: unknown file kind"),
        (["--maxErrorCount", "none", "prog.p4"], "--maxErrorCount none"),
        (["-Xp4c", "--Werror", "prog.p4"], "Unknown option -Xp4c"),
        (["-o", "missing/x.json", "prog.p4"], 'file "missing/x.json": No such file'),
        (["absent.p4"], "absent.p4"),
        (["@absent"], "absent"),
    ],
)
def test_what_is_wrong_is_one_clear_message(words: Sequence[str], says: str, here: Path) -> None:
    done = p4c(here, *words)
    assert done.returncode == 1
    assert says in done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bug_of_ours_is_one_line_too(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr("compiler.compile_p4", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    assert p4c_main([str(here / "prog.p4")]) == 1
    error, remedy = capsys.readouterr().err.splitlines()
    assert error == "error: this is a bug in Weft (KeyError: 'gone')"
    assert Path(remedy.split()[-1]).read_text().endswith("KeyError: 'gone'\n")


def test_preprocessor_options(here: Path) -> None:
    (here / "more").mkdir()
    (here / "more" / "extra.p4").write_text("// extra\nconst bit<8> EXTRA = 1;\n")
    (here / "prog.p4").write_text('#include "extra.p4"\n' + PROGRAM)
    done = p4c(here, "-I", "more", "-DWIDTH=16", "-Imore", "-E", "prog.p4")
    assert done.returncode == 0, done.stderr
    assert "bit<16> a" in done.stdout
    assert "EXTRA" in done.stdout
    rule = p4c(here, "-M", "-MT", "out.json", "-Imore", "prog.p4")
    assert rule.stdout.startswith("out.json: prog.p4 ")
    assert "more/extra.p4" in rule.stdout
    undefined = p4c(here, "-DWIDTH=16", "-UWIDTH", "-Imore", "-E", "prog.p4")
    assert "bit<8> a" in undefined.stdout


def test_arguments_in_a_file(here: Path) -> None:
    (here / "arguments").write_text("--Wdisable -o 'out 1.json'\n# a remark\nprog.p4\n")
    done = p4c(here, "@arguments")
    assert done.returncode == 0, done.stderr
    assert (here / "out 1.json").exists()
    (here / "round").write_text("@round\n")
    assert "in a circle" in p4c(here, "@round").stderr


def test_options_of_the_driver_alone(here: Path) -> None:
    done = p4c(here, "-b", "bmv2", "-a", "v1model", "-Xp4c=--Werror=unused", "prog.p4", driver=True)
    assert done.returncode == 1
    assert "-Xp4c" in done.stderr
    done = p4c(
        here, "-Xp4c", "--Wdisable=unused", "-Xpreprocessor", "-DWIDTH=16", "prog.p4", driver=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "bit<16> a" in (here / "prog.p4i").read_text()
    for inner, says in (
        ('"--Werror', "No closing quotation"),
        ("other.p4", "is no option of the compiler"),
        ("-b bmv2", "Unknown option -b"),
        ("--maxErrorCount 0", "give a number above 0"),
    ):
        done = p4c(here, "-Xp4c", inner, "prog.p4", driver=True)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert says in done.stderr
    done = p4c(here, "-Xp4c", "--version", driver=True)
    assert done.stdout.startswith("p4c\nVersion ")
