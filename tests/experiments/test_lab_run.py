"""`weft lab` as a user meets it: what it writes, how it ends, and what it says of wrong input."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments import results
from experiments.api import Verdict
from tests.experiments import small_lab
from weft import cli

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    errors: str
    folder: Path

    @property
    def result(self) -> results.LabResult:
        """What it wrote."""
        return results.read(self.folder)


@dataclass(frozen=True)
class Bench:
    """Runs labs of a directory of its own."""

    root: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str, name: str = "small") -> Ran:
        """Run a lab of `root`/labs; results go to `root`/out."""
        self.capture.readouterr()
        where = ["--labs", str(self.root / "labs"), "--out", str(self.root / "out")]
        code = cli.main(["lab", "run", name, *where, *arguments])
        captured = self.capture.readouterr()
        return Ran(code, captured.out, captured.err, self.root / "out")


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the small lab once with all variants and seeds."""
    root = tmp_path_factory.mktemp("whole")
    small_lab.write(root / "labs")
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "small"]
    command += ["--labs", str(root / "labs"), "--out", str(root / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300)
    return Ran(done.returncode, done.stdout, done.stderr, root / "out")


# --- what it writes ------------------------------------------------------------------------------


def test_it_passes_and_says_what_was_measured(whole: Ran) -> None:
    assert whole.code == 0, whole.errors
    shown = " ".join(whole.out.split())
    for phrase in (
        "goodput [Gb/s]", "a slow link", "never", "at least 80 Gb/s", "0.45 to 0.55", "reported",
        "runtime simulator, time scale 1, seeds 1, 2.", "Medians of 2 runs", "report.html",
    ):  # fmt: skip
        assert phrase in shown, phrase
    assert "6/6" in whole.errors  # a line a run where there is no terminal


def test_results_hold_everything(whole: Ran) -> None:
    result = whole.result
    assert (result.lab, result.runtime, result.time_scale) == ("small", "simulator", 1)
    assert result.seeds == [1, 2]
    assert result.settings == {"least": 90}
    assert result.versions.keys() >= {"weft", "python", "kernel"}
    assert re.fullmatch(r"[0-9a-f]{64}", result.program.sha256)
    assert [each.name for each in result.variants] == ["one", "two", "slow"]
    one, two, slow = result.variants
    assert slow.parameters["topology"]["link"]["rate"] == "50Gbps"
    goodput = one.metrics["goodput"]
    assert goodput.median == pytest.approx(87.5, abs=3)  # 90 of 100 us, 82 B of 4178 around each
    assert (goodput.unit, goodput.n, goodput.method) == ("Gb/s", 2, "student t")
    assert goodput.low == goodput.high == goodput.median  # nothing in it depends on the seed
    queue = two.metrics["peak_queue"].median
    assert queue is not None and queue > 0.5
    assert one.metrics["loss"].median is None and one.metrics["loss"].missing == 2
    assert one.metrics["begins"].median == pytest.approx(10, abs=0.1)
    for run in one.runs:
        assert (whole.folder / run.folder / "summary.json").is_file()


def test_checks_have_row_value_threshold_and_verdict(whole: Ran) -> None:
    full, half, queue = whole.result.checks
    assert (full.row, full.threshold, full.unit, full.verdict) == ("full", 80.0, "Gb/s", "pass")
    assert full.value == whole.result.variants[0].metrics["goodput"].median
    assert (half.expected, half.threshold, half.verdict) == ("0.45 to 0.55", (0.45, 0.55), "pass")
    assert (queue.verdict, queue.threshold) == ("reported", None)


def test_the_report_needs_nothing_but_itself(whole: Ran) -> None:
    page = (whole.folder / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]{5})', page)
    assert set(sources) == {"data:"}
    assert len(sources) == 2  # the figure, and README's picture
    assert "http" not in page.replace("http-equiv", "")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert page.count("<html") == page.count("</html>") == 1
    for phrase in (
        "<td>two</td>", "<strong>bytes in minus bytes out</strong>", "2 of 2 checks passed",
        "Goodput of each &lt;variant&gt;.", "50Gbps", "@media print",
    ):  # fmt: skip
        assert phrase in page, phrase


def test_figures_are_pngs(whole: Ran) -> None:
    (figure,) = whole.result.figures
    assert (whole.folder / figure.file).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_nothing_is_left_beside_the_results(whole: Ran) -> None:
    assert sorted(path.name for path in whole.folder.parent.iterdir()) == ["labs", "out"]


# --- how it ends ---------------------------------------------------------------------------------


def test_a_failing_check_ends_with_1_and_its_results(bench: Bench) -> None:
    small_lab.write(bench.root / "labs", least=99)
    ran = bench.run("--variant", "one", "--seeds", "7")
    assert ran.code == 1
    assert "FAILED" in ran.out
    assert ran.result.verdict is Verdict.FAIL
    assert [check.verdict for check in ran.result.checks] == ["fail", "not run", "not run"]
    assert ran.result.checks[1].note == "slow did not run"
    judged = "0 of 1 checks passed, 2 not run"
    assert judged in ran.out
    assert judged in (ran.folder / "report.html").read_text()
    assert ran.result.variants[0].metrics["goodput"].method == "none"
    assert "One run of each variant" in ran.out


def test_it_runs_twice_in_a_row_and_alike(bench: Bench, whole: Ran) -> None:
    small_lab.write(bench.root / "labs")
    shutil.copytree(whole.folder, bench.root / "out")
    again = bench.run("--quick", "--seeds", "2", "--json")
    assert again.code == 0
    (two,) = again.result.variants
    before = whole.result.variants[1]
    assert two.name == before.name == "two"
    assert two.runs[0].metrics == before.runs[1].metrics
    assert not (again.folder / before.runs[0].folder).exists()  # nothing of the old results stays
    shown = json.loads(again.out)
    assert shown.pop("out") == str(again.folder)
    assert shown == json.loads((again.folder / results.FILE).read_text())


def test_what_takes_long_runs_with_full_or_by_its_name(bench: Bench) -> None:
    folder = small_lab.write(bench.root / "labs")
    text = small_lab.LAB.replace("{title: a slow link,", "{title: slow, full: true, seeds: [7, 8],")
    (folder / "lab.yaml").write_text(text)
    ran = {
        arguments: [
            (variant.name, [run.seed for run in variant.runs])
            for variant in bench.run(*arguments).result.variants
        ]
        for arguments in ((), ("--full",), ("--variant", "slow"), ("--full", "--seeds", "3"))
    }
    usual = [("one", [1, 2]), ("two", [1, 2])]
    assert ran[()] == usual
    assert ran["--full",] == [*usual, ("slow", [7, 8])]
    assert ran["--variant", "slow"] == [("slow", [7, 8])]
    assert ran["--full", "--seeds", "3"] == [("one", [3]), ("two", [3]), ("slow", [3])]


WRONG = [
    ("run.summary['end']", "run.summary['end' if run.variant.name != 'two' else 'ned']"),
    ("Measured(None, 'packets')", "Measured(None) if run.variant.name != 'slow' else 5"),
    ("'goodput'), 80", "'godput'), 80"),
    ("out / 'goodput.png', 'Good", "out / 'other.png', 'Good"),
]
SAID = [
    "checks.py:11: in measure: KeyError: 'ned'",
    "'loss' must be a Measured, not 5",
    "checks.py:30: in checks: LookupError: one has no metric 'godput': it has goodput, peak_queue",
    "figure other.png is not in the folder of results",
]


def test_what_goes_wrong_in_a_labs_code_is_a_failure_with_its_place(bench: Bench) -> None:
    folder = small_lab.write(bench.root / "labs")
    text = small_lab.CHECKS.replace('"', "'").replace("LEAST", "80")
    for old, new in WRONG:
        assert old in text
        text = text.replace(old, new)
    (folder / "checks.py").write_text(text)
    ran = bench.run("--seeds", "1", "--workers", "1")
    assert (ran.code, ran.result.verdict) == (1, Verdict.FAIL)
    said = [run.failure for variant in ran.result.variants for run in variant.runs]
    assert said[0] == ""  # the others go on
    said += [check.note for check in ran.result.checks]
    for phrase in SAID:
        assert any(phrase in each for each in said), (phrase, said)
    assert "bug in Weft" not in ran.errors
    assert "Runs that failed" in (ran.folder / "report.html").read_text()


def test_a_process_that_dies_takes_one_run_with_it(bench: Bench) -> None:
    folder = small_lab.write(bench.root / "labs")
    dying = "    if run.variant.name == 'one':\n        __import__('os').abort()\n    seconds ="
    text = small_lab.CHECKS.replace("    seconds =", dying).replace("LEAST", "80")
    (folder / "checks.py").write_text(text)
    ran = bench.run("--seeds", "1", "--workers", "1")
    assert ran.code == 1
    one, two, slow = (variant.runs[0] for variant in ran.result.variants)
    assert one.failure == "its process was ended by SIGABRT"
    assert two.failure == slow.failure == ""
    assert [check.verdict for check in ran.result.checks] == ["fail", "fail", "reported"]
    assert ran.result.checks[0].note == "one, seed 1 failed"


def test_results_replace_results_and_nothing_else(bench: Bench) -> None:
    small_lab.write(bench.root / "labs")
    (bench.root / "out").mkdir()
    (bench.root / "out" / "thesis.tex").write_text("years of work")
    ran = bench.run("--quick")
    assert ran.code == 2
    assert "holds something else than results of a lab" in ran.errors
    assert (bench.root / "out" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runtime", "ns3"], "--runtime ns3; available: simulator, softswitch, bmv2"),
        (["--variant", "sloow"], "no variant 'sloow' on simulator; did you mean 'slow'"),
        (["--seeds", "1,x"], "--seeds 1,x: different whole numbers"),
        (["--seeds", "1,1"], "--seeds 1,1: different whole numbers"),
        (["--workers", "0"], "--workers 0: must be at least 1"),
        (["--p4", "no.p4"], "--p4 no.p4: no such file"),
        (["--quick", "--variant", "one"], "marks no variant of these as quick"),
    ],
)
def test_wrong_arguments_end_with_2(bench: Bench, arguments: list[str], message: str) -> None:
    small_lab.write(bench.root / "labs")
    ran = bench.run(*arguments)
    assert (ran.code, ran.folder.exists()) == (2, False)
    assert message in ran.errors


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        ("lab", "seeds: [1, 2]", "seeds: 1", "lab.yaml:5:1: seeds: must be a list"),
        ("lab", "50Gbps", "50Gbsp", "lab.yaml:21:60: link.rate: 'Gbsp' is not a unit of a rate"),
        ("lab", "[simulator, ", "[", "small does not run on simulator"),
        ("checks", "def checks", "def chekcs", "has no function checks"),
        ("checks", "from labs import Check", "from labs import Chek", "checks.py:6: ImportError"),
        ("checks", "def measure(", "def measure((", "checks.py:10: SyntaxError"),
    ],
)
def test_a_broken_lab_is_wrong_input(
    bench: Bench, kind: str, old: str, new: str, message: str
) -> None:
    small_lab.write(bench.root / "labs", replaced={kind: (old, new)})
    ran = bench.run()
    assert (ran.code, ran.folder.exists()) == (2, False)
    assert message in ran.errors
    assert "bug in Weft" not in ran.errors


def test_an_unknown_lab_is_wrong_input(bench: Bench) -> None:
    small_lab.write(bench.root / "labs")
    ran = bench.run(name="smal")
    assert ran.code == 2
    assert "no lab 'smal'; did you mean 'small'?" in ran.errors


def test_a_runtime_that_is_not_here_has_its_own_code(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lab.write(bench.root / "labs")
    monkeypatch.setenv("PATH", str(bench.root))
    ran = bench.run("--runtime", "bmv2")
    assert ran.code == 3
    assert "bmv2 is not on this machine: simple_switch_grpc (BMv2) is not on PATH" in ran.errors


def test_real_time_needs_root_and_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_lab.write(bench.root / "labs")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ran = bench.run("--runtime", "softswitch")
    assert (ran.code, ran.folder.exists()) == (1, False)
    assert "this needs root" in ran.errors and "sudo weft lab run" in ran.errors


@pytest.mark.parametrize("when", ["starting", "running"])
def test_ctrl_c_ends_all_processes_and_keeps_what_was_there(tmp_path: Path, when: str) -> None:
    """The lab's runs take long; Ctrl-C, as a terminal sends it: to the whole group."""
    folder = small_lab.write(tmp_path / "labs", replaced={"lab": ("until: 100us", "until: 100ms")})
    out = tmp_path / "out"
    out.mkdir()
    (out / results.FILE).write_text('{"format": 1, "lab": "small", "runtime": "simulator"}')
    started = tmp_path / "started"
    text = (folder / "checks.py").read_text()
    hook = f"def prepare(simulation, context):\n    open({str(started)!r}, 'w').close()\n"
    (folder / "checks.py").write_text(text + "\n\n" + hook)
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "small"]
    command += ["--labs", str(tmp_path / "labs"), "--out", str(out)]
    lab = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, start_new_session=True
    )
    try:
        _wait(started.exists if when == "running" else lambda: _group(lab.pid, "spawn_main"))
        os.killpg(lab.pid, signal.SIGINT)
        _, errors = lab.communicate(timeout=300)
        assert lab.returncode == 130
        assert errors.splitlines()[-1] == "interrupted"
        assert "Traceback" not in errors
        _wait(lambda: not _group(lab.pid))
    finally:
        if _group(lab.pid):
            os.killpg(lab.pid, signal.SIGKILL)
    assert {path.name for path in tmp_path.iterdir()} <= {"labs", "out", "started"}
    assert [path.name for path in out.iterdir()] == [results.FILE]


def _group(group: int, word: str = "") -> list[int]:
    """Return the processes of a group, without zombies; `word`: those that were started with it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            command = path.with_name("cmdline").read_text()
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state != "Z" and word in command:
            found.append(int(path.parent.name))
    return found


def _wait(condition: object, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


# --- in real time --------------------------------------------------------------------------------


@pytest.mark.root
def test_a_live_run_has_the_simulator_beside_it_at_the_same_scale(bench: Bench) -> None:
    small_lab.write(bench.root / "labs")
    ran = bench.run("--runtime", "softswitch", "--variant", "one")
    assert ran.code == 0, ran.out + ran.errors
    result = ran.result
    assert (result.runtime, result.time_scale, result.seeds) == ("softswitch", 100, [3])
    (one,) = result.variants
    assert (one.metrics["goodput"].median, one.metrics["scale"].median) == (100.0, 100.0)
    live, beside = one.runs
    assert (ran.folder / live.folder / "seen.txt").read_text() == "one"
    assert (beside.runtime, beside.time_scale) == ("simulator", 100)
    # Slow motion of the same: 10 us after the start at a hundredth of the rate, in fabric time.
    assert one.beside is not None
    assert one.beside["begins"].median == pytest.approx(10, abs=0.1)
    assert one.beside["goodput"].median == pytest.approx(87.5, abs=3)
    assert "one (simulator)" in ran.out


@pytest.mark.root
def test_ctrl_c_in_a_live_run_leaves_nothing(bench: Bench) -> None:
    folder = small_lab.write(bench.root / "labs")
    text = small_lab.CHECKS.replace("    context.tell(0.5, ", "    raise KeyboardInterrupt(")
    assert text != small_lab.CHECKS
    (folder / "checks.py").write_text(text)
    ran = bench.run("--runtime", "softswitch")
    assert ran.code == 130
    assert [path.name for path in bench.root.iterdir()] == ["labs"]


# --- the list ------------------------------------------------------------------------------------


def test_the_list_shows_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_lab.write(tmp_path)
    assert cli.main(["lab", "list", "--labs", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    row = "small Two share a link simulator, softswitch, bmv2 0.1 simulator, 0.2 softswitch"
    assert row in shown
    assert cli.main(["lab", "list", "--labs", str(tmp_path), "--json"]) == 0
    (lab,) = json.loads(capsys.readouterr().out)
    assert lab["runtimes"] == ["simulator", "softswitch", "bmv2"]
    assert lab["minutes"] == {"simulator": 0.1, "softswitch": 0.2}


def test_a_lab_that_cant_be_read_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_lab.write(tmp_path)
    small_lab.write(tmp_path, "broken", replaced={"lab": ("title:", "titel:")})
    assert cli.main(["lab", "list", "--labs", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "Two share a link" in captured.out
    assert "did you mean 'title'?" in captured.err
