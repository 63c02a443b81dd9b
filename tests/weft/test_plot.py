"""`weft plot`: figures of a small result, what they say, and folders that are no results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.figures.series import Grid, rate_series
from simulator.result_model import RunEnd, RunIdentity, Stop, SwitchEnd
from simulator.result_reader import ResultFolder
from simulator.results import ResultWriter
from weft.cli import main
from weft.plot_figures import TOPICS
from workloads.loader import read_run
from workloads.plan import plan

RUN = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
until: 1ms
transport: {congestion_control: dcqcn}
traffic:
  - message: {from: h1, to: h2, bytes: 4KB}
  - message: {from: h3, to: h2, bytes: 8KB}
"""
US = 10**6
ALWAYS = ("queues", "links", "flows", "fct", "rates", "jobs", "pauses")
RECORDED = ("paths", "imbalance", "gaps")  # with record: {paths: ...}
NODES = ("s1", "h1", "h2", "h3", "h4")
SAMPLES = 100


def array(length: int, **columns: Any) -> Any:
    kind = np.dtype([(name, "<i8") for name in columns])
    found = np.zeros(length, kind)
    for name, values in columns.items():
        found[name] = values
    return found


def make_result(out: Path, *, empty: bool = False, stop: Stop = Stop.UNTIL, run: str = RUN) -> Path:
    traffic = plan(read_run(run, name="tiny"), 1)
    writer = ResultWriter(out, traffic, RunIdentity("tiny", seed=5, sample_ps=10 * US), NODES)
    at = np.arange(SAMPLES) * 10 * US
    wave = np.arange(SAMPLES) % 20 * 1000
    limit = np.where(at < 500 * US, 0, 40 * 10**9)
    if not empty:
        writer.queues(
            array(SAMPLES, at=at, node=0, port=2, queue=3, packets=1, bytes=wave, paused=0)
        )
        writer.links(array(SAMPLES, at=at, link=1, direction=1, bytes=wave, packets=1))
        writer.flow_rates(array(SAMPLES, at=at, flow=1, bytes=wave, rate_bps=limit))
    done = -1 if empty else 5 * US
    counts = "sent_packets sent_bytes received_packets received_bytes marked out_of_order "
    counts += "delay_sum_ps delay_max_ps paused_ps duplicates"
    flows = dict.fromkeys(counts.split(), 0)
    flows |= dict.fromkeys(("first_sent", "last_sent", "first_received", "last_received"), -1)
    reliable = (
        "repeated_packets repeated_bytes timeouts acks naks cnps notified dropped rate_bps "
        "state failure first_cut_at"
    )
    paused = {1: {"xoff_sent": (0, 0, 0, 2, 0, 0, 0, 0), "paused_ps": (0, 0, 0, 9, 0, 0, 0, 0)}}
    end = RunEnd(
        stop,
        now_ps=1000 * US,
        totals={},
        flow_stats=array(2, **flows),
        message_times=array(2, ready=-1 if empty else 0, first_sent=-1, last_sent=-1, done=done),
        switches={} if empty else {"s1": SwitchEnd(pfc=paused)},
        transport_stats=array(2, **dict.fromkeys(reliable.split(), 0)),
    )
    writer.finish(end)
    return out


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_result(tmp_path_factory.mktemp("plot") / "result")


def test_the_command_offers_what_can_be_drawn() -> None:
    assert set(TOPICS) == {*ALWAYS, *RECORDED, "slowdown", "telemetry"}


def test_all_topics_go_beside_the_result(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(result, tmp_path / "r")
    assert main(["plot", str(folder)]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == [str(folder / f"{what}.png") for what in ALWAYS]
    for name in printed:
        assert Path(name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("queues", ("virtual time [ms]", "queued [kB]", "s1:2 queue 3")),
        ("links", ("used [% of the rate]", "s1:2 to h2")),
        ("flows", ("goodput [Gb/s]", "h3 to h2 (flow 1)", "Goodput of 1 flow")),
        ("fct", ("completion time [µs]", "p50 5 µs, p99 5 µs", "2 of 2 done")),
        ("rates", ("rate allowed [Gb/s]", "goodput [Gb/s]", "h3 to h2 (flow 1)", "hpcc-dcqcn")),
        ("jobs", ("virtual time [ms]", "x ideal", "ideal end", "message 0")),
        ("pauses", ("paused as a sender [% of the run]", "XOFF frames sent", "s1:1 class 3")),
    ],
)
def test_a_figure_names_its_units_runtime_and_time_scale(
    result: Path, tmp_path: Path, what: str, texts: tuple[str, ...]
) -> None:
    path = tmp_path / "x.svg"
    assert main(["plot", str(result), "--what", what, "-o", str(path)]) == 0
    drawn = path.read_text()
    for text in (*texts, "simulator, time scale 1, tiny on tiny, seed 5"):
        assert text in drawn


def test_the_same_result_gives_the_same_figure(result: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        assert main(["plot", str(result), "--what", "jobs", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_json_lists_the_files(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(result), "-o", str(tmp_path / "x.png"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == [str(tmp_path / f"x-{what}.png") for what in ALWAYS]
    assert "time scale 1" in found["about"]


def test_an_interrupted_run_says_so_in_its_figures(tmp_path: Path) -> None:
    folder = make_result(tmp_path / "r", stop=Stop.INTERRUPTED)
    path = tmp_path / "x.svg"
    assert main(["plot", str(folder), "--what", "queues", "-o", str(path)]) == 0
    assert "interrupted" in path.read_text()


def damaged(folder: Path, case: str) -> None:
    summary = folder / "summary.json"
    match case:
        case "not there":
            shutil.rmtree(folder)
        case "a file":
            shutil.rmtree(folder)
            folder.write_text("")
        case "empty":
            shutil.rmtree(folder)
            folder.mkdir()
        case "no summary":
            summary.unlink()
        case "cut summary":
            summary.write_text(summary.read_text()[:100])
        case "other json":
            summary.write_text("[1, 2]")
        case "no files":
            values = json.loads(summary.read_text())
            del values["files"]
            summary.write_text(json.dumps(values))
        case "newer format":
            values = json.loads(summary.read_text())
            summary.write_text(json.dumps({**values, "format": 99}))
        case "table missing":
            (folder / "queues.parquet").unlink()
        case "table cut":
            path = folder / "queues.parquet"
            path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("not there", "is not there"),
        ("a file", "is a file"),
        ("empty", "is empty"),
        ("no summary", "has no summary.json"),
        ("cut summary", "summary.json is damaged"),
        ("other json", "not a summary of a run"),
        ("no files", "damaged: no 'files'"),
        ("newer format", "is of result format 99"),
        ("table missing", "queues.parquet is missing"),
        ("table cut", "its SHA-256 differs"),
    ],
)
def test_what_is_no_result_is_said_in_one_line(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, message: str
) -> None:
    folder = shutil.copytree(result, tmp_path / "r")
    damaged(folder, case)
    path = tmp_path / "x.png"
    assert main(["plot", str(folder), "--what", "queues", "-o", str(path)]) == 1
    error, remedy = capsys.readouterr().err.splitlines()
    assert message in error
    assert remedy.startswith("remedy:")
    assert not path.exists()


def test_a_result_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_result(tmp_path / "r", empty=True)
    assert main(["plot", str(folder), "--what", "queues"]) == 1
    assert "no queues to plot" in capsys.readouterr().err
    assert main(["plot", str(folder)]) == 1
    assert "nothing to plot" in capsys.readouterr().err


def test_an_ending_that_nobody_draws(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(result), "-o", "x.docx"]) == 2
    assert ".png, .svg, .pdf" in capsys.readouterr().err


def test_a_place_that_cannot_be_written(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(result), "--what", "jobs", "-o", "/nowhere/x.png"]) == 1
    assert "can't write /nowhere/x.png" in capsys.readouterr().err


def test_a_rate_is_the_line_s_while_nothing_limits_it(result: Path) -> None:
    folder = ResultFolder(result)
    grid = Grid.of(folder)
    [rates] = rate_series(folder, grid, 6)  # flow 0 got nothing
    assert rates.label == "h3 to h2 (flow 1)"
    assert set(rates.allowed[: SAMPLES // 2 - 1]) == {100.0}
    assert set(rates.allowed[SAMPLES // 2 : SAMPLES - 1]) == {40.0}
    assert rates.goodput[4] == 5000 * 8 / 10_000  # of a sample of 10 us, told at its end


def test_without_congestion_control_there_are_no_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_result(tmp_path / "r", run=RUN.replace("control: dcqcn", "control: none"))
    assert main(["plot", str(folder), "--what", "rates"]) != 0
    assert "no flow with congestion control" in capsys.readouterr().err
    assert main(["plot", str(folder)]) == 0
    assert "rates" not in capsys.readouterr().out
