"""Endpoints of two namespaces: bytes arrive by AF_XDP and AF_PACKET, rates hold, ends are clean."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from hostagent import agent
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic import endpoint_loop
from hostagent.rnic.card_records import EventKind, Operation, Repeat, Work
from hostagent.rnic.client import EndpointClient, RequestRefused, join
from hostagent.rnic.endpoint_records import EndpointError, Task, TaskKind
from mechanisms.dcqcn.parameters import parameters
from tests.hostagent.two_hosts import (
    CONFIG,
    MEGABYTE,
    Faults,
    Joined,
    TwoHosts,
    agent_maps,
    daemon,
    joined,
    number,
    until,
)

pytestmark = pytest.mark.root

WIRE_EXTRA = 24  # preamble, FCS and gap, which rates count
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


@pytest.fixture(scope="module")
def maps(hosts: TwoHosts) -> Iterator[PinnedMaps]:
    with agent_maps(hosts) as found:
        yield found


@pytest.fixture(params=["af_xdp", "af_packet", "af_packet, kernel"])
def way(request: pytest.FixtureRequest, maps: PinnedMaps) -> tuple[str, PinnedMaps | None]:
    """How frames come, and the maps if the kernel keeps the congestion control."""
    mode, _, kernel = request.param.partition(", ")
    return mode, maps if kernel or mode == "af_xdp" else None


def exchange(pair: Joined, size: int, seed: int) -> None:
    """WRITE, SEND and READ of random bytes; each must arrive as it was."""
    random = Random(seed)
    written, sent, kept = (random.randbytes(size) for _ in range(3))
    into, read = bytearray(size), bytearray(size)
    far = pair.other.memory(pair.far.qpn)
    far[MEGABYTE : MEGABYTE + size] = kept
    pair.other.post_receive(pair.far.qpn, seed, into)
    begun = len(pair.events(0, EventKind.COMPLETED))
    remote = {"rkey": pair.far.rkey}
    for work in (
        Work(3 * seed, Operation.WRITE, written, remote_address=pair.far.address, **remote),
        Work(3 * seed + 1, Operation.SEND, sent),
        Work(
            3 * seed + 2, Operation.READ, read,
            remote_address=pair.far.address + MEGABYTE, **remote,
        ),
    ):  # fmt: skip
        pair.one.post(pair.near.qpn, work)
    until(lambda: len(pair.events(0, EventKind.COMPLETED)) == begun + 3, pair.one)
    assert bytes(far[:size]) == written
    assert bytes(into) == sent
    assert bytes(read) == kept
    assert not pair.events(0, EventKind.FAILED) + pair.events(1, EventKind.FAILED)


def test_random_bytes_arrive_as_they_were(
    hosts: TwoHosts, way: tuple[str, PinnedMaps | None]
) -> None:
    before = hosts.h2.unreachables()
    with joined(hosts, "near", way) as pair:
        for seed, size in enumerate((1, 2047, 2048, 2049, 100_001, MEGABYTE)):
            exchange(pair, size, seed)
        stats = pair.one.card_stats()
        assert (stats.bad_icrc, stats.malformed, stats.unknown_qp) == (0, 0, 0)
        if way[0] == "af_packet":
            assert stats.received == pair.one.stats().rx_packets
    assert hosts.h2.unreachables() == before  # nor does the kernel say that nobody listens


@pytest.mark.parametrize("repeat", Repeat)
def test_loss_duplicates_and_reordering_are_mended(
    hosts: TwoHosts, maps: PinnedMaps, repeat: Repeat
) -> None:
    config = replace(CONFIG, repeat=repeat, window_packets=64, timeout_ps=20_000_000_000)
    hosts.wire.faults = Faults(loss=0.01, duplicates=0.01, late=0.05)
    try:
        with joined(hosts, "far", ("af_xdp", maps), config) as pair:
            for seed in range(4):
                exchange(pair, 250_000, seed)
            stats = pair.one.pair_stats(pair.near.qpn)
            far = pair.other.pair_stats(pair.far.qpn)
    finally:
        hosts.wire.faults = Faults()
    assert stats.repeated_packets > 0
    assert far.out_of_order > 0 and far.naks_sent > 0
    if repeat == Repeat.SELECTIVE:
        assert far.dropped < far.out_of_order  # what came early was kept


@pytest.mark.parametrize("in_kernel", [True, False])
def test_marked_packets_lower_the_senders_rate(
    hosts: TwoHosts, maps: PinnedMaps, in_kernel: bool
) -> None:
    """CE -> the receiver's CNP -> DCQCN in the kernel's slot, or in the card -> the pacing."""
    line = 10**9
    config = replace(CONFIG, window_packets=32, cnp_interval_ns=1_000_000)
    # Slowed down, so that the rate is still low when it is looked at.
    congestion = parameters("hpcc-dcqcn-paper", 1000 * line, time_scale=1000)
    way = ("af_xdp", maps) if in_kernel else ("af_packet", None)
    with joined(hosts, "far", way, config, {"dcqcn": congestion.fields()}) as pair:
        assert pair.one.pair_stats(pair.near.qpn).rate_bps == line
        hosts.wire.faults = Faults(mark=True)
        try:
            rates = set()
            for seed in range(8):
                exchange(pair, 100_000, seed)
                rates.add(pair.one.pair_stats(pair.near.qpn).rate_bps)
        finally:
            hosts.wire.faults = Faults()
        stats = pair.one.pair_stats(pair.near.qpn)
        assert stats.cnps_received > 0
        assert pair.other.pair_stats(pair.far.qpn).marked > 0
        assert min(rates) < line
        if in_kernel:
            slots = {slot.qpn: slot for slot in maps.slots() if slot.local == "10.77.2.1"}
            slot = slots[pair.near.qpn]
            assert slot.states["dcqcn"]["limited"] and slot.cnps == stats.cnps_received
            assert slot.peer == "10.77.2.2" and slot.peer_qpn == pair.far.qpn
    assert [slot for slot in maps.slots() if slot.local.startswith("10.77.")] == []


@pytest.mark.parametrize("rate", [10**7, 10**8])
def test_the_rate_that_is_asked_for_is_kept(
    hosts: TwoHosts, maps: PinnedMaps, rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 2 %, preamble and gap counted; a busy machine gets several attempts.

    What such a machine sends late may be made up for, however late that is.
    """
    monkeypatch.setattr(endpoint_loop, "PACE_SLACK_PS", 10**12)
    count = rate // (2 * 10**6)  # half a second
    measured = []
    config = replace(CONFIG, rate_bps=rate)
    with joined(hosts, "near", ("af_xdp", maps), config, buffer_bytes=1 << 17) as pair:
        remote = {"rkey": pair.far.rkey, "remote_address": pair.far.address}
        for _ in range(6):
            before = pair.one.stats()
            task = Task(TaskKind.BANDWIDTH, Operation.WRITE, 1 << 17, count, depth=16, **remote)
            pair.one.task(pair.near.qpn, task)
            until(lambda: pair.one.task_state(pair.near.qpn).done, pair.one)
            after, state = pair.one.stats(), pair.one.task_state(pair.near.qpn)
            pair.one.end_task(pair.near.qpn)
            packets = after.tx_packets - before.tx_packets
            octets = after.tx_bytes - before.tx_bytes + WIRE_EXTRA * packets
            measured.append(octets * 8 * 10**9 / (state.ended_ns - state.started_ns))
            if abs(measured[-1] / rate - 1) < 0.02:
                return
    pytest.fail(f"{rate} bits/s were asked for, measured: {[round(each) for each in measured]}")


def test_two_endpoints_of_an_address_are_refused(hosts: TwoHosts) -> None:
    with (
        hosts.h1.endpoint("near", "10.77.1.1"),
        pytest.raises(EndpointError, match=r"UDP port 4791 of 10\.77\.1\.1 is taken: another"),
    ):
        hosts.h1.endpoint("near", "10.77.1.1")
    with pytest.raises(EndpointError, match=r"10\.77\.9\.9 can't be had: .* not one of this host"):
        hosts.h1.endpoint("near", "10.77.9.9")
    hosts.h1.endpoint("near", "10.77.1.1").close()  # nothing of them is left


# --- the daemon -----------------------------------------------------------------------------------


def test_a_peer_that_dies_fails_its_own_queue_pairs_alone(hosts: TwoHosts, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    # Time enough for a living peer on a busy machine to answer.
    settings = {"qps": 1, "buffer_bytes": 65536, "timeout_us": 1_000_000, "retries": 3}
    with (
        daemon(hosts.h1, "10.77.1.1", paths[0]),
        daemon(hosts.h2, "10.77.1.2", paths[1]) as mortal,
        daemon(hosts.h2, "10.77.1.3", paths[2]),
        EndpointClient.connect(paths[0]) as source,
        EndpointClient.connect(paths[1]) as dying,
        EndpointClient.connect(paths[2]) as living,
    ):
        # A limit of 5 Mb/s: 40 messages of 64 KB take four seconds, and nobody is quicker.
        (lost,), _ = join(source, dying, **settings, rate_bps=5_000_000)  # type: ignore[arg-type]
        (kept,), _ = join(source, living, **settings, rate_bps=5_000_000)  # type: ignore[arg-type]
        source.send("measure", qpns=[lost, kept], operation="write", size=65536, count=40, depth=2)
        deadline = time.monotonic() + PATIENCE_S
        with EndpointClient.connect(paths[0]) as watcher:
            watcher.send("watch", interval_ms=20, all=True)
            moving: set[int] = set()
            while moving != {lost, kept}:
                rows = watcher.answer(PATIENCE_S)["pairs"]
                moving = {row["qpn"] for row in rows if row["acked_bytes"] >= 65536}
                assert time.monotonic() < deadline
        mortal.kill()
        result = source.answer(PATIENCE_S)
        assert result["failures"] == [
            {"qpn": lost, "why": "the peer does not answer (retries exceeded)"}
        ]
        rows = {row["qpn"]: row for row in result["pairs"]}
        assert rows[kept]["messages"] == 40
        assert 1 <= rows[lost]["messages"] < 40
        # The failed one is refused from now on, the other still works.
        again = source.call("measure", qpns=[kept], operation="write", size=64, count=3)
        assert (again["messages"], again["failures"]) == (3, [])
        stats = {row["qpn"]: row for row in source.call("stats")["pairs"]}
        assert stats[lost]["failure"] and stats[kept]["failure"] is None


def test_limits_and_wrong_requests_are_told_and_change_nothing(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    with daemon(hosts.h1, "10.77.1.1", path, "--max-qps", "2"):
        with EndpointClient.connect(path) as client:
            for command, fields, message in (
                ("open", {"qps": 3, "buffer_bytes": 64}, "no more than 2 queue pairs"),
                ("open", {"qps": 1, "buffer_bytes": 64, "mtu": 4096}, "at most 2048"),
                ("open", {"qps": 1, "buffer_bytes": 64, "mtu": 1000}, "MTU"),
                ("open", {"qps": 1, "buffer_bytes": -1}, "a buffer of -1 bytes"),
                ("open", {"qps": "x", "buffer_bytes": 64}, "fields are wrong"),
                ("open", {"qps": 2, "buffer_bytes": 64, "udp_port": 65535}, "fit 1 to 65535"),
                ("open", {"qps": 1, "buffer_bytes": 64, "udp_port": 0}, "fit 1 to 65535"),
                ("open", {"qps": 1, "buffer_bytes": 64, "repeat": "x"}, "selective-repeat"),
                ("open", {"size": 1}, "fields are wrong"),
                ("measure", {"qpns": [1], "operation": "write"}, "no queue pair 1"),
                ("measure", {"qpns": [], "operation": "write"}, "queue pairs at least 1"),
                ("measure", {"qpns": [1], "colour": "red"}, "fields are wrong"),
                ("watch", {"interval": 10}, "fields are wrong"),
                ("fly", {}, "no command 'fly': info, open"),
            ):
                with pytest.raises(RequestRefused, match=message):
                    client.call(command, **fields)
            assert client.call("info")["qps"] == 0
            pairs = client.call("open", qps=2, buffer_bytes=64)["pairs"]
            qpns = [pair["qpn"] for pair in pairs]
            for fields, message in (
                ({"qpns": qpns}, f"queue pair {qpns[0]} is not connected"),
                ({"qpns": qpns, "mode": "latency"}, "on one queue pair, not 2"),
                ({"qpns": qpns, "size": 65}, "messages of 65 bytes, and .* buffer has 64"),
                ({"qpns": qpns, "size": -1}, "fields are wrong"),
                ({"qpns": qpns, "count": 0}, "count is from 1"),
            ):
                with pytest.raises(RequestRefused, match=message):
                    client.call("measure", **{"operation": "write", "size": 8} | fields)
            nobody = {"peer_ip": "10.77.1.77", "peer_qpn": 1, "peer_psn": 0}
            with pytest.raises(RequestRefused, match=r"10\.77\.1\.77 can't be reached: no answer"):
                client.call("connect", pairs=[{"qpn": pairs[0]["qpn"], **nobody}])
        with EndpointClient.connect(path) as client:
            until_no_pairs(client)


def until_no_pairs(client: EndpointClient) -> None:
    """Wait until a closed connection's queue pairs are gone."""
    deadline = time.monotonic() + PATIENCE_S
    while client.call("info")["qps"]:
        assert time.monotonic() < deadline, "queue pairs are left"
        time.sleep(0.01)


def test_a_measurement_can_be_cancelled(hosts: TwoHosts, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    with (
        daemon(hosts.h1, "10.77.1.1", paths[0]),
        daemon(hosts.h2, "10.77.1.2", paths[1]),
        EndpointClient.connect(paths[0]) as source,
        EndpointClient.connect(paths[1]) as target,
    ):
        qpns, others = join(source, target, qps=2, buffer_bytes=4096, rate_bps=10_000_000)
        source.send("measure", qpns=qpns, operation="write", size=4096, count=100_000)
        source.send("cancel")
        result = source.answer()
        assert result["interrupted"] and result["failures"] == []
        assert result["messages"] < 200_000
        # What was still posted then is not counted for the next one.
        for operation in ("write", "send", "read"):
            target.call("serve", qpns=others, operation=operation, mode="bandwidth", size=1000)
            again = source.call(
                "measure", qpns=qpns, operation=operation, size=1000, count=5, timeout_s=PATIENCE_S
            )
            assert (again["messages"], again["bytes"], again["failures"]) == (10, 10_000, [])
            assert again["peak_bps"] >= again["average_bps"] * 0.99 > 0
        target.call("serve", qpns=others[:1], operation="send", mode="latency", size=8)
        latency = source.call(
            "measure", qpns=qpns[:1], operation="send", mode="latency", size=8, count=20
        )
        assert len(latency["times_ns"]) == 20 and min(latency["times_ns"]) > 0


def test_an_ended_daemon_leaves_nothing_and_a_killed_ones_rest_goes(
    hosts: TwoHosts, maps: PinnedMaps, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in "ab"]
    options = ("--maps", str(maps.directory))

    def own_slots() -> int:
        return sum(slot.local_ip == number("10.77.1.1") for slot in maps.slots())

    with daemon(hosts.h2, "10.77.1.2", paths[1], *options):
        with daemon(hosts.h1, "10.77.1.1", paths[0], *options) as killed:
            second = hosts.h1.daemon("near", "10.77.1.1", tmp_path / "c", *options)
            said = second.communicate(timeout=PATIENCE_S)
            assert second.returncode == 1 and said[1].startswith("error: UDP port 4791"), said
            assert said[1].count("\n") == 1
            with (
                EndpointClient.connect(paths[0]) as source,
                EndpointClient.connect(paths[1]) as target,
            ):
                assert source.call("info")["mode"] == "af_xdp"
                join(source, target, qps=3, buffer_bytes=64)
                assert own_slots() == 3
                killed.kill()
                killed.wait()
            assert own_slots() == 3  # nobody could
        with daemon(hosts.h1, "10.77.1.1", paths[0], *options) as ended:
            assert own_slots() == 0
            with (
                EndpointClient.connect(paths[0]) as source,
                EndpointClient.connect(paths[1]) as target,
            ):
                qpns, _ = join(source, target, qps=1, buffer_bytes=64)
                done = source.call("measure", qpns=qpns, operation="write", size=64, count=10)
                assert done["messages"] == 10 and own_slots() == 1
                ended.send_signal(signal.SIGTERM)
                assert ended.wait(PATIENCE_S) == 0
        assert own_slots() == 0
        assert not paths[0].exists()


@pytest.mark.parametrize("way", ["af_xdp", "af_packet"])
def test_a_lost_interface_ends_the_daemon_with_a_word(
    hosts: TwoHosts, maps: PinnedMaps, tmp_path: Path, way: str
) -> None:
    hosts.h1.ip(
        "link add gone mtu 3000 type veth peer name gone2",
        "addr add 10.77.3.1/24 dev gone",
        "link set gone up",
        "link set gone2 up",
    )
    options = []
    if way == "af_xdp":
        assert agent.run(maps.directory, [(hosts.h1.pid, "gone")]).error is None
        options = ["--maps", str(maps.directory)]
    process = hosts.h1.daemon("gone", "10.77.3.1", tmp_path / "a", *options)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready: gone by {way}\n"
        hosts.h1.ip("link set gone down", "link set gone up")
        with EndpointClient.connect(tmp_path / "a") as client:
            assert client.call("info")["interface"] == "gone"  # that alone does not end it
        hosts.h1.ip("link del gone")
        _, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, said) == (1, "error: interface gone is lost: No such device\n")
        assert not (tmp_path / "a").exists()
    finally:
        process.kill()
        process.wait()
