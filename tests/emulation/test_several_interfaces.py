"""A host with several interfaces: each sends from its own address, out of itself.

h1-eth0 --- s1 [wire] --- h2-eth0         h1-eth0, eth1 and eth2 are in planes of their own;
h1-eth1 --- s2 [wire] --- h2-eth1         s4 is behind s3
h1-eth2 --- s3 --- s4 --- h3
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import topologies
from emulation import namespace, ping, run_state, teardown
from emulation.live_host import LiveHost
from emulation.network import Network
from emulation.run_state import Run
from emulation.switch_node import SwitchSettings, Target

pytestmark = pytest.mark.root

TOPOLOGY = """\
time_scale: 1
link: {rate: 100Mbps, delay: 1us, queue: 1MB, mtu: 1400B}
switches: [s1, s2, s3, s4]
hosts: [h1, h2, h3]
links:
  - {a: h1, b: s1:1}
  - {a: h2, b: s1:2}
  - {a: h1:1, b: s2:1}
  - {a: h2:1, b: s2:2}
  - {a: h1:2, b: s3:1}
  - {a: s3:2, b: s4:1}
  - {a: h3, b: s4:2}
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    base: Path = tmp_path_factory.mktemp("several")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(base / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(base / "log"))
        lock, _ = teardown.claim()
        run = Run.start(lock, "several")
        try:
            net = Network(topologies.loads(TOPOLOGY), run)
            net.build(
                {
                    switch.name: SwitchSettings(
                        Target.SOFTSWITCH, switch.device_id, 0, 0, (), base / "log", base / "ready"
                    )
                    for switch in net.topology.switches
                }
            )
            with wired(net, "s1"), wired(net, "s2"):
                yield net
        finally:
            teardown.remove(run.record)
            run.finish()


@contextmanager
def wired(net: Network, switch: str) -> Iterator[None]:
    """Join a switch's ports 1 and 2 for the block, by the kernel's bridge."""
    bridge = f"{net.run.name}-br-{switch}"
    commands = [f"link add {bridge} type bridge", f"link set {bridge} up"]
    commands += [f"link set {net.interface_name(switch, port)} master {bridge}" for port in (1, 2)]
    try:
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", bridge], check=True)


def ip(host: LiveHost, *arguments: str) -> str:
    command = host.command(["ip", *arguments])
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_live_interfaces_are_named_by_host_and_number(net: Network) -> None:
    assert [(each.name, each.interface, each.switch) for each in net.live_interfaces()] == [
        ("h1", "h1-eth0", "s1"),
        ("h1:1", "h1-eth1", "s2"),
        ("h1:2", "h1-eth2", "s3"),
        ("h2", "h2-eth0", "s1"),
        ("h2:1", "h2-eth1", "s2"),
        ("h3", "h3-eth0", "s4"),
    ]
    assert [each.name for each in net.live_hosts()] == ["h1", "h2", "h3"]


def test_each_interface_pings_its_peer_from_its_own_address(net: Network) -> None:
    joined = [each for each in net.live_interfaces() if each.switch in ("s1", "s2")]

    def same_switch(a: LiveHost, b: LiveHost) -> bool:
        return a.switch == b.switch

    report = ping.ping_all(joined, between=same_switch)
    assert {(pair.source, pair.destination) for pair in report.pairs} == {
        ("h1", "h2"),
        ("h2", "h1"),
        ("h1:1", "h2:1"),
        ("h2:1", "h1:1"),
    }
    assert report.ok
    # Each asked for the other by its own address, and answered for no address but its own.
    for host, others in (("h1", ("h2", "h2:1")), ("h2", ("h1", "h1:1"))):
        by_name = {each.name: each for each in net.live_interfaces()}
        known = namespace.neighbours(by_name[host].pid)
        for other in others:
            assert known[by_name[other].address] == by_name[other].mac


@pytest.mark.parametrize(
    ("destination", "source", "out"),
    [
        ("10.0.4.1", "10.0.1.1", "h1-eth0"),  # a sender's address chooses the interface
        ("10.0.4.1", "10.0.2.1", "h1-eth1"),
        ("10.0.4.1", "10.0.3.1", "h1-eth2"),
        ("10.0.4.1", "", "h1-eth2"),  # the plane that has the destination
        ("10.0.2.2", "", "h1-eth1"),
        ("10.9.9.9", "", "h1-eth0"),  # anything else: the first
    ],
)
def test_what_leaves_by_which_interface(
    net: Network, destination: str, source: str, out: str
) -> None:
    h1 = net.live_hosts()[0]
    route = ip(h1, "route", "get", destination, *(["from", source] if source else []))
    assert f" dev {out} " in route


def test_every_interface_has_its_mtu(net: Network) -> None:
    for each in net.live_interfaces():
        assert "mtu 1400 " in ip(each, "link", "show", each.interface)
