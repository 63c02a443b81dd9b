"""Pinned maps without bcc: what is written there is what the kernel's program and others read."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostagent import agent, bpf_syscall, pins
from hostagent.pinned_maps import SLOTS, MapsError, PinnedMaps, Plane, QueuePairLimit
from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import parameters

pytestmark = pytest.mark.root

HOST, OTHER, PEER = 0x0A000101, 0x0A000102, 0x0A000201
AF_XDP = 44


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Make maps as the agent does, with its program on no interface."""
    where = pins.BPF_FILE_SYSTEM / f"weft-test-maps-{os.getpid()}"
    report = agent.run(where, [])
    try:
        assert report.error is None, report.error
        yield where
    finally:
        pins.remove(where)
    assert not where.exists()


@pytest.fixture
def maps(directory: Path) -> Iterator[PinnedMaps]:
    opened = PinnedMaps.open(directory)
    yield opened
    for host in (HOST, OTHER):
        opened.remove_host(host)
    opened.close()


def test_the_kernel_has_the_size_that_the_header_has(maps: PinnedMaps) -> None:
    assert bpf_syscall.value_size(maps.slots_fd) == native().ffi.sizeof("struct cc_slot")


def test_a_queue_pair_starts_at_its_line_rate_and_others_see_it(
    maps: PinnedMaps, directory: Path
) -> None:
    control = {"dcqcn": parameters("hpcc-dcqcn", 40_000_000).fields()}
    number = maps.add_queue_pair(
        HOST, 17, PEER, 23, mtu=1024, first_psn=5, congestion_control=control
    )
    other = PinnedMaps.open(directory)
    (slot,) = other.slots()
    other.close()
    assert (slot.number, slot.local, slot.qpn) == (number, "10.0.1.1", 17)
    assert (slot.peer, slot.peer_qpn) == ("10.0.2.1", 23)
    assert (slot.rate_bps, slot.line_rate_bps) == (40_000_000, 40_000_000)
    assert (slot.algorithms, slot.rates) == (("dcqcn",), {"dcqcn": 40_000_000})
    state = slot.states["dcqcn"]
    assert (state["limited"], state["target"]) == (0, 40_000_000)
    assert (slot.packets, slot.last_ns) == (0, 0)


def test_without_parameters_nothing_limits_it(maps: PinnedMaps) -> None:
    maps.add_queue_pair(HOST, 17, PEER, 23, mtu=1024)
    (slot,) = maps.slots()
    assert (slot.algorithms, slot.rate_bps, slot.rates, slot.states) == ((), 0, {}, {})


def test_a_queue_pair_has_one_slot_and_gives_it_back(maps: PinnedMaps) -> None:
    maps.add_queue_pair(HOST, 17, PEER, 23, mtu=1024)
    with pytest.raises(MapsError, match="queue pair 17 of this host has a slot already"):
        maps.add_queue_pair(HOST, 17, PEER, 24, mtu=1024)
    maps.add_queue_pair(OTHER, 17, PEER, 24, mtu=1024)  # another host's
    maps.remove_queue_pair(HOST, 17)
    maps.remove_queue_pair(HOST, 17)
    assert [(slot.local_ip, slot.qpn) for slot in maps.slots()] == [(OTHER, 17)]
    maps.add_queue_pair(HOST, 17, PEER, 25, mtu=1024)
    assert sorted(slot.peer_qpn for slot in maps.slots()) == [24, 25]


SECOND, PEER_2 = 0x0A010101, 0x0A010201


def test_one_of_several_addresses_has_one_slot_and_leaves_nothing(maps: PinnedMaps) -> None:
    more = [(SECOND, PEER_2)]
    maps.add_queue_pair(HOST, 17, PEER, 23, mtu=1024, more=more)
    assert [(slot.local_ip, slot.peer_ip) for slot in maps.slots()] == [(HOST, PEER)]
    for taken in (HOST, SECOND):
        with pytest.raises(MapsError, match="queue pair 17 of this host has a slot already"):
            maps.add_queue_pair(taken, 17, PEER, 24, mtu=1024)
    maps.remove_queue_pair(HOST, 17, more=more)
    assert list(maps.slots()) == []
    maps.add_queue_pair(SECOND, 17, PEER, 24, mtu=1024)
    # What a killed process left of a second address touches no slot that another one has by now.
    maps.remove_host(SECOND)
    maps.add_queue_pair(HOST, 17, PEER, 23, mtu=1024, more=more)
    maps.remove_host(HOST)
    other = maps.add_queue_pair(OTHER, 5, PEER, 5, mtu=1024)
    assert maps.remove_host(SECOND) == 1
    assert [slot.number for slot in maps.slots()] == [other]


def test_places_for_addresses_run_out_with_an_error(maps: PinnedMaps) -> None:
    more = [(SECOND, PEER_2)]
    with pytest.raises(QueuePairLimit, match="no place is left for a queue pair of 2 addresses"):
        for qpn in range(1, SLOTS + 1):
            maps.add_queue_pair(HOST, qpn, PEER, qpn, mtu=1024, more=more)
    held = sorted(slot.qpn for slot in maps.slots())
    assert held == list(range(1, len(held) + 1))
    assert len(held) >= SLOTS // 5
    maps.remove_host(HOST)
    maps.remove_host(SECOND)
    assert list(maps.slots()) == []


def test_the_limit_is_an_error_and_harms_nobody(maps: PinnedMaps) -> None:
    for qpn in range(1, SLOTS + 1):
        maps.add_queue_pair(HOST, qpn, PEER, qpn, mtu=1024)
    with pytest.raises(QueuePairLimit, match=f"all {SLOTS} slots"):
        maps.add_queue_pair(OTHER, 1, PEER, 1, mtu=1024)
    assert sum(1 for _ in maps.slots()) == SLOTS
    maps.remove_queue_pair(HOST, 77)
    assert maps.add_queue_pair(OTHER, 1, PEER, 1, mtu=1024) == 76
    assert maps.remove_host(HOST) == SLOTS - 1
    assert [slot.local_ip for slot in maps.slots()] == [OTHER]


def planes_of(host: int, *lines: int) -> list[Plane]:
    """Planes of a host with these lines: its and its peer's addresses 10.n.1.x and 10.n.2.1."""
    return [
        Plane(
            host + (n << 16), PEER + (n << 16), {"dcqcn": parameters("hpcc-dcqcn", line).fields()}
        )
        for n, line in enumerate(lines)
    ]


def test_each_plane_has_a_slot_of_its_own(maps: PinnedMaps) -> None:
    maps.add_queue_pair(OTHER, 16, PEER, 9, mtu=1024)
    planes = planes_of(HOST, 200 * 10**9, 100 * 10**9, 200 * 10**9)
    numbers = maps.add_planes(17, 23, planes, mtu=1024, first_psn=5)
    found = sorted((each for each in maps.slots() if each.qpn == 17), key=lambda each: each.plane)
    assert [each.number for each in found] == list(numbers) and len(set(numbers)) == 3
    assert [(each.plane, each.planes, each.shared) for each in found] == [
        (plane, 3, numbers[0]) for plane in range(3)
    ]
    assert [(each.local, each.peer) for each in found] == [
        ("10.0.1.1", "10.0.2.1"), ("10.1.1.1", "10.1.2.1"), ("10.2.1.1", "10.2.2.1"),
    ]  # fmt: skip
    assert [each.line_rate_bps for each in found] == [200 * 10**9, 100 * 10**9, 200 * 10**9]
    assert {(each.qpn, each.peer_qpn, each.lost_at, each.probes) for each in found} == {
        (17, 23, 0, 0)
    }
    (one,) = (each for each in maps.slots() if each.qpn == 16)
    assert (one.plane, one.planes, one.shared) == (0, 0, one.number)
    for plane in planes:
        with pytest.raises(MapsError, match="queue pair 17 of this host has a slot already"):
            maps.add_queue_pair(plane.local_ip, 17, PEER, 24, mtu=1024)
    with pytest.raises(MapsError, match="queue pair 17 of this host has a slot already"):
        maps.add_planes(17, 23, [*planes_of(OTHER, 10**9), planes[2]], mtu=1024)
    maps.remove_queue_pair(OTHER, 16)
    assert len(list(maps.slots())) == 3  # what was refused has left nothing


@pytest.mark.parametrize("plane", range(3))
def test_any_plane_s_address_removes_them_all_and_no_others(maps: PinnedMaps, plane: int) -> None:
    planes, others = planes_of(HOST, *[10**9] * 3), planes_of(OTHER, *[10**9] * 3)
    maps.add_planes(17, 23, planes, mtu=1024)
    kept = maps.add_planes(17, 23, others, mtu=1024)  # another host's, by the same number
    maps.remove_queue_pair(planes[plane].local_ip, 17)
    maps.remove_queue_pair(planes[plane].local_ip, 17)
    assert {each.number for each in maps.slots()} == set(kept)
    maps.add_planes(17, 23, planes, mtu=1024)  # nothing of it was left
    assert maps.remove_host(planes[plane].local_ip) == 1
    assert maps.remove_host(planes[plane - 1].local_ip) == 0
    assert {each.number for each in maps.slots()} == set(kept)
    for each in others:
        maps.remove_host(each.local_ip)
    assert list(maps.slots()) == []


def test_planes_get_all_slots_or_none(maps: PinnedMaps) -> None:
    for qpn in range(1, SLOTS - 1):
        maps.add_queue_pair(OTHER, qpn, PEER, qpn, mtu=1024)
    with pytest.raises(QueuePairLimit, match=f"takes 3 slots, and of the {SLOTS} .* 2 are free"):
        maps.add_planes(17, 23, planes_of(HOST, *[10**9] * 3), mtu=1024)
    assert sum(1 for _ in maps.slots()) == SLOTS - 2
    maps.add_planes(17, 23, planes_of(HOST, *[10**9] * 2), mtu=1024)
    with pytest.raises(QueuePairLimit, match=f"all {SLOTS} slots"):
        maps.add_planes(18, 24, planes_of(HOST, *[10**9] * 2), mtu=1024)
    assert sum(1 for _ in maps.slots()) == SLOTS


def test_planes_that_cannot_be(maps: PinnedMaps) -> None:
    one = planes_of(HOST, 10**9)
    for planes in ([], one, planes_of(HOST, *[10**9] * 9)):
        with pytest.raises(ValueError, match="from 2 to 8 are possible"):
            maps.add_planes(17, 23, planes, mtu=1024)
    with pytest.raises(MapsError, match="two planes have the same address"):
        maps.add_planes(17, 23, [*one, *one], mtu=1024)
    assert list(maps.slots()) == []


def test_what_the_kernel_knows_of_planes_outlives_the_agent(
    maps: PinnedMaps, directory: Path
) -> None:
    numbers = maps.add_planes(17, 23, planes_of(HOST, 10**9, 10**9), mtu=1024)
    ffi, key = native().ffi, struct.pack("=I", numbers[1])
    data = bpf_syscall.map_lookup(maps.slots_fd, key, maps.slot_bytes)
    assert data is not None
    row = ffi.new("struct cc_slot *")
    ffi.buffer(row)[:] = data
    row.lost_at, row.probes = 99, 7  # as the program writes them
    bpf_syscall.map_update(maps.slots_fd, key, bytes(ffi.buffer(row)))
    report = agent.run(directory, [])  # compiled and loaded anew
    assert report.error is None, report.error
    other = PinnedMaps.open(directory)
    found = {each.plane: each for each in other.slots()}
    other.close()
    assert (found[1].lost_at, found[1].probes, found[1].shared) == (99, 7, numbers[0])
    assert (found[0].lost_at, found[0].planes) == (0, 2)


def test_a_killed_process_leaves_no_lock_and_its_slots_can_be_removed(
    maps: PinnedMaps, directory: Path
) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from hostagent.pinned_maps import PinnedMaps\n"
        "maps = PinnedMaps.open(Path(sys.argv[1]))\n"
        f"for qpn in range(1, 9): maps.add_queue_pair({HOST}, qpn, {PEER}, qpn, mtu=1024)\n"
        "with maps._locked(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(directory)], check=False)
    assert killed.returncode == -9
    assert maps.remove_host(HOST) == 8
    assert list(maps.slots()) == []


def test_endpoints_take_af_xdp_sockets_only(maps: PinnedMaps) -> None:
    with socket.socket(AF_XDP, socket.SOCK_RAW, 0) as ours, socket.socket() as tcp:
        first = maps.add_endpoint(HOST, ours.fileno())
        with pytest.raises(MapsError, match="the AF_XDP socket is refused"):
            maps.add_endpoint(OTHER, tcp.fileno())
        second = maps.add_endpoint(OTHER, ours.fileno())
        assert first != second
        maps.remove_endpoint(HOST)
        maps.remove_endpoint(HOST)
        assert maps.add_endpoint(HOST, ours.fileno()) == first


def test_counters_are_there(maps: PinnedMaps) -> None:
    assert set(maps.counters().values()) == {0}


def test_no_maps_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MapsError, match=r"no host agent's maps in .*: is a run active"):
        PinnedMaps.open(tmp_path)


def test_maps_of_another_version_are_refused_by_all_and_stay(directory: Path) -> None:
    fd = bpf_syscall.get(directory / pins.LAYOUT)
    zero = struct.pack("=I", 0)
    try:
        bpf_syscall.map_update(fd, zero, struct.pack("=Q", pins.digest() ^ 1))
        with pytest.raises(MapsError, match=r"another version of Weft.*`weft stop`"):
            PinnedMaps.open(directory)
        report = agent.run(directory, [])
        assert report.error is not None and "another version of Weft" in report.error
        assert all((directory / name).exists() for name in pins.MAPS)
        (directory / pins.LAYOUT).unlink()  # older than that mark
        with pytest.raises(MapsError, match="another version of Weft"):
            PinnedMaps.open(directory)
    finally:
        bpf_syscall.map_update(fd, zero, struct.pack("=Q", pins.digest()))
        if not (directory / pins.LAYOUT).exists():
            bpf_syscall.pin(fd, directory / pins.LAYOUT)
        os.close(fd)
    PinnedMaps.open(directory).close()
