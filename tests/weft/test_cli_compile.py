"""`weft compile`: its files, its cache, its times and its messages."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch import program_cache
from softswitch.program_cache import Job

REPOSITORY = Path(program_cache.__file__).resolve().parent.parent
FABRIC = REPOSITORY / "p4src" / "fabric.p4"

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
#include "width.p4"

header h_t { bit<WIDTH> f; }
struct headers_t { h_t h; }
struct meta_t { }

parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = PORT; }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a program and what it includes; the cache is empty."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "width.p4").write_text("#define WIDTH 32\n")
    (tmp_path / "prog.p4").write_text(PROGRAM)
    return tmp_path


def compile_it(
    project: Path, *arguments: str | Path, program: str = "prog.p4"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft.cli", "compile", str(project / program)]
    command += ["-I", str(project / "include"), "-D", "PORT=2", "-o", str(project / "out")]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_it_writes_both_files_and_machine_code(project: Path) -> None:
    done = compile_it(project, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["json"] == str(project / "out" / "prog.json")
    program = json.loads((project / "out" / "prog.json").read_text())
    assert program["program"].endswith("prog.p4")
    assert "pkg_info" in (project / "out" / "prog.p4info.txtpb").read_text()
    assert Path(said["pipeline"]).read_bytes().startswith(b"\x7fELF")
    assert said["from_cache"] is False


def test_it_says_what_it_wrote(project: Path) -> None:
    done = compile_it(project)
    (line,) = done.stdout.splitlines()
    out = project / "out"
    assert line.startswith(f"wrote {out}/prog.json and {out}/prog.p4info.txtpb; machine code in")
    assert Path(line.rpartition(": ")[2]).read_bytes().startswith(b"\x7fELF")
    done = compile_it(project, "--no-p4info")
    assert done.stdout.startswith(f"wrote {out}/prog.json; machine code in the cache: ")


def test_errors_and_warnings_show_the_line_and_the_column(project: Path) -> None:
    wrong = PROGRAM.replace("    apply { s.egress_spec = PORT; }", "\tapply { s.egress_spek = 1; }")
    (project / "prog.p4").write_text(wrong)
    place, text, mark = compile_it(project).stderr.splitlines()[:3]
    column = int(place.removeprefix(f"{project / 'prog.p4'}:15:").partition(":")[0])
    assert text == "\tapply { s.egress_spek = 1; }"
    assert text[column - 1 :].startswith("egress_spek")
    assert mark == "\t" + " " * (column - 2) + "^"
    (project / "prog.p4").write_text(PROGRAM.replace("apply { s.", "action a() {} apply { s."))
    told = compile_it(project)
    assert told.returncode == 0
    again = compile_it(project)  # from the cache, which keeps warnings
    assert told.stderr == again.stderr
    place, text, mark = told.stderr.splitlines()
    assert ":15:" in place and "warning" in place
    assert "action a() {}" in text and mark.strip() == "^"


def test_the_second_time_comes_from_the_cache_and_is_the_same(project: Path) -> None:
    first = json.loads(compile_it(project, "--json").stdout)
    texts = [(project / "out" / name).read_text() for name in ("prog.json", "prog.p4info.txtpb")]
    second = json.loads(compile_it(project, "--json").stdout)
    assert (first["from_cache"], second["from_cache"]) == (False, True)
    assert second["pipeline"] == first["pipeline"]
    again = [(project / "out" / name).read_text() for name in ("prog.json", "prog.p4info.txtpb")]
    assert again == texts


def test_json_alone_of_what_p4info_cant_describe(project: Path) -> None:
    text = PROGRAM.replace("struct meta_t { }", "enum Kind { A, B }\nstruct meta_t { Kind k; }")
    table = "table t { key = { m.k: exact; } actions = { NoAction; } }"
    text = text.replace("apply { s.", f"{table} apply {{ t.apply(); s.")
    (project / "prog.p4").write_text(text)
    done = compile_it(project)
    assert done.returncode == 1 and "Kind for the control plane" in done.stderr
    done = compile_it(project, "--no-p4info", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["p4info"] is None
    assert [path.name for path in (project / "out").iterdir()] == ["prog.json"]
    tables = json.loads(Path(said["json"]).read_text())["pipelines"][0]["tables"]
    assert [key["name"] for table in tables for key in table["key"]] == ["m.k"]


@pytest.mark.parametrize(
    "change", ["program", "include", "define", "pipeline lost", "entry damaged"]
)
def test_whatever_the_result_depends_on_makes_it_compile_again(project: Path, change: str) -> None:
    job = Job(project / "prog.p4", (project / "include",), ("PORT=2",))
    first = program_cache.compile_program(job)
    match change:
        case "program":
            (project / "prog.p4").write_text(PROGRAM.replace("= PORT", "= PORT + 1"))
        case "include":
            (project / "include" / "width.p4").write_text("#define WIDTH 48\n")
        case "define":
            job = Job(project / "prog.p4", (project / "include",), ("PORT=3",))
        case "pipeline lost":
            first.pipeline.unlink()
        case _:
            (entry,) = (project / "cache" / "programs").iterdir()
            (entry / "about.json").write_text("{")
    again = program_cache.compile_program(job)
    assert again.from_cache is False
    assert again.pipeline.exists()
    same = change in ("pipeline lost", "entry damaged")
    assert (again.json_text == first.json_text) is same
    assert program_cache.compile_program(job).from_cache is True


def test_a_change_of_the_compiler_itself_makes_it_compile_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(project / "prog.p4", (project / "include",), ("PORT=2",))
    program_cache.compile_program(job)
    newer = project / "newer.py"
    newer.write_text("# one more source of the compiler\n")
    files = program_cache._tool_files
    monkeypatch.setattr(program_cache, "_tool_files", lambda job: [*files(job), newer])
    assert program_cache.compile_program(job).from_cache is False


def test_a_cache_that_can_not_be_written_is_no_error(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(project / "prog.p4", (project / "include",), ("PORT=2",))
    program_cache.compile_program(job)
    (entry,) = (project / "cache" / "programs").iterdir()
    entry.rename(project / "kept")
    (project / "cache" / "programs").rmdir()
    (project / "cache" / "programs").write_text("a file where the directory should be")
    assert program_cache.compile_program(job).from_cache is False


def test_the_fabric_from_the_cache_takes_a_small_share_of_the_time(project: Path) -> None:
    """In CPU time, of which a busy machine gives late but takes no more."""
    command = [sys.executable, "-m", "weft.cli", "compile", str(FABRIC), "-o", str(project / "out")]
    took = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took[1:]) < took[0] / 4


def test_time_shows_the_phases_and_whether_the_cache_served(project: Path) -> None:
    cold = compile_it(project, "--time").stdout
    for phase in ("cpp", "parse", "check", "lower", "codegen", "gcc", "total"):
        assert phase in cold
    assert "not from cache" in cold
    warm = compile_it(project, "--time").stdout
    assert "gcc" not in warm
    assert "total" in warm


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("hdr.h); transition", "hdr.h) transition", 11, "error"),
        ("s.egress_spec = PORT", "s.egress_spek = PORT", 15, "egress_spe"),
        ("s.egress_spec = PORT", "s.egress_spec = hdr.h", 15, "error"),
        ('#include "width.p4"', '#include "nowhere.p4"', 4, "nowhere.p4"),
    ],
    ids=["syntax", "unknown name", "type", "include"],
)
def test_what_is_wrong_is_told_with_its_place(
    project: Path, old: str, new: str, line: int, says: str
) -> None:
    assert old in PROGRAM
    (project / "prog.p4").write_text(PROGRAM.replace(old, new))
    done = compile_it(project)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"{project / 'prog.p4'}:{line}:")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "program", "code", "says"),
    [
        ((), "absent.p4", 1, "can't read the program"),
        (("--compiler", "p4c"), "prog.p4", 1, "p4c-bm2-ss is not on PATH"),
        (("-o", "prog.p4"), "prog.p4", 2, "is a file; give a directory"),
        (("-D", "1=2"), "prog.p4", 1, "is not NAME or NAME=VALUE"),
    ],
    ids=["no file", "no p4c", "out is a file", "bad define"],
)
def test_other_mistakes(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    program: str,
    code: int,
    says: str,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    arguments = tuple(str(project / a) if a == "prog.p4" else a for a in arguments)
    done = compile_it(project, *arguments, program=program)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.reference("p4c-bm2-ss")
def test_p4c_can_be_chosen(project: Path) -> None:
    done = compile_it(project, "--compiler", "p4c", "--json")
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)["pipeline"]).exists()
