"""The record of a run, its lock, its id and its logs."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulation import run_state, teardown
from emulation.errors import EmulationError, RunActiveError, StateError
from emulation.processes import MARKER_VARIABLE
from emulation.run_state import Run, RunLock

HOLDER = """
import sys
from emulation import teardown
from emulation.run_state import Run
lock, _ = teardown.claim()
run = Run.start(lock, "test")
print(run.name, flush=True)
sys.stdin.read()
"""


def test_what_is_about_to_be_made_is_on_disk_at_once(run: Run) -> None:
    run.will_make(links=["a", "b"], namespaces=["n"], files=[Path("/f")])
    run.started_processes([(os.getppid(), "parent")])
    record = run_state.read_record(run.directory)
    assert record is not None
    assert (record.links, record.namespaces, record.files) == (["a", "b"], ["n"], ["/f"])
    assert [process.pid for process in record.processes] == [os.getppid()]
    assert record.processes[0].is_alive()
    assert record.runner.pid == os.getpid()
    assert record == run.record
    run.record.processes.clear()  # the test's own parent is not to be ended


def test_children_inherit_the_marker_and_it_goes_with_the_run(roots: Path) -> None:
    lock, _ = teardown.claim()
    run = Run.start(lock, "test")
    assert os.environ[MARKER_VARIABLE] == run.name
    teardown.remove(run.record)
    run.finish()
    assert MARKER_VARIABLE not in os.environ
    assert not (roots / "run").exists()
    assert (roots / "log" / run.name).is_dir()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "runner": 7}'], ids=repr
)
def test_an_unreadable_record_is_refused_and_kept(roots: Path, text: str) -> None:
    directory = roots / "run" / "wdead"
    directory.mkdir(parents=True)
    (directory / "state.json").write_text(text)
    with pytest.raises(StateError, match=r"wdead/state\.json") as raised:
        teardown.clean()
    assert "wdead-" in raised.value.remedy
    assert directory.exists()
    assert RunLock.take() is not None  # the failed clean-up did not keep the lock


def test_a_run_that_crashed_before_its_first_record_leaves_nothing(roots: Path) -> None:
    (roots / "run" / "wdead").mkdir(parents=True)
    assert teardown.clean() == []
    assert not (roots / "run").exists()


def test_a_second_run_is_refused_by_name_until_the_first_has_gone(roots: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        name = holder.stdout.readline().strip()
        for action in (teardown.claim, teardown.clean):
            with pytest.raises(RunActiveError, match=f"run {name} is up .process {holder.pid}"):
                action()
    finally:
        holder.kill()
        holder.communicate()
    lock, removed = teardown.claim()
    assert [entry.run for entry in removed] == [name]
    lock.release()


def test_stop_ends_the_runner_and_names_the_run(roots: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    name = holder.stdout.readline().strip()
    stopped, removed = teardown.stop()
    holder.communicate()
    assert holder.returncode == -signal.SIGTERM
    assert stopped == name
    assert [entry.run for entry in removed] == [name]
    assert teardown.stop() == (None, [])


def test_a_prefix_that_is_in_use_is_not_chosen(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots / "log" / "waaaa").mkdir(parents=True)
    choices = iter(["aaaa", "bbbb"])
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: next(choices))
    lock, _ = teardown.claim()
    run = Run.start(lock, "test")
    assert run.name == "wbbbb"
    teardown.remove(run.record)
    run.finish()


def test_only_the_newest_logs_and_those_to_be_kept_stay(roots: Path) -> None:
    base = time.time() - 1000
    for age in range(run_state.LOGS_KEPT + 3):
        directory = roots / "log" / f"w{age}"
        directory.mkdir(parents=True)
        if age == 0:
            (directory / ".keep").touch()
        os.utime(directory, (base + age, base + age))
    run_state.prune_logs()
    left = sorted(entry.name for entry in (roots / "log").iterdir())
    assert left == ["w0", *[f"w{age}" for age in range(3, run_state.LOGS_KEPT + 3)]]


def test_a_run_root_that_can_not_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "file" / "run"))
    with pytest.raises(EmulationError, match="can't write") as raised:
        teardown.claim()
    assert run_state.RUN_ROOT_VARIABLE in raised.value.remedy


def test_the_state_file_is_plain_json(run: Run) -> None:
    data = json.loads((run.directory / "state.json").read_text())
    assert data["run"] == run.name
    assert data["topology"] == "test"
