"""What a run made is removed, after a crash too, and nothing of anybody else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulation import interface, processes, run_state, teardown
from emulation.run_state import RunRecord

pytestmark = pytest.mark.root

# A runner with a whole network, a recorded process and one that it had no time to write down.
RUNNER = """
import signal, subprocess, sys
from pathlib import Path
import topologies
from emulation import teardown
from emulation.network import Network
from emulation.run_state import Run
from emulation.switch_node import SwitchSettings, Target

lock, _ = teardown.claim()
run = Run.start(lock, "test")
net = Network(topologies.load("leafspine"), run)
net.build({
    switch.name: SwitchSettings(Target.SOFTSWITCH, switch.device_id, 0, 0, (), Path("/"), Path("/"))
    for switch in net.topology.switches
})
known = subprocess.Popen(["sleep", "1000"], start_new_session=True)
run.started_processes([(known.pid, "known")])
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(run.name, flush=True)
signal.pause()
"""


@dataclass
class Bystanders:
    """Things on this machine that no run made: names that look like a run's, to be mean."""

    process: subprocess.Popen[bytes]
    bridge: str
    link: str
    namespace: str

    def assert_untouched(self) -> None:
        assert self.process.poll() is None
        for name in (self.bridge, self.link):
            assert Path("/sys/class/net", name).exists()
        assert Path("/run/netns", self.namespace).exists()


@pytest.fixture
def bystanders() -> Iterator[Bystanders]:
    tag = uuid.uuid4().hex[:5]
    bridge, link, name = f"wbr{tag}", f"w-{tag}-s1-1", f"w-{tag}-h1"
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, "WEFT": "no run of ours"})
    for command in (
        f"ip link add {bridge} type bridge",
        f"ip link add {link} type veth peer name {link}p",
        f"ip link set {link} master {bridge}",
        f"ip netns add {name}",
    ):
        subprocess.run(command.split(), check=True)
    yield Bystanders(process, bridge, link, name)
    process.kill()
    process.wait()
    for command in (f"ip link del {bridge}", f"ip link del {link}", f"ip netns del {name}"):
        subprocess.run(command.split(), check=True)


@pytest.fixture
def runner(roots: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, text=True)
    yield child
    child.kill()
    child.wait()
    teardown.clean()  # before reading to the end: what the runner started holds its pipe
    child.communicate()


def start_of(runner: subprocess.Popen[str]) -> RunRecord:
    assert runner.stdout is not None
    name = runner.stdout.readline().strip()
    assert name, "the runner did not start"
    record = run_state.read_record(run_state.run_root() / name)
    assert record is not None
    return record


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left_of(record: RunRecord) -> list[str]:
    found = [name for name in record.links if interface.exists(name)]
    found += [name for name in record.namespaces if Path("/run/netns", name).exists()]
    found += [str(process) for process in record.processes if process.is_alive()]
    found += [str(process) for process in processes.marked(record.run)]
    return found


def test_a_crashed_run_is_removed_and_bystanders_survive(
    runner: subprocess.Popen[str], bystanders: Bystanders, roots: Path
) -> None:
    record = start_of(runner)
    # The shells of 8 nodes and two sleepers, which show their marker once they are fully started.
    until(lambda: len(list(processes.marked(record.run))) >= 10)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert left_of(record)  # it had no chance to clean up
    bystanders.assert_untouched()

    (removed,) = teardown.clean()
    assert removed.run == record.run
    assert (removed.links, removed.namespaces) == (len(record.links), 4)
    assert removed.processes >= 2
    assert left_of(record) == []
    assert not (roots / "run").exists()
    bystanders.assert_untouched()
    assert teardown.clean() == []


def test_the_next_run_cleans_up_after_a_crashed_one(
    runner: subprocess.Popen[str], bystanders: Bystanders
) -> None:
    record = start_of(runner)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    lock, removed = teardown.claim()
    lock.release()
    assert [entry.run for entry in removed] == [record.run]
    assert left_of(record) == []
    bystanders.assert_untouched()


def test_stop_ends_a_live_run_with_all_it_made(
    runner: subprocess.Popen[str], bystanders: Bystanders
) -> None:
    record = start_of(runner)
    stopped, _ = teardown.stop()
    assert stopped == record.run
    assert left_of(record) == []
    bystanders.assert_untouched()


def test_a_record_of_things_long_gone_removes_nothing_else(
    bystanders: Bystanders, roots: Path
) -> None:
    gone = processes.ProcessIdentity(bystanders.process.pid, 1, "who had this id before")
    record = RunRecord("w0000", gone, "", "test", "", ["w0000-s1-1"], ["w0000-h1"], [], [gone])
    record.directory.mkdir(parents=True)
    record.save()
    (removed,) = teardown.clean()
    assert (removed.processes, removed.links, removed.namespaces) == (0, 0, 0)
    bystanders.assert_untouched()
