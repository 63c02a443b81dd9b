"""The shared buffer: who may keep how much, byte by byte, and that everything is given back.

port 2 --\\                     .-- queue 0..7 --> port 1 (held)
port 4 ---+--> (port, class) --+
port 5 --/                     '-- queue 0..7 --> port 6 (held)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CoreError, PortState, Replica, Session, SwitchCore
from tests.softswitch.conftest import SANITIZE
from tests.softswitch.lanes import (
    LOSSLESS,
    in_class,
    ip_frame,
    lanes_core,
    pauses,
    pfc_frame,
    port_100g,
    same_class,
    wire_ps,
)

RATE = 100_000_000_000
NO_ROOM = [0] * 8


@pytest.fixture
def make(six_ports: Callable[..., SwitchCore]) -> Callable[..., SwitchCore]:
    def make_held(**config: int) -> SwitchCore:
        core = six_ports(**config)
        for port in (1, 6):
            core.set_port(port, PortState.BLOCKED)
        return core

    return make_held


def used(core: SwitchCore) -> int:
    stats = core.buffer_stats()
    assert stats is not None
    return stats.used_bytes


def send(core: SwitchCore, length: int, *, port: int = 2, at: int = 0, **fields: int) -> None:
    core.inject(port, ip_frame(length, **fields), at)


def test_a_lossy_queue_stops_at_alpha_times_what_is_left(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000))
    send(core, 4000, dscp=1, queue=1)
    send(core, 2001, dscp=1, queue=1)  # 4000 + 2001 > 6000
    assert used(core) == 4000
    send(core, 2000, dscp=1, queue=1)  # 4000 + 2000 = 10000 - 4000
    assert used(core) == 6000
    send(core, 100, dscp=1, queue=1)
    assert used(core) == 6000
    send(core, 4001, dscp=1, queue=2)  # another queue: all that is left
    send(core, 4000, dscp=1, queue=2)
    assert used(core) == 10_000
    assert core.pfc_stats(1).drop_shared == (0, 2, 1, 0, 0, 0, 0, 0)
    assert core.buffer_stats().most_used_bytes == 10_000


@pytest.mark.parametrize(("alpha", "frames"), [(32, 11), (128, 33), (256, 50), (1024, 80)])
def test_one_queue_gets_alpha_over_one_plus_alpha(make: Any, alpha: int, frames: int) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=100_000, alpha_q8=(alpha,) * 8))
    for _ in range(100):
        send(core, 1000, dscp=0)
    assert used(core) == 1000 * frames  # S alpha / (1 + alpha), in whole frames
    assert core.pfc_stats(1).drop_shared[0] == 100 - frames


def test_a_lossless_class_says_xoff_at_its_threshold_and_fills_its_headroom(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000))
    core.set_headroom(2, in_class(3000))
    for _ in range(4):
        send(core, 1000, dscp=LOSSLESS, queue=3)
    assert pauses(core) == []  # 4000 < 10000 - 4000
    send(core, 999, dscp=LOSSLESS, queue=3, at=777)
    assert pauses(core) == []  # 4999 < 5001
    send(core, 60, dscp=LOSSLESS, queue=3, at=1000)  # 5059 >= 4941
    (xoff,) = pauses(core)
    assert (xoff.port, xoff.quanta) == (2, {LOSSLESS: 0xFFFF})
    assert xoff.at_ps == 1000 + wire_ps(60, RATE)
    assert used(core) == 5059
    send(core, 2999, dscp=LOSSLESS, queue=3)
    send(core, 60, dscp=LOSSLESS, queue=3)  # one byte would be free
    stats = core.pfc_stats(2)
    assert stats.drop_headroom[LOSSLESS] == 1
    assert stats.bytes[LOSSLESS] == stats.most_bytes[LOSSLESS] == 5059 + 2999
    assert used(core) == 5059  # headroom is not of the shared pool
    assert (stats.xoff_sent[LOSSLESS], stats.xon_sent[LOSSLESS]) == (1, 0)
    assert core.pfc_stats(1).drop_shared == (0,) * 8


def test_each_ingress_port_has_its_own_account(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000))
    for port in (2, 4):
        core.set_headroom(port, in_class(9000))
    for _ in range(5):
        send(core, 1000, dscp=LOSSLESS, port=2)
    assert [p.port for p in pauses(core)] == [2]
    for _ in range(3):
        send(core, 1000, dscp=LOSSLESS, port=4)  # 3000 of what is left: 2000
    assert [p.port for p in pauses(core)] == [4]
    assert core.pfc_stats(2).bytes[LOSSLESS] == 5000
    assert core.pfc_stats(4).bytes[LOSSLESS] == 3000


def test_xon_comes_when_the_headroom_is_empty_and_the_use_is_a_gap_below(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, xon_gap_bytes=3000))
    core.set_headroom(2, in_class(2000))
    for _ in range(7):
        send(core, 1000, dscp=LOSSLESS)  # five shared, two in the headroom
    pauses(core)
    core.set_port(1, PortState.UP, now_ps=5000)
    core.advance(10**9)
    slot = wire_ps(1000, RATE)
    # The first two give back the headroom; then 5 + 3 > 5, 4 + 3 > 6, 3 + 3 <= 7 (in kB).
    (xon,) = pauses(core)
    assert xon.quanta == {LOSSLESS: 0}
    assert xon.at_ps == 5000 + 3 * slot + wire_ps(60, RATE)
    assert core.pfc_stats(2).xon_sent[LOSSLESS] == 1
    assert used(core) == core.pfc_stats(2).bytes[LOSSLESS] == 0


def test_xon_by_the_gap_alone(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, xon_gap_bytes=3000))
    for _ in range(5):
        send(core, 1000, dscp=LOSSLESS)
    pauses(core)
    core.set_port(1, PortState.UP, now_ps=5000)
    core.advance(10**9)
    # 4 + 3 > 6, 3 + 3 <= 7: when the second begins.
    assert [p.at_ps for p in pauses(core)] == [5000 + wire_ps(1000, RATE) + wire_ps(60, RATE)]


def test_without_headroom_a_lossless_class_is_dropped_at_its_threshold(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000))
    for _ in range(8):
        send(core, 1000, dscp=LOSSLESS)
    assert core.pfc_stats(2).drop_headroom[LOSSLESS] == 3


def vlan(data: bytes) -> bytes:
    return data[:12] + bytes.fromhex("81006001") + data[12:]


def ipv6(length: int, dscp: int) -> bytes:
    data = bytearray(ip_frame(length, dscp=0))
    data[12:16] = bytes([0x86, 0xDD, 0x60 | dscp >> 2, (dscp & 3) << 6])
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "class_in"),
    [
        (ip_frame(100, dscp=26), 3),
        (ip_frame(100, dscp=48), 6),
        (ip_frame(100, dscp=0), 2),
        (vlan(ip_frame(100, dscp=26)), 3),
        (ipv6(100, 26), 3),
        (ipv6(100, 0x3F), 5),
        (bytes([2, 0, 0, 0, 0, 1]) + bytes(6) + b"\x88\xb5" + bytes(80), 0),  # no IP
    ],
)
def test_a_class_is_of_the_dscp_as_it_arrived(make: Any, data: bytes, class_in: int) -> None:
    core = make()
    of_dscp = [7] * 64
    of_dscp[26], of_dscp[48], of_dscp[0], of_dscp[0x3F] = 3, 6, 2, 5
    core.configure_buffer(same_class(class_of_dscp=tuple(of_dscp), lossless=0xFF))
    core.inject(2, data)
    found = core.pfc_stats(2).bytes
    assert {c: n for c, n in enumerate(found) if n} == {class_in: len(data)}


def test_tails_count(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class())
    core.inject(2, ip_frame(60, dscp=LOSSLESS), tail_length=4000, tail_seed=1)
    assert used(core) == core.pfc_stats(2).bytes[LOSSLESS] == 4060


def test_copies_count_each_and_belong_to_where_the_original_arrived(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class())
    core.multicast_set(9, [Replica(1), Replica(6), Replica(1, 2)])
    send(core, 500, dscp=LOSSLESS, group=9)
    assert used(core) == core.pfc_stats(2).bytes[LOSSLESS] == 1500
    core.clone_session_set(5, Session(egress_port=6, port_valid=True))
    send(core, 700, dscp=LOSSLESS, out=3, clone=5, port=4)  # leaves at once, its clone waits
    assert core.pfc_stats(4).bytes[LOSSLESS] == 700
    assert {(w.ingress_port, w.egress_port, w.packets, w.bytes) for w in core.waiting()} == {
        (2, 1, 2, 1000),
        (2, 6, 1, 500),
        (4, 6, 1, 700),
    }


def test_what_leaves_at_once_takes_no_buffer(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=1))
    send(core, 1000, dscp=0, out=3)
    assert used(core) == 0 and core.port_stats(3).tx_packets == 1
    send(core, 1000, dscp=0, out=3)  # would have to wait
    assert core.pfc_stats(3).drop_shared[0] == 1


@pytest.mark.parametrize("how", ["down", "load", "off"])
def test_everything_is_given_back(make: Any, lanes_so: Path, how: str) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=20_000))
    core.set_headroom(2, in_class(5000))
    for dscp in (0, LOSSLESS):
        for _ in range(12):
            send(core, 1000, dscp=dscp, queue=dscp)
    assert used(core) > 10_000
    with pytest.raises(CoreError, match="buffer"):
        core.configure_buffer(same_class())
    if how == "load":
        core.load(lanes_so)
    else:
        core.set_port(1, PortState.DOWN)
        core.advance(10**9)
        assert core.port_stats(1).drop_down == core.port_stats(1).waited
    assert used(core) == 0 and core.pfc_stats(2).bytes == (0,) * 8
    if how == "off":
        core.configure_buffer(same_class(shared_bytes=0))
        assert core.buffer_stats() is None
        core.set_port(1, PortState.BLOCKED, now_ps=10**9)
        for _ in range(100):
            send(core, 1000, dscp=0)
        assert core.port_stats(1).depth_packets == 100
    else:
        core.configure_buffer(same_class())


def test_a_packet_that_comes_back_when_the_buffer_is_gone(toy_so: Path) -> None:
    core = lanes_core(toy_so, sanitize=SANITIZE)  # the toy can recirculate
    core.configure_port(1, port_100g())
    core.configure_buffer(same_class(lossless=1))
    core.set_port(1, PortState.BLOCKED)
    frame = bytes([0, 0, 0, 1]) + bytes(11) + bytes([1]) + bytes(84)
    core.inject(0, frame)
    assert used(core) == 100
    core.set_port(1, PortState.UP)
    core.set_port(1, PortState.BLOCKED)
    core.configure_buffer(same_class(shared_bytes=0))  # while it goes round
    core.advance(10**9)
    assert core.port_stats(1).depth_packets == 1
    core.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"class_of_dscp": (8,) + (0,) * 63},
        {"watchdog_ps": -1},
        {"watchdog_restore_ps": -1},
        {"watchdog_ps": 1 << 62},
    ],
)
def test_bad_configurations(make: Any, changes: dict[str, Any]) -> None:
    core = make()
    with pytest.raises(CoreError):
        core.configure_buffer(same_class(**changes))
    assert core.buffer_stats() is None


def test_pauses_pass_as_frames_where_there_is_no_buffer(make: Any) -> None:
    core = make()
    core.inject(2, pfc_frame({3: 100}))
    assert core.port_stats(2).rx_packets == 1


def test_how_long_packets_waited(make: Any) -> None:
    core = make()
    core.inject(2, ip_frame(1000, dscp=0), 100)
    core.inject(2, ip_frame(1000, dscp=0), 300)
    core.set_port(1, PortState.UP, now_ps=1000)
    core.advance(10**9)
    stats = core.port_stats(1)
    assert (stats.waited, stats.wait_ps) == (2, 900 + 700 + wire_ps(1000, RATE))


_SETTINGS = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_SETTINGS
@given(
    st.integers(1, 60_000),
    st.tuples(*[st.sampled_from([8, 32, 128, 256, 2048])] * 2),
    st.integers(0, 5000),
    st.lists(
        st.tuples(st.sampled_from([2, 4]), st.sampled_from([1, LOSSLESS]), st.integers(60, 3000)),
        max_size=60,
    ),
)
def test_thresholds_as_the_model_says(
    make: Any,
    size: int,
    alphas: tuple[int, int],
    headroom: int,
    frames: list[tuple[int, int, int]],
) -> None:
    core = make()
    alpha = [alphas[1] if c == LOSSLESS else alphas[0] for c in range(8)]
    core.configure_buffer(same_class(shared_bytes=size, alpha_q8=tuple(alpha)))
    for port in (2, 4):
        core.set_headroom(port, in_class(headroom))
    in_use = queue = 0
    shared, extra = {2: 0, 4: 0}, {2: 0, 4: 0}
    xoff: set[int] = set()

    def limit(c: int) -> int:
        return (size - in_use) * alpha[c] // 256

    for port, dscp, length in frames:
        send(core, length, port=port, dscp=dscp, queue=dscp)
        if dscp != LOSSLESS:
            if queue + length <= limit(dscp) and in_use + length <= size:
                queue, in_use = queue + length, in_use + length
            continue
        fits = shared[port] < limit(dscp) and in_use + length <= size
        if port not in xoff and fits:
            shared[port], in_use = shared[port] + length, in_use + length
            if shared[port] >= limit(dscp):
                xoff.add(port)
        else:
            xoff.add(port)
            if extra[port] + length <= headroom:
                extra[port] += length
    assert used(core) == in_use <= size
    assert {p.port for p in pauses(core)} == xoff
    for port in (2, 4):
        assert core.pfc_stats(port).bytes[LOSSLESS] == shared[port] + extra[port]
    core.set_port(1, PortState.UP)
    core.advance(10**10)
    assert used(core) == 0
    assert {p.port for p in pauses(core) if not p.quanta[LOSSLESS]} == xoff
