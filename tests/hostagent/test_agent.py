"""The host agent on veths in namespaces: it attaches, counts, and is replaced under traffic.

this side   wire0 ==== host0 (XDP)   namespace of the test
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hostagent import agent, pins
from hostagent.pinned_maps import PinnedMaps
from mechanisms.dcqcn.parameters import parameters

pytestmark = pytest.mark.root

HOST, PEER = IPv4Address("10.9.0.1"), IPv4Address("10.9.0.2")
QPN, PEER_QPN = 0x11, 0x22
SEND_ONLY, CNP = 0x04, 0x81
LINE_BPS, SCALE = 40_000_000, 10_000
PATIENCE_S = 60.0


@dataclass
class Wire:
    """A veth: `near` on this side, `far` in the namespace file `namespace`; `pins` are ours."""

    namespace: Path
    near: str
    far: str
    pins: Path

    @property
    def host(self) -> tuple[Path, str]:
        return (self.namespace, self.far)

    def ip(self, *words: str) -> str:
        return _ip("-n", self.namespace.name, *words)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


_NUMBERS = itertools.count()


@pytest.fixture
def wire() -> Iterator[Wire]:
    name = f"wt{os.getpid()}-{next(_NUMBERS)}"  # a deleted namespace's links go a little later
    made = Wire(
        Path("/run/netns", name), f"{name}n"[:15], f"{name}f"[:15],
        pins.BPF_FILE_SYSTEM / f"weft-test-{name}",
    )  # fmt: skip
    _ip("netns", "add", name)
    try:
        _ip("link", "add", made.near, "type", "veth", "peer", "name", made.far, "netns", name)
        _ip("link", "set", made.near, "up")
        made.ip("link", "set", made.far, "up")
        yield made
    finally:
        _ip("netns", "del", name)
        pins.remove(made.pins)
    assert not made.pins.exists()


def packet(opcode: int, psn: int = 0, qpn: int = QPN) -> bytes:
    """One RoCEv2 packet of the peer's for the host."""
    frame = (
        Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")
        / IP(src=str(PEER), dst=str(HOST), id=1)
        / UDP(sport=0xC001, dport=4791)
        / BTH(opcode=opcode, dqpn=qpn, psn=psn)
        / Raw(bytes(64))
    )
    return bytes(frame)


def program_id(wire: Wire) -> str:
    words = wire.ip("-d", "link", "show", wire.far).split()
    return words[words.index("prog/xdp") + 2]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_packets_are_counted_and_a_cnp_cuts_the_rate(wire: Wire) -> None:
    report = agent.run(wire.pins, [wire.host])
    assert report.error is None
    assert [(each.interface, each.native) for each in report.attached] == [(wire.far, True)]
    maps = PinnedMaps.open(wire.pins)
    control = {"dcqcn": parameters("hpcc-dcqcn", LINE_BPS * SCALE, SCALE).fields()}
    maps.add_queue_pair(int(HOST), QPN, int(PEER), PEER_QPN, mtu=1024, congestion_control=control)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as tx:
        tx.bind((wire.near, 0))
        for psn in range(10):
            tx.send(packet(SEND_ONLY, psn))
        tx.send(packet(SEND_ONLY, qpn=QPN + 1))
        tx.send(packet(CNP))
        until(lambda: maps.counters()["packets"] == 12)
    counted = maps.counters()
    assert (counted["data"], counted["cnps"], counted["unknown_qp"]) == (11, 1, 1)
    (slot,) = maps.slots()
    assert (slot.packets, slot.cnps, slot.states["dcqcn"]["limited"]) == (11, 1, 1)
    assert 0 < slot.states["dcqcn"]["alpha"] <= 1 << 32
    assert slot.rate_bps < LINE_BPS
    assert 0 <= time.monotonic_ns() - slot.last_ns < PATIENCE_S * 1e9
    maps.close()


class Sender(threading.Thread):
    """Sends packets to the host until it is stopped."""

    def __init__(self, interface: str) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.stopped = threading.Event()
        self._interface = interface

    def run(self) -> None:
        data = packet(SEND_ONLY)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as tx:
            tx.bind((self._interface, 0))
            while not self.stopped.wait(0.0005):
                tx.send(data)
                self.sent += 1


def test_a_killed_agent_and_a_new_one_lose_no_packet_and_no_state(wire: Wire) -> None:
    assert agent.run(wire.pins, [wire.host]).error is None
    maps = PinnedMaps.open(wire.pins)
    control = {"dcqcn": parameters("hpcc-dcqcn", LINE_BPS * SCALE, SCALE).fields()}
    maps.add_queue_pair(int(HOST), QPN, int(PEER), PEER_QPN, mtu=1024, congestion_control=control)
    before = program_id(wire)
    sender = Sender(wire.near)
    sender.start()
    until(lambda: sender.sent > 20)

    killed = loading(wire)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert program_id(wire) == before
    at_death = sender.sent
    until(lambda: sender.sent > at_death + 20)

    assert agent.run(wire.pins, [wire.host]).error is None
    assert program_id(wire) != before
    replaced = sender.sent
    until(lambda: sender.sent > replaced + 20)
    sender.stopped.set()
    sender.join()
    until(lambda: maps.counters()["packets"] >= sender.sent)
    (slot,) = maps.slots()
    assert (maps.counters()["packets"], slot.packets) == (sender.sent, sender.sent)
    assert slot.rate_bps == LINE_BPS
    maps.close()


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(each.readlink() == path for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _has_program(pid: int) -> bool:
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            if "prog_id" in path.read_text():
                return True
        except OSError:
            continue
    return False


def test_large_packets_get_the_generic_path_and_it_is_said(wire: Wire) -> None:
    _ip("link", "set", wire.near, "mtu", "9000")
    wire.ip("link", "set", wire.far, "mtu", "9000")
    report = agent.run(wire.pins, [wire.host])
    assert report.error is None
    assert [each.native for each in report.attached] == [False]
    maps = PinnedMaps.open(wire.pins)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as tx:
        tx.bind((wire.near, 0))
        tx.send(packet(SEND_ONLY))
        until(lambda: maps.counters()["packets"] == 1)
    maps.close()


@pytest.mark.parametrize(
    ("interface", "says"),
    [("nothing0", "XDP can't be attached to nothing0"), ("lost", "no way into the namespace")],
)
def test_all_hosts_get_the_program_or_none(wire: Wire, interface: str, says: str) -> None:
    other = (wire.namespace, interface) if interface != "lost" else (Path("/run/netns/lost"), "x")
    report = agent.run(wire.pins, [wire.host, other])
    assert report.error is not None and says in report.error
    assert report.attached == []
    assert "xdp" not in wire.ip("-d", "link", "show", wire.far).split()
    assert not wire.pins.exists()


def loading(wire: Wire) -> subprocess.Popen[str]:
    """Start an agent that has loaded its program, and waits for hosts at its standard input."""
    started = subprocess.Popen(
        agent.command(wire.pins), cwd=agent.ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: _has_program(started.pid))
    return started


@pytest.mark.parametrize(
    ("interface", "first_succeeds"), [("far", True), ("nothing0", False), (None, False)]
)
def test_of_two_agents_that_load_at_once_one_waits(
    wire: Wire, interface: str | None, first_succeeds: bool
) -> None:
    first = loading(wire)
    second = subprocess.Popen(
        agent.command(wire.pins), cwd=agent.ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until(lambda: _has_open(second.pid, wire.pins))
    if interface is None:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    else:
        name = wire.far if interface == "far" else interface
        told, _ = first.communicate(f"{wire.namespace}:{name}\n")
        assert (agent.read_report(wire.pins, told, "").error is None) is first_succeeds
    before = wire.ip("-d", "link", "show", wire.far)
    assert ("prog/xdp" in before) is first_succeeds
    told, said = second.communicate(f"{wire.namespace}:{wire.far}\n")
    assert agent.read_report(wire.pins, told, said).error is None
    assert f"id {program_id(wire)} " not in before
    PinnedMaps.open(wire.pins).close()


def test_an_agent_that_goes_on_loading_is_named(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = loading(wire)
    monkeypatch.setattr(agent, "OTHERS_S", 0.0)
    report = agent.load_and_attach(wire.pins, [wire.host], None)
    assert report.error is not None and f"process {first.pid} is loading" in report.error
    assert report.attached == []
    first.communicate(f"{wire.namespace}:{wire.far}\n")
    assert first.returncode == 0  # and what it pinned is still there
    PinnedMaps.open(wire.pins).close()


TOO_COMPLEX = """
#include <uapi/linux/bpf.h>
#include "cc_slot.h"
#include "roce_maps.h"
int roce_xdp(struct xdp_md *context)
{
    unsigned char *data = (void *)(long)context->data;
    unsigned sum = 0;

    if (data + 64 > (unsigned char *)(long)context->data_end)
        return XDP_PASS;
#pragma nounroll
    for (unsigned i = 0; i < 1000000; i++)
        sum += data[i & 31] ^ i;
    return sum == 5 ? XDP_DROP : XDP_PASS;
}
"""
BROKEN = """
#include <uapi/linux/bpf.h>
#include "cc_slot.h"
#include "roce_maps.h"
int roce_xdp(struct xdp_md *context)
{
    unsigned char *data = (void *)(long)context->data;

    return data[40] ? XDP_DROP : XDP_PASS;
}
"""


def _load(wire: Wire, source: Path, log: Path) -> agent.Report:
    command = [*agent.command(wire.pins, log), "--source", str(source)]
    done = subprocess.run(
        command, cwd=agent.ROOT, input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return agent.read_report(wire.pins, done.stdout, done.stderr)


def test_what_the_verifier_refuses_is_told_with_its_line_and_the_log_is_kept(
    wire: Wire, tmp_path: Path
) -> None:
    source, log = tmp_path / "broken.bpf.c", tmp_path / "verifier.log"
    source.write_text(BROKEN)
    report = _load(wire, source, log)
    assert report.error is not None
    assert "the kernel refuses broken.bpf.c: invalid access to packet, off=40" in report.error
    assert "return data[40] ? XDP_DROP : XDP_PASS;" in report.error
    assert "\n" not in report.error
    assert report.log == str(log)
    assert "processed" in log.read_text()
    assert not wire.pins.exists()


def test_a_program_that_is_too_much_for_the_verifier_is_not_called_too_long(
    wire: Wire, tmp_path: Path
) -> None:
    source = tmp_path / "complex.bpf.c"
    source.write_text(TOO_COMPLEX)
    report = _load(wire, source, tmp_path / "verifier.log")
    assert report.error is not None
    assert "the kernel refuses complex.bpf.c: too complex for the kernel's verifier" in report.error
    assert "too large" not in report.error
    assert not wire.pins.exists()


def test_what_does_not_compile_is_told_with_its_line(wire: Wire, tmp_path: Path) -> None:
    source = tmp_path / "typo.bpf.c"
    source.write_text(BROKEN.replace("data[40]", "no_such[40]"))
    report = _load(wire, source, tmp_path / "log")
    assert report.error is not None
    assert "typo.bpf.c does not compile" in report.error
    assert "use of undeclared identifier 'no_such'" in report.error
    assert not wire.pins.exists()


def test_without_bcc_it_says_which_package(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError(\"No module named 'bcc'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    report = agent.run(wire.pins, [wire.host])
    assert report.error == "No module named 'bcc': install Debian's python3-bpfcc"
    assert not wire.pins.exists()


def test_the_compiler_may_take_processor_time_not_time(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with much to do, two seconds of compiling take minutes."""
    (tmp_path / "bcc.py").write_text(
        "import os, resource, signal\n"
        f"assert resource.getrlimit(resource.RLIMIT_CPU)[0] == {agent.CPU_S}\n"
        "os.kill(os.getpid(), signal.SIGXCPU)\n"  # what the kernel does then
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    report = agent.run(wire.pins, [wire.host])
    assert report.error == "the compiler was not done after 120 s of processor time"


def test_an_agent_that_dies_is_a_report_not_an_exception(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    assert agent.run(wire.pins, [wire.host]).error == "the agent ended without a word"
    monkeypatch.setattr(agent, "command", lambda *_: ["/no/such/program"])
    error = agent.run(wire.pins, [wire.host]).error
    assert error is not None and "can't be started" in error
