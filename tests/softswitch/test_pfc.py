"""Priority flow control to the picosecond: pauses taken and sent, the watchdog, a long wire.

sender (port 1) ==== wire ==== (port 2) receiver (port 1 held)
        data class 3 -->           <-- XOFF, XON
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from softswitch.core import PortState, Scheduler, Session, SwitchCore
from tests.softswitch.lanes import (
    EVER,
    LOSSLESS,
    SECOND,
    Wire,
    in_class,
    ip_frame,
    pauses,
    pfc_frame,
    port_100g,
    read_pause,
    same_class,
    wire_ps,
)
from topologies.buffers import headroom_of

RATE = 100_000_000_000
QUANTUM_PS = 512 * SECOND // RATE
US = 1_000_000
PFC_PS = wire_ps(60, RATE)


@pytest.fixture
def make(six_ports: Callable[..., SwitchCore]) -> Callable[..., SwitchCore]:
    def make_open(**config: int) -> SwitchCore:
        core = six_ports(**config)
        core.configure_buffer(same_class(shared_bytes=10_000_000))
        return core

    return make_open


def data_times(core: SwitchCore, until: int = EVER) -> list[tuple[int, int]]:
    """(queue, time) of what came out at port 1."""
    core.advance(min(until, SECOND))
    outs = core.take_output(until)
    return [(o.data[4], o.at_ps) for o in outs if o.port == 1 and read_pause(o) is None]


# --- pauses that a port is asked for -----------------------------------------------------------


@pytest.mark.parametrize("quanta", [1, 10, 0xFFFF])
def test_a_pause_lasts_its_quanta(make: Any, quanta: int) -> None:
    core = make()
    core.inject(1, pfc_frame({3: quanta}), 1000)
    core.inject(2, ip_frame(100, dscp=3, queue=3), 1000)
    end = 1000 + quanta * QUANTUM_PS
    assert data_times(core) == [(3, end + wire_ps(100, RATE))]
    stats = core.pfc_stats(1)
    assert (stats.xoff_received[3], stats.paused_ps[3]) == (1, end - 1000)
    assert core.port_stats(1).rx_packets == 0  # the pipeline never saw it


def test_xon_ends_a_pause_and_a_second_xoff_begins_it_anew(make: Any) -> None:
    core = make()
    core.inject(1, pfc_frame({3: 1000}), 0)
    core.inject(2, ip_frame(100, dscp=3, queue=3), 0)
    core.inject(1, pfc_frame({3: 1000}), 900 * QUANTUM_PS)  # until 1900, not 1000 or 2000
    core.inject(2, ip_frame(100, dscp=3, queue=3), 1899 * QUANTUM_PS)
    slot = wire_ps(100, RATE)
    assert [at for _, at in data_times(core)] == [
        1900 * QUANTUM_PS + slot,
        1900 * QUANTUM_PS + 2 * slot,
    ]
    at = 2 * SECOND
    core.inject(1, pfc_frame({3: 1000}), at)
    core.inject(2, ip_frame(100, dscp=3, queue=3), at)
    core.inject(1, pfc_frame({3: 0}), at + 12345)
    core.advance(at + US)
    (out,) = core.take_output(EVER)
    assert out.at_ps == at + 12345 + slot
    stats = core.pfc_stats(1)
    assert (stats.xoff_received[3], stats.xon_received[3]) == (3, 1)
    assert stats.paused_ps[3] == 1900 * QUANTUM_PS + 12345


def test_what_is_on_the_wire_goes_on_and_other_classes_too(make: Any) -> None:
    core = make()
    core.schedule_port(1, Scheduler.of_weights({1: 1, 3: 3}))
    slot = wire_ps(1000, RATE)
    for _ in range(40):
        for queue in (1, 3):
            core.inject(2, ip_frame(1000, dscp=queue, queue=queue), 0)
    core.inject(1, pfc_frame({3: 0xFFFF, 5: 7}), slot // 2)
    core.inject(1, pfc_frame({3: 0}), 20 * slot)
    sent = data_times(core)
    assert [at for _, at in sent] == [n * slot for n in range(1, 81)]  # never idle
    assert {queue for queue, _ in sent[1:20]} == {1}
    shares = Counter(queue for queue, _ in sent[22:46])
    assert abs(shares[3] - 3 * shares[1]) <= 4  # three to one, as before


def test_a_port_that_went_down_is_paused_by_nobody(make: Any) -> None:
    core = make()
    core.inject(1, pfc_frame({3: 0xFFFF}), 0)
    core.set_port(1, PortState.DOWN, now_ps=1000)
    core.set_port(1, PortState.UP, now_ps=2000)
    core.inject(2, ip_frame(100, dscp=3, queue=3), 2000)
    assert data_times(core) == [(3, 2000 + wire_ps(100, RATE))]
    assert core.pfc_stats(1).paused_ps[3] == 1000


# --- pauses that a port asks for ---------------------------------------------------------------


def congest(core: SwitchCore, port: int, at: int, size: int = 2000, dscp: int = LOSSLESS) -> None:
    core.inject(port, ip_frame(size, dscp=dscp), at)


def test_xoff_leaves_behind_the_frame_on_the_wire_and_before_all_that_waits(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(alpha_q8=(256,) * 3 + (1,) + (256,) * 4))
    core.set_port(1, PortState.BLOCKED)
    slot = wire_ps(1500, RATE)
    for at in (0, 1):  # the second waits
        core.inject(4, ip_frame(1500, dscp=7, out=2, queue=7), at)
    congest(core, 2, 5)
    core.advance(US)
    found = [(read_pause(o) is not None, o.at_ps) for o in core.take_output(EVER)]
    assert found == [(False, slot), (True, slot + PFC_PS), (False, 2 * slot + PFC_PS)]


def test_xoff_is_said_again_while_it_holds(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=(32,) * 8))
    core.set_port(1, PortState.BLOCKED)
    congest(core, 2, 0)
    period = 0xFFFF * QUANTUM_PS // 16
    core.advance(4 * period)
    assert [p.at_ps for p in pauses(core)] == [n * period + PFC_PS for n in range(5)]
    core.set_port(1, PortState.UP)
    core.advance(9 * period)
    assert [p.quanta[LOSSLESS] for p in pauses(core)] == [0]


def test_a_far_end_ten_times_as_fast_stays_paused(make: Any) -> None:
    """A port degraded to a tenth counts quanta ten times as slowly as who gets them."""
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=(32,) * 8))
    core.configure_port(2, port_100g(rate_bps=RATE // 10))
    core.set_port(1, PortState.BLOCKED)
    congest(core, 2, 0)
    full = 0xFFFF * QUANTUM_PS
    core.advance(5 * full)
    said = [p.at_ps for p in pauses(core)]
    assert len(said) > 5
    assert max(b - a for a, b in pairwise(said)) + wire_ps(9014, RATE // 10) < full


def test_a_class_that_comes_and_goes_does_not_put_off_anothers_refresh(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(alpha_q8=(4,) * 8, lossless=0b11000))
    core.set_port(1, PortState.BLOCKED)
    congest(core, 2, 0, dscp=3)
    full = 0xFFFF * QUANTUM_PS
    for n in range(1, 40):
        core.set_port(6, PortState.BLOCKED, now_ps=n * full // 10)
        core.inject(2, ip_frame(2000, dscp=4, out=6), n * full // 10)
        core.set_port(6, PortState.UP, now_ps=n * full // 10 + US)
    said = [p.at_ps for p in pauses(core) if p.quanta.get(3)]
    assert max(b - a for a, b in pairwise(said)) <= full // 16 + 3 * PFC_PS


def test_a_port_that_comes_up_says_its_pauses_again(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=(32,) * 8))
    core.set_port(1, PortState.BLOCKED)
    congest(core, 2, 0)
    core.set_port(2, PortState.DOWN, now_ps=US)
    core.set_port(2, PortState.UP, now_ps=2 * US)
    assert [p.at_ps for p in pauses(core)] == [PFC_PS, 2 * US + PFC_PS]


def test_a_pause_and_its_own_ports_data_do_not_overlap(make: Any) -> None:
    """A frame leaves where it came from; its egress clone waits and makes that port say XOFF."""
    core = make()
    core.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=(32,) * 8))
    core.set_port(1, PortState.BLOCKED)
    core.clone_session_set(5, Session(egress_port=1, port_valid=True))
    core.inject(2, ip_frame(2000, dscp=LOSSLESS, out=2, clone=5), 0)
    core.inject(4, ip_frame(500, dscp=0, out=2), 0)
    core.advance(US)
    outs = sorted(core.take_output(EVER), key=lambda o: o.at_ps)
    assert len(outs) == 3
    for before, after in pairwise(outs):
        assert after.at_ps - before.at_ps >= wire_ps(len(after.data), RATE)


def test_a_controller_is_sent_no_pauses(make: Any) -> None:
    core = make(cpu_port=5)
    core.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=(32,) * 8))
    core.set_port(1, PortState.BLOCKED)
    congest(core, 5, 0)
    congest(core, 5, 1)
    core.advance(SECOND // 100)
    assert core.take_output(EVER) == []
    assert core.pfc_stats(5).drop_headroom[LOSSLESS] == 1


# --- the watchdog ------------------------------------------------------------------------------


def test_the_watchdog_drops_what_waits_too_long_until_the_pause_is_over(make: Any) -> None:
    core = make()
    patience, restore = 100 * US, 50 * US
    core.configure_buffer(same_class(watchdog_ps=patience, watchdog_restore_ps=restore))
    for n in range(4):  # XOFF without end: 335 us each
        core.inject(1, pfc_frame({3: 0xFFFF}), n * 300 * US)
        if n == 0:
            for _ in range(3):
                core.inject(2, ip_frame(1000, dscp=3, queue=3), 10)
            core.advance(patience - 1)
            assert core.pfc_stats(1).watchdog_events[3] == 0
            assert core.pfc_stats(2).bytes[3] == 3000
            core.advance(patience)
            assert core.pfc_stats(1).watchdog_events[3] == 1
            assert core.pfc_stats(1).watchdog_drops[3] == 3
            assert core.pfc_stats(2).bytes[3] == 0
            assert core.buffer_stats().used_bytes == 0
    core.inject(2, ip_frame(1000, dscp=3, queue=3), 950 * US)
    core.inject(2, ip_frame(1000, dscp=1, queue=1), 950 * US)  # another queue
    core.inject(1, pfc_frame({3: 0}), 1000 * US)
    core.inject(2, ip_frame(1000, dscp=3, queue=3), 1000 * US + restore - 1)
    core.inject(2, ip_frame(1000, dscp=3, queue=3), 1000 * US + restore)
    slot = wire_ps(1000, RATE)
    assert data_times(core) == [(1, 950 * US + slot), (3, 1000 * US + restore + slot)]
    stats = core.pfc_stats(1)
    assert (stats.watchdog_events[3], stats.watchdog_drops[3]) == (1, 5)
    assert stats.paused_ps[3] == 1000 * US


def test_the_watchdog_leaves_short_pauses_alone(make: Any) -> None:
    core = make()
    core.configure_buffer(same_class(watchdog_ps=100 * US, watchdog_restore_ps=0))
    core.inject(2, ip_frame(1000, dscp=3, queue=3), 0)
    for n in range(20):
        core.inject(1, pfc_frame({3: 0xFFFF}), n * 100 * US)
        core.inject(1, pfc_frame({3: 0}), n * 100 * US + 99 * US)
        core.inject(2, ip_frame(1000, dscp=3, queue=3), n * 100 * US)
    assert len(data_times(core)) == 21
    assert core.pfc_stats(1).watchdog_events[3] == 0


# --- a wire ------------------------------------------------------------------------------------


def long_wire(
    make: Any, *, delay_ps: int, rate: int, frame: int, backlog: int, reverse: int = 0
) -> Wire:
    """Return a sender with a backlog of `backlog` bytes, a receiver that can't send it on.

    `reverse`: so many frames go the other way, each begun just before one arrives.
    """
    sender, receiver = make(), make()
    port = port_100g(rate_bps=rate, tx_delay_ps=delay_ps)
    sender.configure_port(1, port)
    receiver.configure_port(2, port)
    receiver.set_port(1, PortState.BLOCKED)
    sender.configure_buffer(same_class(shared_bytes=1 << 40))
    sender.set_port(1, PortState.BLOCKED)
    data = ip_frame(60, dscp=LOSSLESS, out=1, queue=LOSSLESS)
    for _ in range(backlog // frame):
        sender.inject(4, data, 0, tail_length=frame - 60, tail_seed=1)
    sender.set_port(1, PortState.UP)
    slot = wire_ps(frame, rate)
    phase = (delay_ps + slot - 1) % slot
    back = ip_frame(frame, dscp=0, out=2, queue=0)
    return Wire(
        (sender, receiver),
        (1, 2),
        delay_ps,
        ([], [(phase + n * slot, 5, back) for n in range(reverse)]),
    )


@dataclass(frozen=True)
class Worst:
    """A wire with the worst phases: XOFF waits for a whole frame, and meets one just begun."""

    delay_ps: int
    rate: int
    frame: int

    @classmethod
    def near(cls, metres: int, rate: int, frame: int) -> Worst:
        """5 ns a metre and up to half a frame's time more."""
        delay, slot = metres * 5000, wire_ps(frame, rate)
        return cls(delay + (2 - wire_ps(60, rate) - 2 * delay) % slot // 2, rate, frame)

    @property
    def frames(self) -> int:
        """Frames that end after the decision: in 2 x delay x rate + 2 MTU + a PFC frame."""
        slot = wire_ps(self.frame, self.rate)
        return (2 * self.delay_ps + wire_ps(60, self.rate) - 1) // slot + 2

    @property
    def plain(self) -> int:
        """2 x delay x rate + 2 frames."""
        return 2 * self.delay_ps * self.rate // (8 * SECOND) + 2 * self.frame

    def wire(self, make: Any) -> Wire:
        """With more waiting at the sender than can come."""
        more = (self.frames + 40) * self.frame
        until = self.until_ps // wire_ps(self.frame, self.rate)
        return long_wire(
            make,
            delay_ps=self.delay_ps,
            rate=self.rate,
            frame=self.frame,
            backlog=more,
            reverse=until,
        )

    @property
    def until_ps(self) -> int:
        return 3 * self.delay_ps + 60 * wire_ps(self.frame, self.rate)


WORST = [
    Worst.near(20, 100 * 10**9, 1514),
    Worst.near(100, 400 * 10**9, 4110),
    Worst.near(100, 100 * 10**9, 9014),
    Worst.near(1000, 400 * 10**9, 1514),
    Worst.near(10_000, 100 * 10**9, 4110),
    Worst.near(100, 100 * 10**9, 60),
]


@pytest.mark.parametrize("worst", WORST, ids=repr)
def test_what_comes_after_xoff_is_known_to_the_frame(make: Any, worst: Worst) -> None:
    frame = worst.frame

    def run(headroom: int) -> Any:
        wire = worst.wire(make)
        receiver = wire.ends[1]
        # The first frame reaches the threshold.
        alpha = tuple(1 if c == LOSSLESS else 256 for c in range(8))
        receiver.configure_buffer(same_class(shared_bytes=10_000, alpha_q8=alpha))
        receiver.set_headroom(2, in_class(headroom))
        wire.run(worst.until_ps)
        return receiver.pfc_stats(2)

    needed = worst.frames * frame
    assert needed <= headroom_of(worst.delay_ps, worst.rate, frame) - frame
    stats = run(needed)
    assert stats.drop_headroom == (0,) * 8
    assert stats.most_bytes[LOSSLESS] == frame + needed
    assert run(needed - 1).drop_headroom[LOSSLESS] == 1


def test_two_frames_are_too_few_on_a_short_wire() -> None:
    """XOFF's own time on the wire is 84 B that 2 x delay x rate + 2 MTU leaves out."""
    short = Worst.near(20, 100 * 10**9, 9014)
    assert short.frames * short.frame > short.plain


def test_a_threshold_that_falls_costs_one_frame_more(make: Any) -> None:
    """Others fill the pool: the frame that then makes the port say XOFF is in the headroom."""
    worst = Worst.near(100, RATE, 9014)
    wire = worst.wire(make)
    receiver = wire.ends[1]
    alpha = tuple(1 << 20 if c == 1 else 256 for c in range(8))
    receiver.configure_buffer(same_class(shared_bytes=1_000_000, alpha_q8=alpha))
    receiver.set_headroom(2, in_class(1 << 30))
    when = worst.delay_ps + 20 * wire_ps(worst.frame, RATE) + 1
    wire.others[1].extend([(when, 4, ip_frame(9000, dscp=1, queue=1))] * 110)
    wire.others[1].sort(key=lambda other: other[0])
    wire.run(worst.until_ps)
    in_headroom = receiver.pfc_stats(2).most_bytes[LOSSLESS] - 20 * worst.frame
    assert in_headroom == (worst.frames + 1) * worst.frame
    assert worst.plain + worst.frame < in_headroom
    assert in_headroom <= headroom_of(worst.delay_ps, RATE, worst.frame)


def after_xoff(wire: Wire, decided: int) -> int:
    """Wire bytes of data that arrived after the receiver's decision."""
    late = [length for at, length, pause in wire.arrived if at > decided and not pause]
    return sum(length + 24 for length in late)


def test_a_hundred_kilometres_at_400g_bring_fifty_megabytes_after_xoff(make: Any) -> None:
    """2 x delay x rate = 2 x 0.5 ms x 50 GB/s = 50 MB = 47.68 MiB, within 2 MTU on the wire."""
    delay, speed, frame = 500 * US, 400 * 10**9, 4110
    wire = long_wire(make, delay_ps=delay, rate=speed, frame=frame, backlog=60_000_000)
    receiver = wire.ends[1]
    receiver.configure_buffer(same_class(shared_bytes=1_000_000))
    receiver.set_headroom(2, in_class(headroom_of(delay, speed, frame)))
    wire.run(4 * delay)
    decided = wire.sent_back[0].at_ps - delay - wire_ps(60, speed)
    on_the_wire = after_xoff(wire, decided)
    assert abs(on_the_wire - 50_000_000) <= 2 * (frame + 24)
    assert receiver.pfc_stats(2).drop_headroom == (0,) * 8
