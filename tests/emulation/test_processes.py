"""Only the processes that are meant are hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from emulation import processes
from emulation.processes import MARKER_VARIABLE, ProcessIdentity

Start = Callable[..., subprocess.Popen[str]]

DEAF = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code as a process and wait for its first line; all are killed at the end."""
    children: list[subprocess.Popen[str]] = []

    def starter(code: str, **environment: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield starter
    for child in children:
        child.kill()
        child.communicate()


WAITING = "import signal; print('ready', flush=True); signal.pause()"


def identity_of(child: subprocess.Popen[str]) -> ProcessIdentity:
    found = processes.identify(child.pid, "child")
    assert found is not None
    return found


def test_an_identity_lives_as_long_as_its_process(start: Start) -> None:
    child = start(WAITING)
    identity = identity_of(child)
    assert identity.is_alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not identity.is_alive()
    child.wait()
    assert not identity.is_alive()
    assert processes.identify(child.pid) is None


def test_a_reused_process_id_is_not_hit(start: Start) -> None:
    bystander = start(WAITING)
    before = identity_of(bystander)
    dead = ProcessIdentity(before.pid, before.start_ticks - 1, "who had this id before")
    assert processes.end([dead]) == []
    assert before.is_alive()


@pytest.mark.parametrize(
    ("code", "grace_s", "ended_by"),
    [(WAITING, 5.0, signal.SIGTERM), (DEAF, 0.1, signal.SIGKILL)],
    ids=["asked", "forced"],
)
def test_processes_are_asked_first_and_then_made_to_end(
    start: Start, code: str, grace_s: float, ended_by: int
) -> None:
    child = start(code)
    assert processes.end([identity_of(child)], grace_s) == []
    assert child.wait() == -ended_by


def test_the_marker_finds_children_of_children_and_no_other_run(start: Start) -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITING!r}])"
    ours = start(nested, **{MARKER_VARIABLE: "w12ab"})
    start(WAITING, **{MARKER_VARIABLE: "w12abc"})
    start(WAITING, OTHER="w12ab")
    found = list(processes.marked("w12ab"))
    assert ours.pid in {process.pid for process in found}
    assert len(found) == 2
    assert processes.end(found) == []
