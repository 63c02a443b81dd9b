"""The packet loop on real interfaces: veth pairs in a network namespace of the test's own.

    far1 ===veth=== near1 [port 1 | switch | port 2] near2 ===veth=== far2

The namespace has no name and belongs to one thread: it goes with it, whatever happens.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from softswitch.core import (
    CoreError,
    DaemonLoop,
    OutputKind,
    PortConfig,
    PortState,
    Spec,
    SwitchCore,
)
from tests.softswitch.veth_rig import DEADLINE, in_namespace, ip, link, take, tc, until

pytestmark = pytest.mark.root

LEARN = 4


@in_namespace
def test_frames_pass_unchanged_and_are_not_heard_twice(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(mtu=9000) as r:
        for size in (0, 28, 1482, 8982):
            r.taps[1].send(frame(out=2, payload=bytes(range(256)) * 36)[: 32 + size])
            got = r.taps[2].recv(10000)
            assert got[32:] == (bytes(range(256)) * 36)[:size]
            assert got[31] == 1  # ingress port
        stats = r.loop.stats()
        assert (stats.rx, stats.tx, stats.truncated, stats.tx_errors) == (4, 4, 0, 0)
        assert 0 < stats.cpu_ns < 10**9
        with r.loop.locked() as core:
            assert core.port_stats(2).rx_packets == 0


@in_namespace
def test_vlan_tags_stay_in_the_frame(
    rig: Callable[..., Any], frame: Callable[..., bytes], tmp_path: Path
) -> None:
    """The kernel takes the tag out of what it hands to packet sockets."""
    tagged = bytearray(frame(payload=bytes(range(40))))
    tagged[12:16] = bytes([0x81, 0, 0x60, 100])
    with rig(ports=1, pcap=tmp_path) as r:
        r.taps[1].send(bytes(tagged))
        until(lambda: r.loop.stats().rx == 1, "the frame")
        with r.loop.locked() as core:
            assert core.port_stats(1).rx_bytes == len(tagged)
    assert (tmp_path / "s1-near1_in.pcap").read_bytes()[24 + 16 :] == tagged


@in_namespace
def test_truncated_frames_are_counted_and_a_grown_mtu_is_followed(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig() as r:
        for name in ("near1", "far1", "near2", "far2"):
            ip(f"link set {name} mtu 9000")

        # The ring is made anew as soon as the loop hears of the MTU.
        def passes() -> bool:
            r.taps[1].send(frame(out=2, payload=bytes(8000)))
            r.taps[2].settimeout(0.05)
            try:
                return len(r.taps[2].recv(10000)) == 8032
            except TimeoutError:
                return False

        until(passes, "a jumbo frame passes")


@in_namespace
def test_cpu_packets_digests_and_packet_out(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(cpu_port=255) as r:
        r.taps[1].send(frame(out=255, flags=LEARN, key32=5, payload=b"up"))
        events: list[Any] = []
        until(lambda: bool(events.extend(r.loop.wait_events(0.1)) or len(events) == 2), "events")
        assert [(e.kind, e.port) for e in events] == [
            (OutputKind.DIGEST, 0),
            (OutputKind.CPU, 255),
        ]
        assert events[0].data == bytes([0, 0, 0, 5, 0])
        assert events[1].data[32:] == b"up"
        assert 0 < events[1].at_ps <= r.loop.now()
        r.loop.packet_out(frame(out=2, payload=b"down"))
        got = r.taps[2].recv(2000)
        assert (got[31], got[32:]) == (255, b"down")
        assert r.loop.wait_events(0) == []
    with rig() as r, pytest.raises(CoreError, match="without a CPU port"):
        r.loop.packet_out(bytes(64))


@in_namespace
def test_events_that_nobody_fetches_are_bounded_and_counted(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(ports=1, cpu_port=255) as r:
        data = frame(out=255, payload=bytes(14000))
        for _ in range(400):
            r.loop.packet_out(data)
        until(lambda: r.loop.stats().events_dropped > 50, "drops")
        fetched: list[Any] = []
        until(
            lambda: (
                len(fetched) + r.loop.stats().events_dropped == 400
                or bool(fetched.extend(r.loop.wait_events(0)))
            ),
            "all events",
        )
        r.loop.packet_out(data)
        assert len(r.loop.wait_events(DEADLINE)) == 1


@in_namespace
def test_links_that_go_down_come_up_and_vanish(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(ports=3) as r:
        ip("link set far2 down")  # the carrier goes
        until(lambda: r.state(2) is PortState.DOWN, "port 2 down")
        assert r.state(1) is PortState.UP
        ip("link set far2 up")
        until(lambda: r.state(2) is PortState.UP, "port 2 up")
        ip("link set near2 down")
        until(lambda: r.state(2) is PortState.DOWN, "port 2 down")
        ip("link set near2 up")
        until(lambda: r.state(2) is PortState.UP, "port 2 up again")
        r.taps[2].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # that the link was down
        r.taps[1].send(frame(out=2, payload=b"x"))
        assert r.taps[2].recv(2000)[32:] == b"x"
        ip("link delete near3")
        until(lambda: r.state(3) is PortState.DOWN, "port 3 gone")
        r.taps[1].send(frame(out=3))
        r.taps[1].send(frame(out=2, payload=b"y"))
        assert r.taps[2].recv(2000)[32:] == b"y"
        until(lambda: "2 port 3 (near3): the interface is gone, port closed" in r.lines, "line")
        assert r.lines[:2] == ["2 port 2 (near2): down", "2 port 2 (near2): up"]
        r.loop.remove_port(3)
        wakeups = r.loop.stats().wakeups
        time.sleep(0.05)  # a loop that spins on an error would turn thousands of times
        assert r.loop.stats().wakeups - wakeups < 20


@in_namespace
def test_a_shaped_interface_blocks_its_port_and_loses_nothing(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig() as r:
        shaper = "dev near2 root tbf burst 3kb limit 4mb rate"
        tc(f"qdisc add {shaper} 8kbit")  # hardly any goes until all are there
        with r.loop.locked() as core:
            core.configure_port(2, PortConfig(queue_packets=0))
        n = 1000
        for i in range(n):
            r.taps[1].send(frame(out=2, key32=i, payload=bytes(1000)))
        until(lambda: r.loop.stats().rx == n, "all frames")
        assert r.state(2) is PortState.BLOCKED
        tc(f"qdisc change {shaper} 80mbit")
        got = [int.from_bytes(data[4:8], "big") for data in take(r.taps[2], n)]
        assert got == list(range(n))
        with r.loop.locked() as core:
            stats = core.port_stats(2)
        assert stats.max_depth_packets > 100
        assert r.loop.stats().tx_blocked > 0
        until(lambda: r.state(2) is PortState.UP, "port 2 up")


@in_namespace
def test_delay_and_rate_are_kept_in_real_time(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig() as r:
        with r.loop.locked() as core:
            core.configure_port(2, PortConfig(rate_bps=8_000_000, tx_delay_ps=20 * 10**9))

        def in_time() -> bool:
            started = time.monotonic()
            for _ in range(10):
                r.taps[1].send(frame(out=2, payload=bytes(1000 - 32)))
            for i in range(10):
                r.taps[2].recv(2000)
                assert time.monotonic() - started >= 0.020 + (i + 1) * 1024e-6
            return time.monotonic() - started < 1

        until(in_time, "ten frames in less than a second")  # a busy machine gets several attempts


@in_namespace
def test_captures(rig: Callable[..., Any], frame: Callable[..., bytes], tmp_path: Path) -> None:
    before = time.time()
    with rig(pcap=tmp_path) as r:
        for _ in range(3):
            r.taps[1].send(frame(out=2, payload=b"abc"))
            r.taps[2].recv(2000)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert sorted(files) == [
        "s1-near1_in.pcap",
        "s1-near1_out.pcap",
        "s1-near2_in.pcap",
        "s1-near2_out.pcap",
    ]
    header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    assert {data[:24] for data in files.values()} == {header}
    record = 16 + 35
    assert [len(files[name]) - 24 for name in sorted(files)] == [3 * record, 0, 0, 3 * record]
    seconds, ns, kept, length = struct.unpack_from("<IIII", files["s1-near1_in.pcap"], 24)
    assert (kept, length) == (35, 35)
    assert before - 1 < seconds + ns / 1e9 < time.time() + 1
    assert files["s1-near2_out.pcap"][-3:] == b"abc"


@in_namespace
def test_others_get_the_lock_while_packets_flood(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig() as r:
        stop = threading.Event()

        def flood() -> None:
            data = frame(out=2)
            while not stop.is_set():
                r.taps[1].send(data)

        sender = threading.Thread(target=flood)
        sender.start()
        try:
            waits = []
            for port in range(10, 200):
                asked = time.monotonic()
                with r.loop.locked() as core:
                    if port < 70:
                        spec = Spec.of_action(0, [port])
                        core.table_insert(0, bytes([port]) + bytes(4), None, 0, spec)
                    else:
                        core.stats()
                waits.append(time.monotonic() - asked)
        finally:
            stop.set()
            sender.join()
        assert median(waits) < 1  # one may wait for a busy machine, not half of them
        assert r.core.table_count(0) == 60


@in_namespace
def test_ports_that_cannot_be_opened(make_core: Callable[..., SwitchCore]) -> None:
    core = make_core()
    loop = DaemonLoop(core)
    link(1)
    with pytest.raises(CoreError, match="port 5: can't find interface nowhere: No such device"):
        loop.add_port(5, "nowhere")
    with pytest.raises(CoreError, match="out of range"):
        loop.add_port(5, "a-name-that-is-too-long")
    with pytest.raises(CoreError, match=r"can't write /nowhere/x_in\.pcap"):
        loop.add_port(1, "near1", pcap=Path("/nowhere/x"))
    loop.add_port(1, "near1")
    with pytest.raises(CoreError, match="has an interface already"):
        loop.add_port(1, "far1")
    with pytest.raises(CoreError, match="port 2 has no interface"):
        loop.remove_port(2)
    loop.close()
    core.close()


@in_namespace
def test_nothing_stays_open(make_core: Callable[..., SwitchCore], toy_so: Path) -> None:
    link(1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        core = make_core()
        core.load(toy_so)
        loop = DaemonLoop(core)
        loop.add_port(1, "near1")
        loop.start()
        loop.close()
        core.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
