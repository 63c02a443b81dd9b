"""What switches' interfaces are called, and that nobody else's are removed for their names.

In a network namespace of this file's own: no run and no Mininet beside it has these names there.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import topologies
from emulation import interface, interface_names, run_state, teardown
from emulation.interface_names import InterfaceNames, run_name
from topologies import Endpoint

PORT = Endpoint("s1", 2)
CLONE_NEWNET = 0x40000000


@pytest.mark.parametrize(
    ("node", "index", "port", "with_run"),
    [
        ("s1", 1, 1, "w3f2a-s1-1"),
        ("spine1", 1, 12, "w3f2a-spine1-12"),
        ("spine12", 17, 254, "w3f2a-n17-254"),
        ("leafleaf", 512, 254, "w3f2a-n512-254"),
    ],
)
def test_a_ports_name_with_the_run_fits(node: str, index: int, port: int, with_run: str) -> None:
    assert run_name("w3f2a", index, node, port) == with_run
    assert len(with_run) <= 15


def apart(test: Callable[[], None]) -> None:
    """Run it in a thread with a network namespace of its own. Raises what it raises."""
    failed: list[BaseException] = []

    def body() -> None:
        try:
            assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
            test()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.mark.root
def test_one_run_has_the_plain_names_and_the_next_one_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology = topologies.load("leafspine")

    def body() -> None:
        first = InterfaceNames(topology, "w0001")
        assert (first.shown[PORT], first.why_not_plain) == ("s1-eth2", "")
        second = InterfaceNames(topology, "w0002")
        assert (second.shown[PORT], second.commands()) == ("w0002-s1-2", [])
        assert "another run" in second.why_not_plain
        first.release()
        third = InterfaceNames(topology, "w0003")
        assert third.shown[PORT] == "s1-eth2"
        third.release()
        ip("link", "add", "s4-eth1", "type", "veth", "peer", "name", "other")
        fourth = InterfaceNames(topology, "w0004")
        assert fourth.shown[PORT] == "w0004-s1-2"
        assert fourth.why_not_plain == "another program has an interface called s4-eth1"
        fourth.release()
        ip("link", "del", "s4-eth1")
        monkeypatch.setattr(interface_names, "_kernel", lambda: (5, 4))
        assert "alternative names" in InterfaceNames(topology, "w0005").why_not_plain

    apart(body)


RUNNER = """
import sys
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
print(run.name, net.interface_name("s1", 2), flush=True)
sys.stdin.read()
"""


@pytest.mark.root
def test_clean_up_after_a_crash_takes_our_interfaces_and_leaves_anothers_of_that_name(
    roots: Path,
) -> None:
    def body() -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", RUNNER]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as runner:
            assert runner.stdout is not None
            run, name = runner.stdout.readline().split()
            runner.kill()
            runner.wait()
            assert name == "s1-eth2"
            record = run_state.read_record(run_state.run_root() / run)
            assert record is not None
            assert len(record.links) == 12 and all(each.startswith(run) for each in record.links)
            assert all(map(interface.exists, record.links))
            # As `mn -c` and a new Mininet would: ours is gone, and somebody else's has its name.
            ip("link", "del", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "other")
            (removed,) = teardown.clean()
        assert removed.links == 11
        assert not any(map(interface.exists, record.links))
        assert interface.exists(name)
        assert not any(map(interface.exists, ("s1-eth1", "s2-eth1", "s3-eth2")))

    apart(body)
