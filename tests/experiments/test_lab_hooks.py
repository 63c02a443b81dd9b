"""A lab's own functions: which one runs when, what they may import, and what they may return."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.program import CompiledProgram
from experiments.api import Context, Finished, Runtime, Variant
from experiments.errors import LabError
from experiments.lab_code import Hooks
from experiments.simulated import Job, simulate

HEAD = "from labs import Measured\n"
OWN = "def measure_simulator(context):\n    return {'a': Measured(1.0)}\n"
BESIDE = "def measure_beside(context):\n    return {'a': Measured(float(context.time_scale))}\n"
CHECKS = "def checks(table):\n    return []\n"


def ran(folder: Path, text: str, *, beside: bool = False) -> Finished:
    folder.mkdir(exist_ok=True)
    (folder / "checks.py").write_text(HEAD + text)
    context = Context(
        lab="own",
        folder=folder,
        variant=Variant("one"),
        mapping={},
        seed=1,
        runtime=Runtime.SIMULATOR,
        time_scale=50,
        out=folder,
        program=CompiledProgram("", "", folder / "none.p4"),
    )
    return simulate(Job(context, beside), lambda share, text: None)


def test_a_lab_may_run_everything_itself(tmp_path: Path) -> None:
    found = ran(tmp_path / "own", OWN + BESIDE)
    assert (found.failure, found.metrics["a"].value) == ("", 1.0)


def test_beside_a_live_run_it_may_measure_in_another_way(tmp_path: Path) -> None:
    assert ran(tmp_path / "a", OWN + BESIDE, beside=True).metrics["a"].value == 50.0
    assert ran(tmp_path / "b", OWN, beside=True).metrics["a"].value == 1.0


def test_files_beside_checks_py_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "wire-format").mkdir()
    (tmp_path / "wire-format" / "sizes.py").write_text("LONG = 4.0\n")
    text = "from .sizes import LONG\n" + OWN.replace("1.0", "LONG")
    assert ran(tmp_path / "wire-format", text).metrics["a"].value == 4.0


@pytest.mark.parametrize(
    ("value", "failure"),
    [
        ("{}", "measure_simulator must return a mapping of metrics, not {}"),
        ("None", "measure_simulator must return a mapping of metrics, not None"),
        ("{'a': 1.0}", "'a' must be a Measured, not 1.0"),
        ("{'a': Measured(float('nan'))}", "'a' is nan: give None"),
        ("{'a': Measured(1.0 / 0)}", "checks.py:3: in measure_simulator: ZeroDivisionError"),
    ],
)
def test_what_is_no_measurement_is_a_failed_run(tmp_path: Path, value: str, failure: str) -> None:
    found = ran(tmp_path / "own", OWN.replace("{'a': Measured(1.0)}", value))
    assert failure in found.failure
    assert not found.metrics


@pytest.mark.parametrize(
    ("runtime", "text", "missing"),
    [
        (Runtime.SIMULATOR, CHECKS, "measure"),
        (Runtime.SOFTSWITCH, OWN + CHECKS, "measure_live"),
        (Runtime.SIMULATOR, OWN, "checks"),
    ],
)
def test_what_a_runtime_needs_is_asked_for(
    tmp_path: Path, runtime: Runtime, text: str, missing: str
) -> None:
    (tmp_path / "checks.py").write_text(HEAD + text)
    with pytest.raises(LabError, match=f"has no function {missing}$"):
        Hooks.of(tmp_path).check(runtime)
