"""The host agent dies, or is loaded anew, while a plane is lost under a transfer: nothing else is.

h1  near 10.77.1.1 ======================= near 10.77.1.2  h2
    far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from hostagent import agent
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic.card_records import EventKind, Operation, Work
from hostagent.rnic.planes import PlaneState
from hostagent.slots import Slot
from tests.hostagent.both_wires import hosts, joined_by_both, maps
from tests.hostagent.test_endpoint_planes_live import CONTROL, LINE, PLANES
from tests.hostagent.two_hosts import MEGABYTE, Host, Joined, TwoHosts, until

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]
__all__ = ["hosts", "maps"]

HOLD_NS = 3 * 10**9
HELD = {"dual_plane": {**CONTROL["dual_plane"], "hold_ns": HOLD_NS}}
PATIENT = replace(PLANES, retries=60)
DEADLINE_S = 60.0


@pytest.fixture
def pair(hosts: TwoHosts, maps: PinnedMaps) -> Iterator[Joined]:
    with joined_by_both(hosts, ("af_xdp", maps), LINE, PATIENT, HELD) as found:
        yield found


class Transfer:
    """Megabytes of random bytes from h1 to h2, one after the other, each of them compared."""

    def __init__(self, pair: Joined) -> None:
        self._pair = pair
        self.megabytes = 0

    def until(self, done: Callable[[], bool]) -> None:
        """Write on until something is so; at least one megabyte."""
        end = time.monotonic() + DEADLINE_S
        while True:
            self._write()
            if done():
                return
            assert time.monotonic() < end, "it did not happen"

    def _write(self) -> None:
        self.megabytes += 1
        pair, number = self._pair, self.megabytes
        data = Random(number).randbytes(MEGABYTE)
        to = {"remote_address": pair.far.address, "rkey": pair.far.rkey}
        pair.one.post(pair.near.qpn, Work(number, Operation.WRITE, data, **to))
        until(lambda: len(pair.events(0, EventKind.COMPLETED)) == number, pair.one)
        assert bytes(pair.other.memory(pair.far.qpn)[:MEGABYTE]) == data
        assert not pair.events(0, EventKind.FAILED)


def slot_of(pair: Joined, maps: PinnedMaps, plane: int = 1) -> Slot:
    """Return the kernel's slot of one of h1's planes."""
    local = pair.one.config.interfaces[plane].ip
    (found,) = (s for s in maps.slots() if (s.qpn, s.local_ip) == (pair.near.qpn, local))
    return found


def held(pair: Joined, maps: PinnedMaps) -> dict[str, int]:
    """Return the state of a hold-down."""
    state = slot_of(pair, maps).states["dual_plane"]
    return {name: state[name] for name in ("losses", "lost_at", "hold", "down")}


def cut(hosts: TwoHosts, pair: Joined, maps: PinnedMaps) -> dict[str, int]:
    """Lose plane 1 by its link for a moment; return the kernel's hold-down."""
    hosts.h1.ip("link set far down")
    until(lambda: pair.one.plane_stats(pair.near.qpn)[1].state is PlaneState.LOST, pair.one)
    hosts.h1.ip("link set far up")
    until(lambda: held(pair, maps)["down"] == 1, pair.one)
    return held(pair, maps)


def program_of(host: Host, name: str) -> int:
    """Return the number of the XDP program on an interface; 0: there is none."""
    command = ["nsenter", f"--net=/proc/{host.pid}/ns/net", "ip", "-j", "-d", "link", "show", name]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return int(said[0].get("xdp", {}).get("prog", {}).get("id", 0))


def started_agent(maps: PinnedMaps) -> subprocess.Popen[str]:
    return subprocess.Popen(
        agent.command(maps.directory), cwd=agent.ROOT, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def kill_an_agent(maps: PinnedMaps, hosts: TwoHosts, *, attaching: bool) -> None:
    """Start to load the program anew, and kill that while it compiles, or has attached one."""
    process = started_agent(maps)
    assert process.stdin is not None
    try:
        if attaching:
            before = program_of(hosts.h1, "near")
            process.stdin.write(agent.attach_lines(hosts.interfaces()[:1]))
            process.stdin.flush()
            end = time.monotonic() + DEADLINE_S
            while program_of(hosts.h1, "near") == before:
                assert time.monotonic() < end, "the agent attached nothing"
                time.sleep(0.01)
        else:
            time.sleep(0.5)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def attach_anew(maps: PinnedMaps, hosts: TwoHosts) -> None:
    """Take the program off all interfaces, and put a new one there that takes up the maps."""
    loaded = agent.Agent.load(maps.directory)
    try:
        for where, name in hosts.interfaces():
            agent.detach(where, name)
        assert program_of(hosts.h1, "near") == 0
        time.sleep(0.1)
        for where, name in hosts.interfaces():
            loaded.attach(where, name)
    finally:
        loaded.close()


class Beside:
    """Something that happens in a thread, beside a transfer."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._error: BaseException | None = None
        self._action = action
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error

    def is_over(self) -> bool:
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True


@pytest.mark.parametrize("how", ["compiling", "attaching", "anew"])
def test_nothing_is_lost_with_the_agent(
    hosts: TwoHosts, maps: PinnedMaps, pair: Joined, how: str
) -> None:
    transfer, seen = Transfer(pair), {}
    transfer.until(lambda: True)

    def happen() -> None:
        seen["before"] = cut(hosts, pair, maps)
        if how == "anew":
            attach_anew(maps, hosts)
        else:
            kill_an_agent(maps, hosts, attaching=how == "attaching")
        seen["after"] = held(pair, maps)

    transfer.until(Beside(happen).is_over)
    before, after = seen["before"], seen["after"]
    assert (before["losses"], before["hold"]) == (1, HOLD_NS)
    assert before["lost_at"] > 0
    same = ("losses", "lost_at", "hold")
    assert [after[name] for name in same] == [before[name] for name in same]

    plane = pair.one.plane_stats(pair.near.qpn)[1]
    transfer.until(lambda: pair.one.plane_stats(pair.near.qpn)[1].state is PlaneState.UP)
    plane = pair.one.plane_stats(pair.near.qpn)[1]
    assert plane.losses == 1
    assert plane.up_at - plane.lost_at >= 1000 * HOLD_NS  # ps: it was held down, all the time
    assert held(pair, maps)["losses"] == 1  # who counts them has been there all the time
    assert transfer.megabytes >= 3
    transfer.until(lambda: True)
    assert pair.one.plane_stats(pair.near.qpn)[1].sent_packets > plane.sent_packets + 100

    report = agent.run(maps.directory, hosts.interfaces())  # and another one takes all of it up
    assert report.error is None
    transfer.until(lambda: True)
    assert held(pair, maps)["losses"] == 1
