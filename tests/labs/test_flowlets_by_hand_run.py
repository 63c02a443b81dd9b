"""The lab flowlets-by-hand as it runs: packets stay in order where the gap is right.

learner's P4 on all switches of run.yaml; one leaf over veth pairs
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments import grade, loader
from experiments.api import Check, Context, Finished, Measured, Runtime, Table, Verdict
from experiments.lab_code import Hooks

FOLDER = Path(__file__).parents[2] / "labs" / "flowlets-by-hand"
LAB = loader.load("flowlets-by-hand")
REFERENCE = grade.reference(FOLDER)
REFRESH = "            last_times.write(cell, std.ingress_global_timestamp);\n"


@pytest.fixture(scope="module")
def hooks() -> Hooks:
    return Hooks.of(FOLDER)


@pytest.fixture
def ran(hooks: Hooks, tmp_path: Path) -> Any:
    """Run a variant, with the lab's own programs or one of these lines."""

    def ran(variant: str, runtime: Runtime = Runtime.SIMULATOR, text: str = "") -> Finished:
        planned = {each.variant.name: each.variant for each in LAB.variants(runtime)}
        path = tmp_path / "program.p4"
        path.write_text(text or (FOLDER / grade.STARTER).read_text())
        out = tmp_path / variant
        out.mkdir()
        context = Context(
            lab=LAB.name,
            folder=FOLDER,
            variant=planned[variant],
            mapping={},
            seed=1,
            runtime=runtime,
            time_scale=LAB.time_scale(runtime),
            out=out,
            program=CompiledProgram.of(compile_p4(path), path, given=bool(text)),
            settings=LAB.entry.settings,
        )
        hook = "measure_live" if runtime.is_live else "measure_simulator"
        metrics: dict[str, Measured] = hooks.call(hook, context)
        return Finished(context.variant, 1, runtime, context.time_scale, out, metrics)

    return ran


def table_of(runs: list[Finished]) -> Table:
    known = [planned.variant for planned in LAB.variants(runs[0].runtime)]
    return Table(runs[0].runtime, runs[0].time_scale, runs, known)


def failed(hooks: Hooks, runs: list[Finished]) -> set[str]:
    checks: list[Check] = list(hooks.call("checks", table_of(runs)))
    return {check.row for check in checks if check.verdict is Verdict.FAIL}


def value(run: Finished, metric: str) -> float:
    metrics: Mapping[str, Measured] = run.metrics
    found = metrics[metric].value
    assert found is not None
    return found


def test_lab_passes_with_the_reference_and_is_as_fast_as_the_fabric(hooks: Hooks, ran: Any) -> None:
    runs = [ran(name) for name in ("ecmp", "shipped", "starter", "by-hand", "short-gap", "no-gap")]
    assert failed(hooks, runs) == set()
    ecmp, shipped, starter, by_hand, short, none = runs
    # Each host sends 20 messages of 98 packets, and one more.
    assert {value(run, "of packets") for run in runs} == {16 * 21 * 98}
    assert value(by_hand, "slowest flow") == pytest.approx(value(shipped, "slowest flow"), rel=0.1)
    assert value(starter, "mean flow") == pytest.approx(value(ecmp, "mean flow"), rel=0.3)
    assert 0 < value(short, "out of order") < value(none, "out of order") / 10
    figures = list(hooks.call("figures", table_of(runs), runs[0].folder))
    assert figures and all(figure.path.is_file() for figure in figures)


def test_lab_finds_a_program_that_forgets_to_refresh_the_time(hooks: Hooks, ran: Any) -> None:
    assert REFERENCE.count(REFRESH) == 1
    once = f"            if (!kept) {{ {REFRESH} }}\n"
    run = ran("by-hand", text=REFERENCE.replace(REFRESH, once))
    assert failed(hooks, [run]) == {"packets out of order, by-hand"}


@pytest.mark.root
@pytest.mark.parametrize(
    "runtime",
    [
        Runtime.SOFTSWITCH,
        pytest.param(Runtime.BMV2, marks=pytest.mark.reference("simple_switch_grpc")),
    ],
)
def test_flowlets_stay_whole_over_real_links(hooks: Hooks, ran: Any, runtime: Runtime) -> None:
    starter, by_hand = ran("starter", runtime), ran("by-hand", runtime)
    assert failed(hooks, [starter, by_hand]) == set()
    assert value(by_hand, "flowlets") == 12 * (12 + 3)
    assert value(by_hand, "held up") < value(by_hand, "flowlets") / 2
    figures = list(hooks.call("figures", table_of([starter, by_hand]), by_hand.folder))
    assert figures and all(figure.path.is_file() for figure in figures)
