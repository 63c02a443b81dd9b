"""Sweeps that are played: every run measured, the best found, and the same bytes whoever played.

h2 --100G--+
           s1 --100G-- h1      two senders; `vary` decides when the second begins
h3 --100G--+
"""

from __future__ import annotations

import csv
import gc
import json
import multiprocessing
import os
import signal
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from controller.program import CompiledProgram
from experiments import sweep_point
from experiments.api import Context, Measured, Run
from experiments.errors import LabError
from experiments.sweep import Progress, SweepSpec, run
from experiments.sweep_point import Assignment, play
from simulator.runner import Simulation
from softswitch import program_cache
from workloads.loader import load_run_file

ROOT = Path(__file__).resolve().parents[2]
FILES = ("results.json", "results.csv", "results.parquet", "best.yaml")
START = "traffic.1.incast.start"
TWO_SENDERS: dict[str, Any] = {
    "topology": {
        "generator": "single",
        "hosts": 3,
        "link": {"rate": "100Gbps", "delay": "1us", "queue": "1MB"},
    },
    "until": "100us",
    "traffic": [
        {"incast": {"to": "h1", "from": ["h2"], "persistent": True}},
        {"incast": {"to": "h1", "from": ["h3"], "persistent": True, "start": "0us"}},
    ],
}


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    compiled = program_cache.compile_program(program_cache.Job(ROOT / "p4src" / "fabric.p4"))
    return CompiledProgram.of(compiled, ROOT / "p4src" / "fabric.p4")


def spec_of(**more: Any) -> SweepSpec:
    content = {"run": TWO_SENDERS, "vary": {START: ["80us", "20us", "50us"]}, **more}
    return SweepSpec.of(content)


def test_seeds_spread_what_hashing_decides(program: CompiledProgram) -> None:
    """Nothing of it is random but ports: four flows over two spines, and how they meet there."""
    pairs = [{"from": f"h{i}", "to": f"h{i + 4}", "bytes": "100kB"} for i in range(1, 5)]
    content = {
        "topology": {
            "generator": "leaf_spine",
            "leaves": 2,
            "spines": 2,
            "hosts_per_leaf": 4,
            "link": {"rate": "100Gbps", "delay": "1us", "queue": "16MB", "mtu": "4200B"},
        },
        "traffic": [{"message": pair} for pair in pairs],
    }
    seeds = [1, 2, 3, 4, 5, 6]
    again = {"run": content, "seeds": seeds, "metrics": ["fct_max"]}
    took, same = (
        [each.metrics["fct_max"] for each in run(spec, workers=2, program=program).runs]
        for spec in (SweepSpec.of(again), SweepSpec.of(again))
    )
    assert took == same
    # Two, three or four flows share the fuller spine's link: 2/16, 8/16 and 6/16 are 4, 3 and 2.
    assert len(set(took)) >= 2
    traffic = [{"message": {**pair, "udp_port": 50000}} for pair in pairs]
    fixed = {**content, "traffic": traffic}
    spec = SweepSpec.of({"run": fixed, "seeds": seeds, "metrics": ["fct_max"]})
    alike = run(spec, workers=2, program=program).runs
    assert len({each.metrics["fct_max"] for each in alike}) == 1


def test_paths_are_measured_where_they_are_recorded(program: CompiledProgram) -> None:
    """One flow over one of two uplinks is 2; without the key there is no number."""
    content = {
        "topology": {
            "generator": "leaf_spine",
            "leaves": 2,
            "spines": 2,
            "hosts_per_leaf": 1,
            "link": {"rate": "100Gbps", "delay": "1us", "queue": "16MB", "mtu": "4200B"},
        },
        "traffic": [{"message": {"from": "h1", "to": "h2", "bytes": "1MB"}}],
    }
    names = ["imbalance", "imbalance_p99", "reordered"]
    asked = {"run": content, "vary": {"record": [None, {"paths": {}}]}, "metrics": names}
    without, recorded = run(SweepSpec.of(asked), workers=1, program=program).runs
    assert [without.metrics[name] for name in names] == [None, None, None]
    assert [recorded.metrics[name] for name in names] == [2.0, 2.0, 0.0]


def test_every_point_is_played_with_every_seed_and_the_best_is_found(
    program: CompiledProgram,
) -> None:
    spec = spec_of(seeds=[2, 1], objective={"minimise": "peak_queue"})
    result = run(spec, workers=2, program=program)
    assert [(each.point, each.seed) for each in result.runs] == [
        (0, 2), (0, 1), (1, 2), (1, 1), (2, 2), (2, 1),
    ]  # fmt: skip
    peaks = [point.medians["peak_queue"] for point in result.points]
    # While both send, the queue grows as fast as one sends: 12.5 kB a microsecond.
    for peak, late_us in zip(peaks, (80, 20, 50), strict=True):
        assert peak is not None
        grown = 12_500 * (100 - late_us)
        assert 0.9 * grown < peak < grown
    best = result.best()
    assert best is not None
    assert best.parameters == {START: "80us"}


def test_the_best_point_keeps_to_the_constraints(program: CompiledProgram) -> None:
    spec = spec_of(objective={"maximise": "peak_queue"}, subject_to=["peak_queue <= 700kB"])
    result = run(spec, program=program)
    best = result.best()
    assert best is not None
    assert best.parameters == {START: "50us"}
    assert [point.feasible for point in result.points] == [True, False, True]
    strict = spec_of(objective={"maximise": "goodput"}, subject_to=["peak_queue <= 1kB"])
    assert run(strict, program=program).best() is None


def test_a_constraint_holds_for_every_seed(program: CompiledProgram) -> None:
    def measure(run: Run) -> dict[str, float]:
        return {"mine": run.seed}

    spec = spec_of(seeds=[1, 2, 9], metrics=["goodput"], subject_to=["mine <= 5"])
    result = run(replace(spec, points=spec.points[:1]), measure=measure, program=program)
    [point] = result.points
    assert point.medians["mine"] == 2
    assert not point.feasible


def test_the_files_are_the_same_however_many_play(program: CompiledProgram, tmp_path: Path) -> None:
    spec = spec_of(objective={"maximise": "goodput"})
    for workers in (1, 3):
        run(spec, workers=workers, program=program).write(tmp_path / str(workers))
    # By the one who asks, in order: as in a worker of somebody's pool, who has no children.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(multiprocessing.current_process()), "daemon", True)
        run(spec, program=program).write(tmp_path / "0")
    for name in FILES:
        found = {(tmp_path / workers / name).read_bytes() for workers in "013"}
        assert len(found) == 1, name


def test_the_files_say_the_same(program: CompiledProgram, tmp_path: Path) -> None:
    objective = {"minimise": "peak_queue[s1:1]"}
    spec = spec_of(metrics=["goodput", "fct_p99"], objective=objective)
    result = run(spec, program=program)
    result.write(tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document == result.document()
    assert document["runs"] == {"asked": 3, "played": 3, "failed": 0}
    assert document["metrics"]["peak_queue[s1:1]"]["unit"] == "B"
    assert document["best"] == 0
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "results.parquet").to_pylist()
    for row, columns, point in zip(rows, table, document["points"], strict=True):
        [played] = point["runs"]
        assert columns[START] == row[START] == point["parameters"][START]
        for name, value in played["metrics"].items():
            assert columns[name] == value
            assert row[name] == ("" if value is None else str(value))
    assert [row["fct_p99"] for row in rows] == ["", "", ""]  # nothing is ever done
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert best["traffic"][1]["incast"]["start"] == "80us"
    assert load_run_file(tmp_path / "best.yaml").until_ps == 100_000_000


def test_a_caller_measures_what_it_likes(program: CompiledProgram) -> None:
    seen: list[int] = []  # by functions of this function, in the process that plays

    def prepare(simulation: Simulation, context: Context) -> None:
        seen.clear()
        assert context.variant.labels[START]
        simulation.at(30_000_000, lambda: seen.append(simulation.engine.now))

    def measure(run: Run) -> dict[str, Measured | float | None]:
        received = run.results.table("flows", ["received_bytes"]).column(0).to_pylist()
        return {"first": Measured(received[0] / 1e6, "MB"), "seen": seen[0], "never": None}

    spec = spec_of(metrics=["goodput"], objective={"maximise": "first"})
    result = run(spec, measure=measure, prepare=prepare, program=program)
    assert not result.failures
    assert result.metrics == ("goodput", "first", "seen", "never")
    assert result.units == {"goodput": "b/s", "first": "MB", "seen": "", "never": ""}
    best = result.best()
    assert best is not None
    assert best.parameters == {START: "80us"}
    assert best.medians["seen"] == 30_000_000
    assert best.medians["never"] is None


def killed(run: Run) -> dict[str, float]:
    if run.context.variant.labels[START] == "20us":
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def wrong(run: Run) -> dict[str, float]:
    return {"ratio": 1 / (run.context.variant.labels[START] != "20us")}


def endless(run: Run) -> dict[str, float]:
    return {"ratio": float("inf") if run.context.variant.labels[START] == "20us" else 1.0}


@pytest.mark.parametrize(
    ("start", "measure", "says"),
    [
        ("20 parsecs", None, "traffic[1].incast.start: 'parsecs' is not a unit of a duration"),
        ("20us", killed, "was ended by SIGKILL (out of memory? try fewer workers)"),
        ("20us", wrong, "measure: test_sweep.py:"),
        ("20us", endless, "measure gave ratio = inf, which is not a number"),
    ],
)
def test_what_fails_is_told_and_the_others_go_on(
    start: str, measure: Any, says: str, program: CompiledProgram, tmp_path: Path
) -> None:
    spec = spec_of(vary={START: ["80us", start, "50us"]}, objective={"minimise": "peak_queue"})
    result = run(spec, workers=1, measure=measure, program=program)
    [failure] = result.failures
    assert (failure.point, len(result.runs)) == (1, 3)
    assert says in failure.failure
    best = result.best()
    assert best is not None
    assert best.number == 0
    result.write(tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["points"][1]["runs"][0]["failure"] == failure.failure
    assert pq.read_table(tmp_path / "results.parquet").column("failure").to_pylist()[0] == ""


def test_the_first_points_failure_is_no_reason_to_stop(program: CompiledProgram) -> None:
    result = run(spec_of(vary={"topology.link.mtu": ["1B", "4200B"]}), program=program)
    assert [bool(each.failure) for each in result.runs] == [True, False]
    assert "an MTU is from" in result.failures[0].failure


def test_what_a_run_made_is_freed_before_the_next(program: CompiledProgram) -> None:
    made: list[weakref.ref[Simulation]] = []

    def prepare(simulation: Simulation, context: Context) -> None:
        made.append(weakref.ref(simulation))

    spec = spec_of()
    assignment = Assignment("two", spec.mapping, spec.points, (), program, prepare=prepare)
    gc.disable()
    try:
        assert not play(assignment, 0, None).failure
        assert [each() for each in made] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("path", "matters"),
    [
        ("simulator/core/engine.c", True),
        ("hostagent/include/rate.h", True),
        ("experiments/sweep.py", True),
        ("labs/my-lab/checks.py", False),  # goes to the workers with the sweep
        ("simulator/core/_build/made.c", False),
        ("simulator/README.md", False),
        ("weft/cli.py", False),
    ],
)
def test_sources_that_decide_numbers_make_the_version(
    path: str, matters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_point, "ROOT", tmp_path)
    version = sweep_point.fingerprint.__wrapped__
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("one")
    before = version()
    assert version() == before
    file.write_text("two")
    assert (version() != before) is matters


def test_ctrl_c_keeps_what_was_played(program: CompiledProgram, tmp_path: Path) -> None:
    def tell(progress: Progress) -> None:
        if progress.played == 2:
            raise KeyboardInterrupt

    before = set(children())
    spec = spec_of(objective={"maximise": "goodput"})
    result = run(spec, workers=1, program=program, tell=tell)
    assert result.interrupted
    assert [each.point for each in result.runs] == [0, 1]
    assert set(children()) == before
    result.write(tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["interrupted"] is True
    assert document["runs"] == {"asked": 3, "played": 2, "failed": 0}


def test_players_are_deaf_to_ctrl_c_from_their_first_instruction_on(
    program: CompiledProgram,
) -> None:
    def measure(run: Run) -> dict[str, float]:
        return {"deaf": float(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))}

    result = run(spec_of(), workers=2, measure=measure, program=program)
    assert [each.metrics["deaf"] for each in result.runs] == [1, 1, 1]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def children() -> Iterator[int]:
    for process in multiprocessing.active_children():
        assert process.pid is not None
        yield process.pid


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"metrics": ["godput"]}, "no metric 'godput'; did you mean 'goodput'?"),
        ({"objective": {"maximise": "xyz"}}, "no metric 'xyz'; available: goodput,"),
        ({"subject_to": ["peak_queue <= 1ms"]}, "peak_queue counts in B"),
        ({"subject_to": ["losses <= 1MB"]}, "losses counts in packets"),
        ({"metrics": ["goodput[s1:1]"]}, "available for one port: peak_queue"),
    ],
)
def test_what_can_not_be_measured(
    more: dict[str, Any], says: str, program: CompiledProgram
) -> None:
    with pytest.raises(LabError, match=says.replace("[", r"\[")):
        run(spec_of(**more), program=program)


def test_a_port_that_is_not_there(program: CompiledProgram) -> None:
    result = run(spec_of(metrics=["peak_queue[s1:9]"]), program=program)
    assert "no switch port s1:9; did you mean" in result.failures[0].failure


def test_nobody_can_not_work(program: CompiledProgram) -> None:
    with pytest.raises(LabError, match="0 workers"):
        run(spec_of(), workers=0, program=program)
