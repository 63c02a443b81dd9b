"""Hosts and links of a real network, proved with a plain wire in place of a switch.

    h1 --- port 1 of s1 [wire] port 2 of s1 --- h2        h3, h4: links, but no wire

No static neighbour entry exists anywhere: h1 and h2 find each other by ARP over the wire.
"""

from __future__ import annotations

import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import topologies
from emulation import namespace, network, ping, roce, run_state, tcp, teardown
from emulation.errors import EmulationError
from emulation.live_host import LiveHost
from emulation.network import SWITCH_MTU, Network
from emulation.run_state import Run
from emulation.switch_node import SwitchSettings, Target

pytestmark = pytest.mark.root

_ALL_PROTOCOLS = 3
_OUTGOING = 4


class Wire:
    """Passes every frame between two interfaces of this namespace, as a cable would."""

    def __init__(self, a: str, b: str) -> None:
        self._ends = [self._open(a), self._open(b)]
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._pass_frames, daemon=True)
        self._thread.start()

    @staticmethod
    def _open(name: str) -> socket.socket:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        end.bind((name, _ALL_PROTOCOLS))
        return end

    def _pass_frames(self) -> None:
        far = dict(zip(self._ends, reversed(self._ends), strict=True))
        while True:
            ready, _, _ = select.select([*self._ends, self._stop], [], [])
            if self._stop in ready:
                return
            for end in ready:
                frame, address = end.recvfrom(1 << 16)
                if address[2] != _OUTGOING:
                    far[end].send(frame)

    def cut(self) -> None:
        """Stop passing frames."""
        self._stopped.send(b"x")
        self._thread.join()
        for opened in (*self._ends, self._stop, self._stopped):
            opened.close()


@dataclass
class Wired:
    """The network under test, and its hosts h1 and h2, which the wire joins."""

    net: Network
    hosts: list[LiveHost]
    run: Run


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    base: Path = tmp_path_factory.mktemp("network")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(base / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(base / "log"))
        lock, _ = teardown.claim()
        run = Run.start(lock, "test")
        wire = None
        try:
            net = Network(topologies.load("leafspine"), run)
            net.build(
                {
                    switch.name: SwitchSettings(
                        Target.SOFTSWITCH, switch.device_id, 0, 0, (), base / "log", base / "ready"
                    )
                    for switch in net.topology.switches
                }
            )
            wire = Wire(net.interface_name("s1", 1), net.interface_name("s1", 2))
            yield Wired(net, net.live_hosts(), run)
        finally:
            if wire is not None:
                wire.cut()
            teardown.remove(run.record)
            run.finish()


def test_the_record_lists_all_that_exists(wired: Wired) -> None:
    prefix = wired.run.name + "-"
    shown = subprocess.run(["ip", "link", "show"], capture_output=True, text=True, check=True)
    links = {word.split("@")[0].rstrip(":") for word in shown.stdout.split()}
    names = {path.name for path in Path("/run/netns").iterdir() if path.name.startswith(prefix)}
    links = {name for name in links if name.startswith(prefix)} - names  # where a far end is
    assert links == set(wired.run.record.links)
    assert names == set(wired.run.record.namespaces) == {f"{prefix}h{n}" for n in range(1, 5)}
    assert len(links) == 4 + 2 * 4  # one end at each host link, both between switches
    assert len(wired.run.record.processes) >= 8


def test_hosts_know_their_gateway_and_no_neighbour(wired: Wired) -> None:
    for live, host in zip(wired.hosts, wired.net.topology.hosts, strict=True):
        shown = subprocess.run(
            ["ip", "netns", "exec", wired.net.namespace_name(live.name), "ip", "route"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert f"default via {host.gateway} dev {live.interface}" in shown
        assert live.mac == host.mac
        permanent = subprocess.run(
            live.command(["ip", "neigh", "show", "nud", "permanent"]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert permanent == ""


@pytest.mark.parametrize("end", ["host", "switch"])
def test_no_end_leaves_work_to_a_network_card(wired: Wired, end: str) -> None:
    host = wired.hosts[0]
    if end == "host":
        command = host.command(["ethtool", "-k", host.interface])
    else:
        command = ["ethtool", "-k", wired.net.interface_name("s1", 1)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    on = [line.split(":")[0].strip() for line in shown.splitlines() if line.endswith(": on")]
    assert on in ([], ["highdma"])


def test_ends_have_their_mtu_and_no_ipv6(wired: Wired) -> None:
    host, port = wired.hosts[0], wired.net.interface_name("s1", 1)
    shown = subprocess.run(
        host.command(["ip", "address", "show", "dev", host.interface]),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"mtu {wired.net.topology.link_at('h1').mtu_bytes} " in shown
    assert "inet6" not in shown
    assert (Path("/sys/class/net") / port / "mtu").read_text() == f"{SWITCH_MTU}\n"
    ipv6 = Path(f"/proc/sys/net/ipv6/conf/{port}/disable_ipv6")
    assert not ipv6.exists() or ipv6.read_text() == "1\n"


def test_the_very_first_ping_is_answered(wired: Wired) -> None:
    report = ping.ping_all(wired.hosts[:2])
    assert report.ok
    assert (report.sent, report.lost, report.first_lost) == (6, 0, 0)
    median_s, longest_s = report.round_trip() or (0, 0)
    assert 0 < median_s <= longest_s
    first, second = wired.hosts[:2]
    assert namespace.neighbours(first.pid)[second.address] == second.mac


def test_pings_that_nobody_answers_are_lost(wired: Wired) -> None:
    report = ping.ping_all(wired.hosts[1:3], count=2, timeout_s=0.2)
    assert not report.ok
    assert (report.sent, report.lost, report.first_lost) == (4, 4, 2)
    assert report.round_trip() is None


def test_roce_packets_arrive_whole(wired: Wired) -> None:
    report = roce.exchange(*wired.hosts[:2], flows=8, packets_a_flow=3)
    assert report.ok
    assert (report.sent, report.received, report.bad_icrc, report.duplicates) == (24, 24, 0, 0)


def test_roce_packets_that_do_not_arrive_are_no_success(wired: Wired) -> None:
    report = roce.exchange(*wired.hosts[1:3], flows=1, packets_a_flow=2, timeout_s=0.2)
    assert not report.ok
    assert (report.sent, report.received) == (2, 0)


def test_a_tcp_transfer_reports_its_rate(wired: Wired) -> None:
    report = tcp.transfer(*wired.hosts[:2], seconds=1)
    assert report.ok, report.error
    assert report.bits_per_second == pytest.approx(report.received_bytes * 8 / report.seconds)
    assert report.bits_per_second > 0


def test_a_host_that_does_not_answer_fails_the_transfer_with_its_reason(wired: Wired) -> None:
    # h3's own address as h1 sees it is behind a gateway that is not there.
    report = tcp.transfer(wired.hosts[0], wired.hosts[2], seconds=1)
    assert not report.ok
    assert "unable to connect" in report.error or "did not end" in report.error


def test_too_many_nodes_are_refused_before_anything_is_made(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MAX_NODES", 7)
    net = Network(topologies.load("leafspine"), run)
    with pytest.raises(EmulationError, match=r"has 8 nodes.*room for 7") as raised:
        net.build({})
    assert "simulator" in raised.value.remedy
    assert run.record.links == []


def terminals() -> int:
    """How many terminals this process holds; each of Mininet's nodes opens both ends of one."""
    ends = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            ends.append(str(each.readlink()))
    return sum(end.startswith(("/dev/pts/", "/dev/ptmx")) for end in ends)


def test_a_network_that_is_gone_holds_no_terminals(run: Run) -> None:
    before = terminals()
    net = Network(topologies.load("single"), run)
    net.build(
        {
            switch.name: SwitchSettings(
                Target.SOFTSWITCH, switch.device_id, 0, 0, (), run.log_dir, run.log_dir
            )
            for switch in net.topology.switches
        }
    )
    assert terminals() > before
    teardown.remove(run.record)
    net.release()
    assert terminals() == before
