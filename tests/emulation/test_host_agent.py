"""The host agent's part of a run: pins on record before they are made, and gone after it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from emulation import run_state, teardown
from emulation.host_agent import AgentOutcome, HostAgent
from emulation.live_host import LiveHost
from emulation.run_state import Run
from hostagent import pins

pytestmark = pytest.mark.root


def test_what_is_told(roots: Path) -> None:
    assert AgentOutcome(4, 4).notice == ""
    assert "generic path on 1 of 4 host interfaces" in AgentOutcome(4, 3).notice
    told = AgentOutcome(problem="no bcc").notice
    assert told == "no host agent: no bcc; RoCE endpoints use AF_PACKET"


def test_pins_are_there_while_the_run_is_and_go_with_it(run: Run) -> None:
    agent = HostAgent(run)
    agent.start()
    agent.attach([])
    assert agent.finish() == AgentOutcome()
    assert agent.pins == pins.pins_of(run.name)
    assert all(pin.exists() for pin in pins.pins_in(agent.pins))
    teardown.remove(run.record)
    assert not agent.pins.exists()


def test_a_crash_at_any_moment_leaves_nothing_behind(run: Run) -> None:
    agent = HostAgent(run)
    agent.start()  # never told of an interface, and nobody waits for it
    record = run_state.read_record(run.directory)
    assert record is not None
    assert record.directories == [str(agent.pins)]
    assert [found.role for found in record.processes] == ["host agent"]
    removed = teardown.remove(record)
    assert removed.processes == 1
    assert not agent.pins.exists()


def test_others_things_in_the_directory_stay(run: Run) -> None:
    agent = HostAgent(run)
    agent.start()
    agent.attach([])
    assert agent.finish().problem == ""
    theirs = agent.pins / "theirs"
    theirs.mkdir()
    try:
        teardown.remove(run.record)
        assert list(agent.pins.iterdir()) == [theirs]
    finally:
        theirs.rmdir()
        agent.pins.rmdir()


def test_a_machine_without_bcc_has_a_run_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError(\"No module named 'bcc'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    agent = HostAgent(run)
    agent.start()
    agent.attach([])
    outcome = agent.finish()
    assert outcome.notice == (
        "no host agent: No module named 'bcc': install Debian's python3-bpfcc; "
        "RoCE endpoints use AF_PACKET"
    )
    assert not agent.pins.exists()


def test_an_interface_that_cannot_have_it_takes_the_pins_away(run: Run) -> None:
    nobody = LiveHost("h1", 0, "no-such-namespace", "10.0.0.1", "", "h1-eth0", "", "s1")
    agent = HostAgent(run)
    agent.start()
    agent.attach([nobody])
    assert "no way into the namespace /run/netns/no-such-namespace" in agent.finish().problem
    assert not agent.pins.exists()


def test_a_killed_agent_is_told(run: Run) -> None:
    agent = HostAgent(run)
    agent.start()
    (process,) = run.record.processes
    subprocess.run(["kill", "-KILL", str(process.pid)], check=True)
    agent.attach([])
    assert agent.finish().problem == "the agent ended without a word"
    assert not agent.pins.exists()
