"""Runs of a sweep share a fabric: the numbers are those of runs that set up their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.program import CompiledProgram
from experiments.fabrics import Fabrics
from experiments.sweep import run, shares_fabric
from experiments.sweep_point import Assignment, loaded_run, play
from experiments.sweep_spec import SweepSpec
from softswitch import program_cache

ROOT = Path(__file__).parents[2]
RUN = {
    "topology": "fattree4",
    "until": "100us",
    "transport": {"congestion_control": "dcqcn"},
    "traffic": [{"mix": {"sizes": "websearch", "load": "40%", "stop": "80us"}}],
}


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    path = ROOT / "p4src" / "fabric.p4"
    return CompiledProgram.of(program_cache.compile_program(program_cache.Job(path)), path)


def spec_of(**vary: Any) -> SweepSpec:
    return SweepSpec.of({"run": RUN, "vary": vary, "seeds": [1, 2], "metrics": ["goodput"]})


def test_points_that_share_a_fabric_are_as_on_their_own(program: CompiledProgram) -> None:
    spec, fabrics = spec_of(**{"transport.window": [8, 64]}), Fabrics()
    assignment = Assignment("one", spec.mapping, spec.points, ("goodput", "done"), program)
    tasks = [(point, seed) for seed in (1, 2) for point in (0, 1, 0)]
    shared = [play(assignment, *task, fabrics=fabrics) for task in tasks]
    own = [play(assignment, *task) for task in tasks]
    assert shared == own
    assert not any(each.failure for each in own)
    assert len({each.metrics["goodput"] for each in own}) > 2


def test_a_fabric_stays_until_another_is_needed(program: CompiledProgram) -> None:
    spec, fabrics = spec_of(**{"transport.window": [8, 64]}), Fabrics()
    other = spec_of(**{"buffer.shared": ["1MB", "2MB"]})
    windows = Assignment("one", spec.mapping, spec.points, (), program)
    buffers = Assignment("two", other.mapping, other.points, (), program)
    first = fabrics.of(loaded_run(windows, 0), program)
    assert fabrics.of(loaded_run(windows, 1), program) is first
    second = fabrics.of(loaded_run(buffers, 0), program)
    assert second is not first
    assert fabrics.of(loaded_run(buffers, 1), program) is not second
    fabrics.forget()


@pytest.mark.parametrize(
    ("path", "shares"),
    [
        ("transport.overrides.gain", True),
        ("traffic[0].mix.load", True),
        ("until", True),
        ("topology.link.rate", False),
        ("topology", False),
        ("buffer.shared", False),
        ("controller.delay", False),
    ],
)
def test_what_a_fabric_is_set_up_by(path: str, shares: bool) -> None:
    assert shares_fabric([{path: 1}]) is shares


def test_a_sweep_is_the_same_with_one_player_and_with_two(program: CompiledProgram) -> None:
    spec = spec_of(**{"transport.window": [8, 64], "buffer.shared": ["1MB", "2MB"]})
    one, two = (run(spec, program=program, workers=workers) for workers in (1, 2))
    assert [each.metrics for each in one.runs] == [each.metrics for each in two.runs]
    assert not one.failures
