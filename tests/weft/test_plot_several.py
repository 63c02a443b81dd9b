"""`weft plot` of chosen flows, ports and times, of several results, and of sweeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.program import CompiledProgram
from experiments.figures.choice import Choice
from experiments.figures.compare import labels
from experiments.figures.series import Grid, flow_rates, link_series
from experiments.figures.swept import Sweep
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from softswitch.program_cache import Job, compile_program
from tests.weft.test_plot import US, make_result
from weft.cli import main
from workloads.loader import read_run

RUN = """\
topology:
  generator: single
  hosts: 3
  link: {rate: 10Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
sample: 10us
until: 10ms
transport: {congestion_control: dcqcn, overrides: {gain: GAIN}}
traffic:
  - mix: {sizes: hadoop, load: 60%, stop: 4ms}
  - message: {from: h1, to: h2, bytes: 1MB}
  - message: {from: h3, to: h2, bytes: 1MB, start: 555us}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs that differ in DCQCN's gain."""
    out = tmp_path_factory.mktemp("several")
    program = CompiledProgram.of(
        compile_program(Job(Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"))
    )
    for name, gain in (("a", "0.00390625"), ("b", "0.0625")):
        Simulation(read_run(RUN.replace("GAIN", gain), name="two"), program).run(out / name)
    return [out / "a", out / "b"]


def drawn(tmp_path: Path, *words: str | Path) -> str:
    path = tmp_path / "x.svg"
    assert main(["plot", *map(str, words), "-o", str(path)]) == 0
    return path.read_text()


def test_results_are_called_by_what_differs(results: list[Path]) -> None:
    folders = [ResultFolder(path) for path in results]
    assert labels(folders) == ["gain q16 256", "gain q16 4096"]
    assert labels([folders[0], folders[0]]) == [str(results[0])] * 2  # nothing differs


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("fct", ("completion time [ms]", "p50 ")),
        ("slowdown", ("Slowdown of messages by size: p99", "each part's longest")),
        ("queues", ("The longest queue at each moment", "queued [")),
        ("flows", ("Goodput of all flows together",)),
    ],
)
def test_several_results_are_drawn_in_one_figure(
    results: list[Path], tmp_path: Path, what: str, texts: tuple[str, ...]
) -> None:
    found = drawn(tmp_path, *results, "--what", what)
    for text in (*texts, "gain q16 256", "gain q16 4096", "simulator, time scale 1, two, seed 1"):
        assert text in found


def test_a_choice_has_a_panel_for_each_flow(results: list[Path], tmp_path: Path) -> None:
    found = drawn(tmp_path, *results, "--what", "flows", "--flows", "h1>h2,h3>h2")
    assert "Goodput of h1&gt;h2" in found and "Goodput of h3&gt;h2" in found


def test_chosen_flows_and_times_are_all_that_is_drawn(results: list[Path]) -> None:
    folder = ResultFolder(results[0])
    choice = Choice(flows=("h3>h2",), window=(600 * US, 805 * US))
    grid = Grid.of(folder, choice=choice)
    assert (grid.start_ps, grid.stop_ps) == (600 * US, 810 * US)  # to the next sample
    rates = flow_rates(folder, grid, choice)
    assert rates.labels and all(label.startswith("h3 to h2") for label in rates.labels)
    rows = folder.table("flow_rates", ["at_ps", "flow", "bytes"]).to_pylist()
    ours = {r["flow"] for r in folder.table("flows", ["flow", "src", "dst"]).to_pylist()
            if (r["src"], r["dst"]) == ("h3", "h2")}  # fmt: skip
    expected = sum(
        r["bytes"] for r in rows if r["flow"] in ours and 600 * US < r["at_ps"] <= 810 * US
    )
    assert rates.bytes.sum() == expected > 0


def test_a_full_link_is_full_in_the_last_interval_too(tmp_path: Path) -> None:
    folder = ResultFolder(make_result(tmp_path / "r"))
    grid = Grid.over((0, folder.now_ps), folder.sample_ps, 33)  # 4 each, as many
    assert grid.count * grid.step_ps == folder.now_ps
    odd = Grid.over((0, folder.now_ps), folder.sample_ps, 14)  # 8 each: the last one has 4
    assert odd.count * odd.step_ps > folder.now_ps
    at = np.arange(1, 101) * 10 * US
    assert set(odd.mean(at, np.full(100, 98.0))) == {98.0}
    assert link_series(folder, odd, 6)[0].values.max() > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--flows", "h1>h9"), "no flow h1>h9"),
        (("--flows", "h1"), "write SRC>DST"),
        (("--flows", "h1>h2,"), "names with commas between"),
        (("--ports", "s1:9"), "no port s1:9"),
        (("--window", "3us..2us"), "is empty"),
        (("--window", "3us"), "write two times"),
        (("--window", "1s..2s"), "ended at "),
        (("--what", "jobs", "--ports", "s1:1"), "can't be drawn by --ports"),
        (("--metric", "goodput"), "is no sweep's folder"),
    ],
)
def test_a_wrong_choice_is_said_in_one_line(
    results: list[Path], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["plot", str(results[0]), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_what_cannot_be_compared_is_refused(
    results: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", *map(str, results), "--what", "jobs"]) == 2
    assert "compared by queues, links, flows, fct, slowdown" in capsys.readouterr().err


def test_a_host_s_queue_is_not_drawn_as_empty(
    results: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", *map(str, results), "--what", "queues", "--ports", "h1"]) == 1
    assert "no queue of h1 to plot" in capsys.readouterr().err


def sweep(folder: Path, points: list[dict[str, Any]], **more: Any) -> Path:
    """Return a sweep's folder as `weft sweep` writes it: six seeds a point, window by gain."""
    folder.mkdir()
    document = {
        "format": 1, "runtime": "simulator", "time_scale": 1, "name": "s", "seeds": list(range(6)),
        "parameters": ["transport.window", "transport.overrides.rate_ai"], "objective": None,
        "metrics": {"goodput": {"unit": "b/s", "about": "payload that came"},
                    "losses": {"unit": "packets", "about": "lost"}},
        "points": [
            {"point": n, "parameters": p, "median": {"goodput": 10**9 * n, "losses": None},
             "runs": [{"seed": s, "metrics": {"goodput": 10**9 * n + s, "losses": None}}
                      for s in range(6)]}
            for n, p in enumerate(points, start=1)
        ],
        "interrupted": False, **more,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(document))
    return folder


POINTS = [
    {"transport.window": window, "transport.overrides.rate_ai": rate}
    for window in (64, 128, 256, 4096)
    for rate in ("5Mbps", "1Gbps")
]


def test_a_sweep_is_drawn_with_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sweep(tmp_path / "s", POINTS)
    found = drawn(tmp_path, folder)
    for text in ("goodput [Gb/s]", "rate_ai 5Mbps", "rate_ai 1Gbps", "4096", "95 % intervals by"):
        assert text in found
    estimate = Sweep.estimate(Sweep.read(folder).points[0], "goodput")
    assert (estimate.low, estimate.high) == (10**9, 10**9 + 5)
    assert main(["plot", str(folder), "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert len(rows) == 6 * len(POINTS)
    assert main(["plot", str(folder)]) == 0
    assert (folder / "sweep.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metric", "goodputt"), "did you mean 'goodput'?"),
        (("--metric", "losses"), "no run has losses"),
        (("--along", "seed"), "the sweep varied transport.window"),
        (("--what", "fct"), "is a sweep: choose with --metric"),
    ],
)
def test_a_sweep_that_cannot_be_drawn_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["plot", str(sweep(tmp_path / "s", POINTS)), *words]) != 0
    assert message in capsys.readouterr().err


def test_a_damaged_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sweep(tmp_path / "s", POINTS, format=9)
    assert main(["plot", str(folder)]) == 1
    assert "no result of a sweep" in capsys.readouterr().err
    (folder / "results.json").write_text('{"format": 1}')
    assert main(["plot", str(folder)]) == 1
    assert "is damaged: no 'points'" in capsys.readouterr().err
    none = sweep(tmp_path / "none", [])
    assert main(["plot", str(none), "--list"]) == 1
    assert "no run has ended" in capsys.readouterr().err
