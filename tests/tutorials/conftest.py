"""p4lang/tutorials by its own scripts: where its checkout is, our programs, and the closing table.

WEFT_P4LANG_TUTORIALS names a checkout of https://github.com/p4lang/tutorials. Without it every test
here but those of our own hosts is skipped, and those by their own scripts without root or Debian's
mininet, iperf and telnet, too; nothing of that repository is part of this one.
WEFT_TUTORIALS_PROGRAMS may name a folder whose programs take the place of ours, to see what p4c
and BMv2 themselves give.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.tutorials.exercise import Exercise, environment

VARIABLE = "WEFT_P4LANG_TUTORIALS"
OTHERS = "WEFT_TUTORIALS_PROGRAMS"
PROGRAMS = ("mn", "iperf", "telnet")
FOLDER = Path(__file__).parent
RESULTS = pytest.StashKey[dict[str, str]]()
PROMISES = pytest.StashKey[dict[str, tuple[str, str]]]()

Play = Callable[[str], AbstractContextManager[Exercise]]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = {}
    config.stash[PROMISES] = {}
    config.addinivalue_line("markers", "promise(exercise, text): what the exercise's README says")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER not in item.path.parents or item.path.name == "test_talk.py":
            continue
        by_their_scripts = item.path.name != "test_imported.py"
        item.add_marker(
            pytest.mark.reference(
                *(PROGRAMS if by_their_scripts else ()),
                variable=VARIABLE,
                names="a checkout of p4lang/tutorials",
            )
        )
        if by_their_scripts:
            item.add_marker(pytest.mark.root)
        promise = item.get_closest_marker("promise")
        if promise is not None:
            config.stash[PROMISES][item.nodeid] = promise.args


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or not report.passed:
        item.config.stash[RESULTS][item.nodeid] = report.outcome
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = [
        (*config.stash[PROMISES][test], outcome)
        for test, outcome in config.stash[RESULTS].items()
        if test in config.stash[PROMISES] and outcome != "skipped"
    ]
    if not rows:
        return
    terminalreporter.section("p4lang/tutorials")
    for exercise, promise, outcome in rows:
        terminalreporter.write_line(f"{exercise:<15} {promise:<62} {outcome}")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the checkout of p4lang/tutorials."""
    path = Path(os.environ[VARIABLE])
    assert (path / "utils" / "run_exercise.py").is_file(), f"{VARIABLE}={path} has no utils/"
    return path


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of `weft drop-in`; with a sudo for root where there is none."""
    folder = tmp_path_factory.mktemp("programs")
    weft = Path(sys.executable).with_name("weft")
    subprocess.run([weft, "drop-in", folder, "--python"], check=True, stdout=subprocess.DEVNULL)
    for other in Path(os.environ[OTHERS]).iterdir() if OTHERS in os.environ else ():
        (folder / other.name).unlink(missing_ok=True)
        (folder / other.name).symlink_to(other.resolve())
    if shutil.which("sudo") is None:
        sudo = folder / "sudo"
        sudo.write_text('#!/bin/sh\nexec env "$@"\n')
        sudo.chmod(0o755)
    return folder


@pytest.fixture
def play(checkout: Path, programs: Path, tmp_path: Path) -> Iterator[Play]:
    """Start an exercise by its name."""

    def start(name: str) -> Exercise:
        return Exercise(checkout, name, programs, tmp_path)

    yield start


@pytest.fixture
def variables(programs: Path) -> dict[str, str]:
    """Return the environment in which scripts find our programs."""
    return environment(programs)
