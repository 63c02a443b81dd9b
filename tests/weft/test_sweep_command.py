"""`weft sweep` as a user meets it: options, the table, files, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.sweep import Progress
from observe.errors import UsageError
from weft import cli
from weft import sweep_command as sweep

RUN = """\
topology: leafspine
until: 20us
transport: {}
traffic:
  - message: {from: h1, to: h3, bytes: 100kB}
"""
OPTIONS = ["--vary", "traffic.0.message.bytes=100kB,nothing,10MB", "--seeds", "2,1"]


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(RUN)
    return path


def test_a_sweep_says_what_is_best_and_what_failed(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ["--maximise", "delivered", "--subject-to", "done >= 1", "--out", str(out)]
    assert cli.main(["sweep", str(run_file), *OPTIONS, *options, "--workers", "1"]) == 1
    shown, errors = capsys.readouterr()
    for phrase in ("runtime simulator", "time_scale 1", "medians of 2 seeds", "not allowed"):
        assert phrase in " ".join(shown.split()), phrase
    assert "best: point 0, delivered 100 kB: traffic.0.message.bytes=100kB" in shown
    assert "error: point 1 (traffic.0.message.bytes=nothing; seed 2, 1): " in errors
    assert "'nothing' is not a size" in errors
    assert "6/6 point" in errors  # a line a run, where there is no terminal
    assert cli.main(["sim", str(out / "best.yaml"), "--out", str(tmp_path / "best")]) == 0
    assert "1 of 1 done" in capsys.readouterr().out


def test_json_is_what_the_file_says(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ["--metric", "done", "--until", "15us", "--json", "--out", str(out)]
    assert cli.main(["sweep", str(run_file), *options]) == 0
    shown, errors = capsys.readouterr()
    document = json.loads(shown)
    assert document.pop("out") == str(out)
    assert document == json.loads((out / "results.json").read_text())
    assert document["run"]["until"] == "15us"
    assert document["points"][0]["median"] == {"done": 1}
    assert errors == ""


def test_a_sweep_file_is_told_from_a_run_file(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sizes.yaml"
    file.write_text(
        f"run: {run_file.name}\nvary: {{traffic.0.message.bytes: [1kB, 2kB]}}\n"
        "objective: {minimise: fct_p50}\n"
    )
    assert cli.main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 0
    assert "best: point 0, fct_p50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("a.b=1,2.5,x", "a.b", [1, 2.5, "x"]),
        ("a=100Gbps", "a", ["100Gbps"]),
        ("a={min: 1kB, max: 2kB},hpcc-dcqcn", "a", [{"min": "1kB", "max": "2kB"}, "hpcc-dcqcn"]),
        ("a=null,true", "a", [None, True]),
        ("a=1us..1ms:5:log", "a", {"from": "1us", "to": "1ms", "steps": 5, "scale": "log"}),
        ("a=0.1..1", "a", {"from": 0.1, "to": 1}),
    ],
)
def test_values_are_written_as_in_yaml(text: str, path: str, values: object) -> None:
    assert sweep.parse_vary(text) == (path, values)


@pytest.mark.parametrize("text", ["a", "=1", "a=", "a=[", "a=1..2:many"])
def test_what_is_no_variation(text: str) -> None:
    with pytest.raises(UsageError, match="--vary"):
        sweep.parse_vary(text)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "B", "-"),
        (0, "B", "0"),
        (16_000_000, "B", "16 MB"),
        (371_250_000_000, "b/s", "371.2 Gb/s"),
        (1_500_000, "ps", "1.5 us"),
        (7, "packets", "7"),
        (0.99999, "", "0.99999"),
        (2.5, "MB", "2.5 MB"),
    ],
)
def test_values_are_easy_to_read(value: float | None, unit: str, text: str) -> None:
    assert sweep.show_value(value, unit) == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "sweep: no input given"),
        (["nowhere"], "no such sweep or run file"),
        (["two-flows", "--seeds", "1,1"], "--seeds 1,1"),
        (["two-flows", "--draw", "sobol:3"], "--draw sobol:3"),
        (["two-flows", "--draw", "random:3"], "takes its points from 'vary'"),
        (["two-flows", "--workers", "0"], "--workers 0"),
        (["two-flows", "--until", "soon"], "--until soon"),
        (["two-flows", "--p4", "no.p4"], "--p4 no.p4: no such file"),
        (["two-flows", "--vary", "transport.windw=1"], "transport.windw: unknown key 'windw'"),
        (["two-flows", "--maximise", "godput"], "did you mean 'goodput'"),
        (["two-flows", "--subject-to", "fast"], "'fast' is not a constraint"),
    ],
)
def test_wrong_input_is_told_in_a_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sweep", *arguments]) == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "to_all"),
    [
        (signal.SIGINT, True),  # as a terminal sends it: to the command and to its processes
        (signal.SIGTERM, False),  # as `timeout` and `kill` do
    ],
)
def test_an_interrupt_leaves_what_was_played(
    number: signal.Signals, to_all: bool, run_file: Path, tmp_path: Path
) -> None:
    run_file.write_text(RUN.replace("until: 20us", "until: 1s").replace("100kB", "999GB"))
    out = tmp_path / "out"
    vary = "--vary=until=20us,100s"
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "weft"), "sweep", str(run_file), vary, "--seeds=1,2",
         "--workers=2", "--maximise=delivered", f"--out={out}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stderr is not None
    errors = ""
    while "2/4 point 0" not in errors:
        errors += (line := process.stderr.readline())
        assert line, errors
    (os.killpg if to_all else os.kill)(process.pid, number)
    shown, rest = process.communicate(timeout=300)
    assert process.returncode == 130, errors + rest
    assert "best: point 0" in shown
    assert "2 of 4 runs were completed" in rest
    assert "Traceback" not in rest
    document: dict[str, Any] = json.loads((out / "results.json").read_text())
    assert document["interrupted"] is True
    assert [len(point["runs"]) for point in document["points"]] == [2]
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml", "out"}


def test_what_was_played_is_written_now_and_then(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that goes down in the night costs half a minute of a sweep."""
    seen: list[int] = []

    def look(progress: Progress) -> None:
        if (tmp_path / "out" / "results.json").exists():
            found = json.loads((tmp_path / "out" / "results.json").read_text())
            assert found["interrupted"] is True
            seen.append(found["runs"]["played"])

    monkeypatch.setattr(sweep, "_KEEP_EVERY_S", 0.0)
    monkeypatch.setattr(sweep, "_line", look)
    options = ["--seeds", "1,2,3", "--workers", "1", "--out", str(tmp_path / "out")]
    assert cli.main(["sweep", str(run_file), *options]) == 0
    assert seen == [1, 2]
    assert json.loads((tmp_path / "out" / "results.json").read_text())["interrupted"] is False


def test_a_folder_with_other_things_is_left_alone(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sweep", str(run_file), "--out", str(tmp_path)]) == 2
    assert "holds other files than a sweep's, for example small.yaml" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [run_file]


def test_metrics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", "--list-metrics"]) == 0
    assert "peak_queue[s1:3]" in capsys.readouterr().out
    assert cli.main(["sweep", "--list-metrics", "--json"]) == 0
    found = {row["name"]: row["unit"] for row in json.loads(capsys.readouterr().out)}
    assert found["goodput"] == "b/s"
