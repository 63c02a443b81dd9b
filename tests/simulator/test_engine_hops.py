"""Records of hops as the engine keeps them, from packets that a test has written into.

a -- b      a cable; what "switches" wrote is in the frames that a's script sends again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocols.path_telemetry import SENT_BYTES, WRAPS, record
from protocols.telemetry import appended, has_telemetry
from simulator.core import EngineError, Stop
from simulator.core.binding import Transport
from simulator.core.records import ScriptFrame
from tests.simulator.conftest import DELAY, RATE, Net

US = 10**6
MTU = 1024
MS = 10**9
Hop = tuple[int, int, int, int]
"""Number, time in ns, what the port has sent in bytes, queue in bytes."""


class Wire:
    """A flow over a cable that collects, and one of its packets to be written into."""

    def __init__(self, net: Net, every_ps: int = US, time_scale: int = 1) -> None:
        self.engine = net.engine
        self.a, b = net.host(), net.host()
        net.link(self.a, b)
        first = self.engine.add_transports([Transport(timeout_ps=MS)])
        self.flow = net.flow(self.a, b, transport=first + 1, payload=MTU)
        assert not self.engine.collecting.collects(self.flow)
        self.engine.collecting.begin([self.flow])
        assert self.engine.collecting.collects(self.flow)
        self.engine.collecting.record([self.flow], every_ps, time_scale)
        self.engine.tap(self.a, 0)
        net.messages([{"flow": self.flow, "bytes": MTU}])
        assert self.engine.run(to_the_end=True) is Stop.DONE
        self.packet = next(each for each in self.engine.take_tapped() if has_telemetry(each.data))
        assert not len(self.engine.collecting.take()), "nobody wrote anything"

    def send(self, *packets: tuple[int, list[Hop]], seed: int = 0) -> list[dict[str, int]]:
        """Send packets so long after now, into which these hops have written; return the rows."""
        frames, now = [], self.engine.now
        for after, hops in packets:
            data = self.packet.data
            for hop, at, sent, queue in hops:
                data = appended(data, bytes(record(hop, 100 * 10**9, at, sent, queue)))
            frames.append(ScriptFrame(self.a, 0, now + after, data, self.packet.tail_length, seed))
        self.engine.add_script(frames)
        self.engine.run(until=now + packets[-1][0] + 20 * US)
        return self.rows()

    def rows(self) -> list[dict[str, int]]:
        rows = self.engine.collecting.take()
        return [{name: int(row[name]) for name in rows.dtype.names} for row in rows]


def steady(hop: int, at: int, rate: int = 1000) -> Hop:
    """Return what a port writes at a time that sends `rate` x 64 bytes a microsecond."""
    return hop, at, at * SENT_BYTES * rate // 1000, 512 * hop


def test_rows_stand_in_the_order_of_hops_with_what_each_wrote(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net())
    start = wire.engine.now
    rows = wire.send((0, [steady(7, 1000), steady(9, 1700), steady(8, 4000)]))
    assert [(row["place"], row["places"], row["hop"]) for row in rows] == [
        (0, 3, 7), (1, 3, 9), (2, 3, 8),
    ]  # fmt: skip
    assert [row["queue_bytes"] for row in rows] == [512 * 7, 512 * 9, 512 * 8]
    assert [row["latency"] for row in rows[1:]] == [700_000, 2_300_000]
    assert {row["used_ps"] for row in rows} == {0}, "there was no packet before"
    assert len({(row["at"], row["sent"], row["flow"]) for row in rows}) == 1
    length = len(wire.packet.data) + 36 + wire.packet.tail_length + 24
    assert rows[0]["at"] == start + DELAY + 8 * length * 10**12 // RATE


def test_the_first_latency_is_from_the_sender_and_wraps(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net())
    sent = 5 * WRAPS * 1000 - 3000  # 3 ns before time in records wraps
    (row,) = wire.send((0, [steady(3, 40)]), seed=sent)
    assert (row["sent"], row["latency"]) == (sent, 43_000)


def test_a_packet_in_an_interval_and_all_of_their_use(new_net: Callable[..., Net]) -> None:
    """Four packets 5 us apart, of which each second one is due: what the others say is in it."""
    wire = Wire(new_net(), every_ps=10 * US)
    rows = wire.send(*((5 * US * n, [steady(4, 5000 * n + 100)]) for n in range(5)))
    assert [row["used_ps"] for row in rows] == [0, 10 * US, 10 * US]
    assert [row["used_bytes"] for row in rows[1:]] == [10_000 * SENT_BYTES] * 2


def test_what_was_overtaken_says_nothing_new(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1)
    rows = wire.send(
        (0, [steady(4, 1000)]), (US, [steady(4, 3000)]), (2 * US, [steady(4, 2000)]),
        (3 * US, [steady(4, 6000)]),
    )  # fmt: skip
    assert [row["used_ps"] for row in rows] == [0, 2 * US, 0, 3 * US]


def test_counters_wrap_and_silence_makes_use_unknown(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1)
    at = WRAPS - 1000
    rows = wire.send((0, [steady(4, at)]), (2 * MS, [steady(4, at + 2_000_000)]))
    assert (rows[1]["used_ps"], rows[1]["used_bytes"]) == (2 * MS, 2_000_000 * SENT_BYTES)
    rows = wire.send((5 * MS, [steady(4, at + 7_000_000)]), (6 * MS, [steady(4, at + 8_000_000)]))
    assert [row["used_ps"] for row in rows] == [0, MS]


def test_packets_that_take_turns_over_paths_know_each_line(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1)
    rows = wire.send(*((US * n, [steady(1 + n % 3, 1000 * n, 500)]) for n in range(9)))
    assert [row["used_ps"] for row in rows] == [0] * 3 + [3 * US] * 6
    assert {row["used_bytes"] for row in rows[3:]} == {1500 * SENT_BYTES}


def test_a_slowed_run_s_times_are_its_own(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1, time_scale=10)
    rows = wire.send((0, [steady(1, 1000), steady(2, 1500)]), (20 * US, [steady(2, 3500)]))
    assert [row["latency"] for row in rows[1:2]] == [5 * US]
    assert rows[2]["used_ps"] == 20 * US


def test_a_very_long_path_keeps_those_next_to_the_receiver(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net())
    rows = wire.send((0, [steady(n, 100 * n) for n in range(1, 64)]))
    assert [row["hop"] for row in rows] == list(range(32, 64))
    assert [row["place"] for row in rows] == list(range(32))
    assert [row["latency"] for row in rows] == [-1] + [100_000] * 31


def test_more_ports_than_are_kept_have_no_use_and_harm_nothing(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1)
    first = wire.send(*((US * n, [steady(1 + n, 1000 * n)]) for n in range(300)))
    again = wire.send(*((US * n, [steady(1 + n, 400_000 + 1000 * n)]) for n in range(300)))
    assert len(first) == len(again) == 300
    assert [bool(row["used_ps"]) for row in again] == [True] * 256 + [False] * 44


def test_frames_that_bring_none_are_passed_over(new_net: Callable[..., Net]) -> None:
    wire = Wire(new_net(), every_ps=1)
    assert wire.send((0, [])) == []
    other = appended(wire.packet.data, bytes(12), format=2)
    frame = ScriptFrame(wire.a, 0, wire.engine.now, other, wire.packet.tail_length, 0)
    wire.engine.add_script([frame])
    wire.engine.run(until=wire.engine.now + 10 * US)
    assert wire.rows() == []


def test_what_is_not_there_is_refused(new_net: Callable[..., Net]) -> None:
    net = new_net()
    a, b = net.host(), net.host()
    net.link(a, b)
    opened = net.flow(a, b, payload=MTU)
    first = net.engine.add_transports([Transport(timeout_ps=MS)])
    flow = net.flow(a, b, transport=first + 1, payload=MTU)
    read = net.flow(a, b, transport=first + 1, payload=MTU, operation=4)
    collecting: Any = net.engine.collecting
    for number, why in ((opened, "no transport"), (99, "no transport"), (read, "READs")):
        assert not collecting.collects(number)
        with pytest.raises(EngineError, match=why):
            collecting.begin([number])
    for arguments in (([], 1, 1), ([flow], 0, 1), ([flow], 1, 0), ([opened], 1, 1), ([99], 1, 1)):
        with pytest.raises(EngineError):
            collecting.record(*arguments)
    collecting.record([flow], 1)
    with pytest.raises(EngineError, match="already"):
        collecting.record([flow], 1)
