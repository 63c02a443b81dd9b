"""tests/run.py: both phases of a tier, their counts, and what it ends with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0

INI = """
[pytest]
markers =
    root: root
    reference: reference
    long: long
    realtime: realtime
"""
SUITE = """
import os, pathlib, time
import pytest

def beside(): return "PYTEST_XDIST_WORKER" in os.environ

def test_beside(): assert beside()

@pytest.mark.reference("no-such-compiler")
def test_compares(): pass

@pytest.mark.realtime
@pytest.mark.reference("no-such-compiler")
def test_compares_alone(): pass

@pytest.mark.realtime
def test_alone(): assert not beside()

@pytest.mark.long
def test_long(): assert beside()

@pytest.mark.long
@pytest.mark.realtime
def test_long_alone(): raise AssertionError("it fails")
"""
ENDLESS = """
import pathlib, time
import pytest

@pytest.fixture
def thing():
    pathlib.Path("made").touch()
    yield
    pathlib.Path("made").rename("removed")

{mark}
def test_that_goes_on(thing):
    pathlib.Path("begun").touch()
    time.sleep(600)
"""


UNSTEADY = """
import pathlib
import pytest

def times(name):
    with open(name, "a+") as ledger:
        ledger.write("x")
    return len(pathlib.Path(name).read_text())

@pytest.mark.realtime
def test_disturbed_once(): assert times("once") == 2

@pytest.mark.realtime
@pytest.mark.parametrize("number", range({failing}))
def test_wrong(number): raise AssertionError(times(f"wrong-{{number}}"))

@pytest.mark.realtime
def test_right(): times("right")

def test_beside(): assert times("beside") == {beside}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a project of a few tests with our conftest.py and run.py."""
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "run.py"):
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text())
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "tests" / "test_suite.py").write_text(SUITE)
    return tmp_path


def command(suite: Path) -> list[str]:
    return [sys.executable, str(suite / "tests" / "run.py"), "-p", "no:cacheprovider"]


def environment(**more: str) -> dict[str, str]:
    """Of a test run that is nobody's worker."""
    kept = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return {**kept, "CI": "", **more}


def run(suite: Path, *arguments: str, **more: str) -> tuple[int, str]:
    """Exit code and last line."""
    done = subprocess.run(
        [*command(suite), *arguments],
        env=environment(**more), capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()[-1]


def test_phases_are_counted_apart_and_together(suite: Path) -> None:
    code, last = run(suite)
    assert code == 0
    assert last.startswith("=== test: 2 passed, 0 failed, 2 skipped in ")
    assert "(side by side: 1 passed, 0 failed, 1 skipped in " in last
    assert "; alone: 1 passed, 0 failed, 1 skipped in " in last
    code, last = run(suite, "--long")
    assert code == 1
    assert last.startswith("=== test-long: 1 passed, 1 failed, 0 skipped in ")


@pytest.mark.parametrize(
    ("arguments", "code", "counts"),
    [
        (("-k", "beside"), 0, "1 passed, 0 failed, 0 skipped"),
        (("-k", "test_alone"), 0, "1 passed, 0 failed, 0 skipped"),
        (("-m", "reference"), 0, "0 passed, 0 failed, 2 skipped"),
        (("-k", "nothing"), 5, "0 passed, 0 failed, 0 skipped"),
        (("--no-such-option",), 4, "0 passed, 0 failed, 0 skipped"),
    ],
)
def test_a_phase_may_have_no_tests_but_not_both(
    suite: Path, arguments: tuple[str, ...], code: int, counts: str
) -> None:
    got, last = run(suite, *arguments)
    assert (got, last.startswith(f"=== test: {counts} in ")) == (code, True), last


@pytest.mark.parametrize(("most", "code"), [(2, 0), (1, 1)])
def test_what_may_be_skipped_holds_for_both_phases_together(
    suite: Path, most: int, code: int
) -> None:
    assert run(suite, f"--most-skipped={most}", CI="true")[0] == code


@pytest.mark.parametrize(
    ("failing", "beside", "code", "counts"),
    [
        (0, 1, 0, "3 passed, 0 failed"),
        (1, 1, 1, "3 passed, 1 failed"),  # wrong is wrong the second time too
        (3, 1, 1, "2 passed, 4 failed"),  # too many: that is no disturbance
        (0, 2, 0, "3 passed, 0 failed"),
        (0, 3, 1, "2 passed, 1 failed"),
    ],
)
def test_what_is_disturbed_runs_once_more_and_is_named(
    suite: Path, failing: int, beside: int, code: int, counts: str
) -> None:
    (suite / "tests" / "test_suite.py").write_text(UNSTEADY.format(failing=failing, beside=beside))
    done = subprocess.run(
        command(suite),
        cwd=suite, env=environment(), capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1].startswith(f"=== test: {counts}, ")) == (code, True), lines
    named = "=== passed only the second time: tests/test_suite.py::test_disturbed_once ===" in lines
    assert named == (failing < 3)
    assert (suite / "right").read_text() == "x"
    assert len((suite / "beside").read_text()) == min(beside, 2)


@pytest.mark.parametrize("mark", ["", "@pytest.mark.realtime"], ids=["side by side", "alone"])
@pytest.mark.parametrize("how", ["Ctrl-C", "kill"])
def test_what_ends_it_lets_tests_clean_up(suite: Path, mark: str, how: str) -> None:
    (suite / "tests" / "test_suite.py").write_text(ENDLESS.format(mark=mark))
    process = subprocess.Popen(
        command(suite),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (suite / "begun").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        if how == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.terminate()
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert "INTERRUPTED" in said.splitlines()[-1]
        assert (suite / "removed").exists()
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        process.kill()
