"""`weft corpus`: finds programs, reads lists, says what is refused, slow or answers otherwise.

$WEFT_P4_CORPUS: directories and list files of programs by others, with colons between; without it
that test is skipped, saying so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from compat.commands import corpus_packets
from compat.commands.corpus_packets import Status
from compat.conformance import corpus, p4c
from compat.conformance.corpus import ListError, Source
from compat.conformance.findings import Verdict
from softswitch import jobs as pool
from weft.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
OTHERS = "WEFT_P4_CORPUS"
PROGRAM = """
#include <core.p4>
#include <v1model.p4>
#include "types.p4"
struct headers { h_t h; }
struct meta_t { }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = PORT; h.h.v = h.h.v + 1; }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Return a checkout: a program that needs a definition, one that is wrong, and parts of
    them.
    """
    folder = tmp_path / "others"
    (folder / "sub").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include" / "types.p4").write_text("header h_t { bit<16> v; }\n")
    (folder / "sub" / "port.p4").write_text(PROGRAM)
    (folder / "sub" / "wrong.p4").write_text(PROGRAM.replace("h.h.v + 1", "h.h.w"))
    (folder / "sub" / "part.p4").write_text(
        "// V1Switch(P()) main;\nheader other_t { bit<8> x; }\n"
    )
    return folder


def test_programs_are_those_with_a_switch_as_main(others: Path) -> None:
    found = corpus.find(others, [others / "include"], ["PORT=3"])
    assert [source.path.name for source in found] == ["port.p4", "wrong.p4"]
    assert found[0].options() == [f"-I{others / 'include'}", "-DPORT=3"]


def test_a_list_names_programs_as_its_own_folder_sees_them(others: Path) -> None:
    path = others / "list"
    path.write_text(
        "# two of one file\n\nsub/port.p4 -I include -DPORT=1\n"
        'sub/port.p4 -Iinclude -D "PORT=2"  # the other\n'
    )
    include = (others / "include",)
    program = others / "sub" / "port.p4"
    assert corpus.read_list(path) == [
        Source(program, include, ("PORT=1",)),
        Source(program, include, ("PORT=2",)),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("none.p4", "no such file"),
        ("sub/port.p4 -I", "-I needs a value"),
        ("sub/port.p4 sub/wrong.p4", "one program a line is wanted, 2 found"),
        ("-DPORT=1", "one program a line is wanted, 0 found"),
        ('sub/port.p4 -D "PORT=1', "No closing quotation"),
    ],
)
def test_a_wrong_line_is_named(others: Path, line: str, says: str) -> None:
    path = others / "list"
    path.write_text(f"\n{line}\n")
    with pytest.raises(ListError, match=f"list:2: .*{says}"):
        corpus.read_list(path)


def test_a_program_is_judged_down_to_machine_code(others: Path) -> None:
    source = Source(others / "sub" / "port.p4", (others / "include",), ("PORT=1",))
    judged = corpus.judge(source, None)
    assert judged.ours is Verdict.ACCEPTED and judged.agrees and judged.theirs is None
    assert {"parse", "lower", "machine code"} <= judged.seconds.keys()
    assert 0 < judged.total_s < 10 and judged.p4info_bytes > 0
    refused = corpus.judge(Source(source.path, source.include_dirs), None)
    assert refused.ours is Verdict.REFUSED and 'unknown name "PORT"' in refused.reason


def test_the_command_says_what_is_refused_and_what_packets_show(
    others: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without p4c
    words = ["corpus", str(others), "-I", str(others / "include"), "-D", "PORT=1", "--json"]
    assert main([*words, "--packets", "20"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(Path(p["program"]).name, p["ours"]) for p in result["programs"]] == [
        ("port.p4", "accepted"),
        ("wrong.p4", "refused"),
    ]
    (packets,) = result["packets"]
    assert packets["status"] == "equal" and packets["reasons"] == []
    assert packets["cases"] == 20 and packets["answered"] > 0 and packets["on_bmv2"] == 0
    assert sum(packets["coverage"][way] for way in ("changed", "unchanged", "dropped")) == 20


def test_a_program_that_takes_too_long_fails_the_run(
    others: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    words = ["corpus", str(others), "-I", str(others / "include"), "-D", "PORT=1"]
    assert main([*words, "--limit", "0.000001"]) == 1
    assert "more than 1e-06 s" in capsys.readouterr().out


def test_packets_that_do_not_end_in_time_are_counted_as_not_done(others: Path) -> None:
    source = Source(others / "sub" / "port.p4", (others / "include",), ("PORT=1",))
    judged = [corpus.judge(source, None)]
    (one,) = corpus_packets.through(
        judged, packets=100_000, live_packets=0, at_once=1, limit_s=0.01
    )
    assert one.status is Status.NOT_DONE and one.cases == 0
    assert one.reasons == ("not done after 0.01 s",)
    until = time.monotonic() + 0.01
    both = list(
        corpus_packets.through(
            judged * 2, packets=100_000, live_packets=0, at_once=1, limit_s=60.0, until=until
        )
    )
    assert [one.reasons for one in both] == [
        ("not done when the whole time was over",),
        ("not begun when the whole time was over",),
    ]


def _starts_another(path: Path) -> str:
    started = subprocess.Popen(["sleep", "600"])
    path.write_text(str(started.pid))
    started.wait()
    return "ended by itself"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_job_started_ends_with_the_job(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    results = pool.run(
        [path], _starts_another, at_once=1, limit_s=5.0, lost=lambda job, loss: loss.why
    )
    assert list(results) == ["not done after 5 s"]
    deadline = time.monotonic() + 60
    while _runs(int(path.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(int(path.read_text()))


def _hangs_with_files(_: int) -> str:
    tempfile.mkdtemp()
    subprocess.run(["sh", "-c", "mktemp; exec sleep 600"], check=False, stdout=subprocess.DEVNULL)
    return "ended by itself"


def test_a_killed_job_leaves_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    results = pool.run(
        [1, 2], _hangs_with_files, at_once=2, limit_s=2.0, lost=lambda job, loss: loss.why
    )
    first = next(results)
    assert len(list(tmp_path.glob("*/*/*"))) >= 2  # what the other has made
    assert [first, *results] == ["not done after 2 s"] * 2
    assert list(tmp_path.iterdir()) == []


PARENT = """
import sys, time
from softswitch import jobs as pool

def work(job):
    import os
    print(os.getpid(), flush=True)
    time.sleep(600)

list(pool.run([1], work, at_once=1, limit_s=600.0, lost=lambda job, loss: loss.why))
"""


def test_jobs_end_when_the_process_that_asked_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=REPOSITORY, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        job = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 60
    while _runs(job) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(job)


def test_a_compilation_that_takes_too_long_is_not_done_and_no_crash(
    others: Path, tmp_path: Path
) -> None:
    source = Source(others / "sub" / "port.p4", (others / "include",), ("PORT=1",))
    late = corpus.lost(source, pool.Loss("not done after 60 s", 60.0))
    assert (late.ours, late.agrees) == (Verdict.NOT_DONE, False)
    ended = corpus.lost(source, pool.Loss("the process ended with code -11", 1.0, ended=True))
    assert (ended.ours, ended.agrees) == (Verdict.CRASHED, False)
    slow = tmp_path / "p4c-bm2-ss"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    assert p4c.compile_file(slow, source.path, limit_s=0.1).verdict is Verdict.NOT_DONE


def test_the_summary_says_how_far_packets_got(
    others: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    words = ["corpus", str(others), "-I", str(others / "include"), "-D", "PORT=1"]
    assert main([*words, "--packets", "20"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"of them equal +1 *\n", out) and re.search(r"of them not done +0 *\n", out)
    assert re.search(r"tables hit +0 of 0 *\n", out)


def test_folders_without_programs_are_refused(tmp_path: Path) -> None:
    assert main(["corpus", str(tmp_path)]) == 2
    assert main(["corpus", str(tmp_path / "none")]) == 2
    assert main(["corpus"]) == 2


@pytest.mark.parametrize("name", ["fabric.p4", "fast_cnp.p4"])
def test_our_own_largest_programs_compile_within_the_limit(name: str) -> None:
    before = os.times()
    judged = corpus.judge(Source(REPOSITORY / "p4src" / name), None)
    after = os.times()
    assert judged.ours is Verdict.ACCEPTED
    # What it costs: how long it takes is the other processes' matter too.
    spent = [now - then for now, then in zip(after[:4], before[:4], strict=True)]
    assert 0 < sum(spent) < 10


@pytest.mark.reference(variable=OTHERS, names="programs by others")
def test_programs_by_others_compile_as_with_p4c(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["corpus"]
    for name in os.environ[OTHERS].split(os.pathsep):
        words += [name] if Path(name).is_dir() else ["--list", name]
    status = main(words)
    assert status == 0, capsys.readouterr().out
