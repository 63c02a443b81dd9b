"""Programs on the engine's hosts: exact times, queues, pauses, real payload, what is refused.

h1 --- switch --- h2 (100 Gb/s, 1 us each way)     or two hosts on one link, without a switch
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hostagent.programs.frames import HEADERS, datagram_of, udp_frame
from hostagent.programs.program import Frame, Host, Interface, Program, ProgramError
from simulator.core import Stop
from simulator.core.records import Receiver, ScriptFrame
from softswitch.core import PortImpair
from tests.hostagent.stop_and_wait import Sender, Taker
from tests.hostagent.vector_sum import LANES, Adder, Worker, numbers
from tests.simulator.conftest import DELAY, Net

PS_PER_NS = 1000
SLOT = 80  # ps a byte at 100 Gb/s
ALWAYS = 1 << 32


def wire(payload: int) -> int:
    """Return the time of a datagram on a wire, in ps."""
    return max(84, HEADERS + payload + 24) * SLOT


def addresses(hosts: list[int]) -> dict[str, int]:
    return {f"h{number}": 0x0A000000 + node for number, node in enumerate(hosts, start=1)}


class Recorder(Program):
    """Does what a test says when it starts, and notes what it is called for."""

    def __init__(self, at_start: Callable[[Host], None] = lambda host: None, port: int = 0) -> None:
        self.at_start, self.port = at_start, port
        self.frames: list[tuple[int, bytes]] = []
        self.timers: list[tuple[int, int]] = []
        self.interfaces: list[int] = []
        self.ended_ns: int | None = None

    def started(self, host: Host) -> None:
        if self.port:
            host.listen_udp(self.port)
        self.at_start(host)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        self.frames.append((now_ns, frame.data))

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        self.timers.append((now_ns, token))

    def stopped(self, host: Host) -> None:
        self.ended_ns = host.now_ns


def pair(net: Net) -> tuple[int, int]:
    """Two hosts on one link."""
    a, b = net.host(), net.host()
    net.link(a, b)
    return a, b


def sends(payloads: list[bytes], to: int, dscp: int = 0) -> Callable[[Host], None]:
    def start(host: Host) -> None:
        for payload in payloads:
            assert host.send(udp_frame(host.interfaces[0], to, 1, 9000, payload, dscp=dscp))

    return start


# --- exact times ------------------------------------------------------------------------------


def test_stop_and_wait_takes_a_round_trip_a_message(net: Net) -> None:
    hosts, _ = net.star(2)
    sender, taker = Sender("h2", messages=20), Taker()
    programs = net.engine.programs
    first = programs.add(hosts[0], sender, addresses=addresses(hosts))
    second = programs.add(hosts[1], taker)
    programs.start()
    assert net.engine.run(to_the_end=True) is Stop.DONE
    round_trip = 2 * wire(100) + 2 * wire(4) + 4 * DELAY
    assert sender.answered_ns == [(n + 1) * round_trip // PS_PER_NS for n in range(20)]
    assert net.engine.now == 20 * round_trip
    assert taker.taken == list(range(20))
    assert programs.counters(first) == {"answered": 20}
    assert programs.counters(second) == {"taken": 20}
    assert net.engine.totals().received_other == 0


def test_a_program_s_clock_runs_in_fabric_time(net: Net) -> None:
    hosts, _ = net.star(2)
    sender = Sender("h2", messages=3, timeout_ns=50)
    net.engine.programs.add(hosts[0], sender, addresses=addresses(hosts))
    net.engine.programs.add(hosts[1], Taker())
    net.engine.programs.start(time_scale=100)
    net.engine.run(to_the_end=True)
    round_trip = 2 * wire(100) + 2 * wire(4) + 4 * DELAY
    assert sender.answered_ns == [(n + 1) * round_trip // PS_PER_NS // 100 for n in range(3)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_message_arrives_once_over_a_lossy_link(
    new_net: Callable[[int], Net], seed: int
) -> None:
    ends = []
    for _ in range(2):
        net = new_net(seed)
        hosts, _ = net.star(2)
        sender, taker = Sender("h2", messages=200), Taker()
        for host in hosts:
            net.engine.impair_host_port(host, 0, PortImpair(loss=ALWAYS // 5))
        number = net.engine.programs.add(hosts[0], sender, addresses=addresses(hosts))
        other = net.engine.programs.add(hosts[1], taker)
        net.engine.programs.start()
        assert net.engine.run(to_the_end=True) is Stop.DONE
        assert taker.taken == list(range(200))
        counted, seen = (net.engine.programs.counters(each) for each in (number, other))
        assert counted["answered"] == 200
        assert counted["repeated"] > 50 and seen["seen before"] > 10
        # Each repetition costs the timer, each message its round trip, and nothing else does.
        round_trip = 2 * wire(100) + 2 * wire(4) + 4 * DELAY
        assert net.engine.now == 200 * round_trip + counted["repeated"] * 100_000 * PS_PER_NS
        ends.append((net.engine.now, counted, seen))
    assert ends[0] == ends[1]


# --- timers -----------------------------------------------------------------------------------


def test_timers_come_in_order_of_time_and_then_of_being_set(net: Net) -> None:
    a, _ = pair(net)

    def start(host: Host) -> None:
        host.set_timer(5, 100)
        host.set_timer(3, 100)
        host.set_timer(4, 50)
        host.set_timer(5, 100)  # set again: behind the other one
        host.set_timer(9, 10)
        host.set_timer(9, 300)  # later
        host.set_timer(9, 200)  # sooner than that
        host.set_timer(6, 500)
        host.set_timer(6, 20)  # sooner
        host.set_timer(7, 70)
        host.cancel_timer(7)
        host.cancel_timer(60_000)  # never set
        host.set_timer(65_535, 1_000)

    program = Recorder(start)
    net.engine.programs.add(a, program)
    net.engine.programs.start()
    assert net.engine.run(to_the_end=True) is Stop.DONE
    expected = [(20, 6), (50, 4), (100, 3), (100, 5), (200, 9), (1_000, 65_535)]
    assert program.timers == expected
    assert net.engine.now == 1_000 * PS_PER_NS


def test_a_timer_may_be_set_again_in_its_own_call_and_past_ones_come_now(net: Net) -> None:
    a, _ = pair(net)

    class Ticking(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            super().timer(host, token, now_ns)
            if len(self.timers) < 4:
                host.set_timer(token, now_ns + 30 if len(self.timers) < 3 else 1)

    program = Ticking(lambda host: host.set_timer(1, 10))
    net.engine.programs.add(a, program)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert program.timers == [(10, 1), (40, 1), (70, 1), (70, 1)]


def test_timers_that_move_at_each_packet_are_bounded(net: Net) -> None:
    """A timer that is moved to later each nanosecond comes once, when it is left alone."""
    a, _ = pair(net)

    class Moving(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            super().timer(host, token, now_ns)
            if token == 0 and now_ns < 2_000:
                host.set_timer(1, now_ns + 500)
                host.set_timer(0, now_ns + 1)

    program = Moving(lambda host: host.set_timer(0, 1))
    net.engine.programs.add(a, program)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert program.timers == [*((n, 0) for n in range(1, 2_001)), (1_999 + 500, 1)]
    assert net.engine.totals().events < 2_010  # one entry that follows, not one a move


# --- sending ----------------------------------------------------------------------------------


def test_frames_leave_at_line_rate_in_order(net: Net) -> None:
    a, b = pair(net)
    payloads = [bytes([n]) * (100 + n) for n in range(50)]
    taker = Recorder(port=9000)
    net.engine.programs.add(a, Recorder(sends(payloads, 0x0A000000 + b)))
    net.engine.programs.add(b, taker)
    net.engine.tap(a, 0)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    ends = np.cumsum([wire(len(each)) for each in payloads])
    assert [row.at for row in net.engine.take_tapped()] == ends.tolist()
    assert [at for at, _ in taker.frames] == ((ends + DELAY) // PS_PER_NS).tolist()
    found = [datagram_of(frame) for _, frame in taker.frames]
    assert [each.payload for each in found if each is not None] == payloads
    stats = net.engine.host_port_stats(a, 0)
    assert (stats.tx_packets, stats.queue_packets, stats.queue_bytes) == (50, 0, 0)


def pause(classes: dict[int, int]) -> bytes:
    """Return a PFC frame: quanta by class."""
    frame = bytes.fromhex("0180c2000001 020000000001 8808 0101".replace(" ", ""))
    frame += sum(1 << each for each in classes).to_bytes(2, "big")
    frame += b"".join(classes.get(each, 0).to_bytes(2, "big") for each in range(8))
    return frame.ljust(60, b"\0")


def test_a_pause_stops_the_class_of_a_program_s_frames_and_no_other(net: Net) -> None:
    a, b = pair(net)
    net.engine.add_script([(b, 0, 0, pause({3: 1000}))])  # 1000 x 512 bits: 5.12 us
    paused_at = 84 * SLOT + DELAY

    class Later(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            for dscp, payload in ((26, b"paused"), (0, b"free")):
                sends([payload], 0x0A000000 + b, dscp)(host)

    queues = [3 if dscp == 26 else 0 for dscp in range(64)]
    taker = Recorder(port=9000)
    net.engine.programs.add(a, Later(lambda host: host.set_timer(0, 2_000)))
    net.engine.programs.add(b, taker)
    net.engine.programs.start(queue_of_dscp=queues)
    net.engine.run(to_the_end=True)
    free = 2_000 * PS_PER_NS + 84 * SLOT + DELAY
    held = paused_at + 5_120_000 + 84 * SLOT + DELAY
    assert [at for at, _ in taker.frames] == [free // PS_PER_NS, held // PS_PER_NS]
    assert b"free" in taker.frames[0][1] and b"paused" in taker.frames[1][1]


def test_programs_and_flows_of_a_queue_take_turns_and_a_higher_queue_comes_first(net: Net) -> None:
    a, b = pair(net)
    flow = net.flow(a, b, queue=2, payload=1024)
    net.messages([{"flow": flow, "bytes": 4 * 1024}])

    def start(host: Host) -> None:
        to = 0x0A000000 + b
        sends([b"same"] * 3, to, dscp=2)(host)
        sends([b"high"] * 2, to, dscp=5)(host)

    net.engine.programs.add(a, Recorder(start))
    net.engine.tap(a, 0)
    net.engine.programs.start(queue_of_dscp=[dscp % 8 for dscp in range(64)])
    net.engine.run(to_the_end=True)
    order = []
    for row in net.engine.take_tapped():
        program = next((each for each in (b"same", b"high") if each in row.data), b"flow")
        order.append(program.decode())
    assert order[:2] == ["high", "high"]
    assert sorted(order[2:]) == ["flow"] * 4 + ["same"] * 3
    assert order[2:8] in (["flow", "same"] * 3, ["same", "flow"] * 3)


def test_a_link_that_is_down_holds_frames_until_it_is_up(net: Net) -> None:
    a, b = net.host(), net.host()
    link = net.link(a, b)
    taker = Recorder(port=9000)
    net.engine.programs.add(a, Recorder(lambda host: host.set_timer(0, 1_000)))
    net.engine.programs.add(b, taker)
    net.engine.set_link(link, False)

    class Late(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            sends([b"x" * 42], 0x0A000000 + b)(host)

    net.engine.programs.add(a, Late(lambda host: host.set_timer(0, 1_000)))
    net.engine.programs.start()
    net.engine.run(5_000 * PS_PER_NS)
    assert not taker.frames
    net.engine.set_link(link, True)
    net.engine.run(to_the_end=True)
    assert [at for at, _ in taker.frames] == [(5_000_000 + wire(42) + DELAY) // PS_PER_NS]


def test_too_many_frames_that_wait_are_refused(net: Net) -> None:
    a, b = pair(net)
    taken: list[bool] = []

    def start(host: Host) -> None:
        frame = udp_frame(host.interfaces[0], 0x0A000000 + b, 1, 2, b"")
        taken.extend(host.send(frame) for _ in range(65_540))

    net.engine.programs.add(a, Recorder(start))
    net.engine.programs.start()
    assert taken == [True] * 65_536 + [False] * 4


# --- what arrives -----------------------------------------------------------------------------


def test_a_third_host_adds_up_real_payload(net: Net) -> None:
    hosts, _ = net.star(4)
    workers = [Worker("h4", rank=rank) for rank in (1, 2, 3)]
    adder = Adder(workers=3)
    for node, program in zip(hosts, [*workers, adder], strict=True):
        net.engine.programs.add(node, program, addresses=addresses(hosts))
    net.engine.programs.start()
    assert net.engine.run(to_the_end=True) is Stop.DONE
    expected = sum((numbers(rank) for rank in (1, 2, 3)), np.zeros(LANES, dtype=np.int32))
    for worker in workers:
        assert worker.sum is not None and worker.sum.tolist() == expected.tolist()
    # The first bit of all three to the last of the last sum: the adder's link carries each of them.
    one = wire(4 * LANES)
    assert net.engine.now == one + DELAY + 3 * one + DELAY + 3 * one + DELAY + one + DELAY


def test_a_tail_is_written_out_for_a_program(net: Net) -> None:
    a, b = pair(net)
    whole = udp_frame(_interface(a), 0x0A000000 + b, 1, 9000, bytes(1000))
    net.engine.add_script([ScriptFrame(a, 0, 0, whole[:HEADERS], 1000, 77)])
    core = net.engine.new_core()
    taker = Recorder(port=9000)
    net.engine.programs.add(b, taker)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert [frame for _, frame in taker.frames] == [whole[:HEADERS] + core.payload(77, 1000)]


def _interface(node: int) -> Interface:
    return Interface(0, 0x020000000000 + node, 0x02FF00000000, 0x0A000000 + node, 4200)


def test_a_program_gets_what_it_listens_to_and_nothing_else(net: Net) -> None:
    a, b = pair(net)
    to = 0x0A000000 + b
    other = udp_frame(_interface(a), to, 9000, 9001, b"another port")
    fragment = bytearray(udp_frame(_interface(a), to, 9000, 9000, b"fragment"))
    fragment[20] = 0x20
    short = bytearray(udp_frame(_interface(a), to, 9000, 9000, b"cut off"))
    short[38:40] = (200).to_bytes(2, "big")
    mine = udp_frame(_interface(a), to, 9000, 9000, b"mine")
    typed = bytes(12) + b"\x88\xb5" + b"typed".ljust(46)
    frames = [other, bytes(fragment), bytes(short), mine, typed, bytes(14)]
    net.engine.add_script([(a, 0, n, frame) for n, frame in enumerate(frames)])
    taker = Recorder(lambda host: host.listen_ethertype(0x88B5), port=9000)
    net.engine.programs.add(b, taker)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert [frame for _, frame in taker.frames] == [mine, typed]
    assert net.engine.totals().received_other == len(frames) - 2


def test_a_card_s_packets_stay_the_card_s(net: Net) -> None:
    a, b = pair(net)
    flow = net.flow(a, b, payload=1024)
    net.messages([{"flow": flow, "bytes": 4096}])
    taker = Recorder(port=9000)
    net.engine.programs.add(b, taker)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert net.flow_stats(flow)["received_bytes"] == 4096
    assert not taker.frames


def test_a_program_uses_each_interface_of_its_host(net: Net) -> None:
    a, b = net.host(interfaces=2), net.host(interfaces=2)
    for interface in (0, 1):
        net.link((a, interface), (b, interface))

    class Across(Recorder):
        """Sends what comes by one interface on by the other one, twice in all."""

        def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
            super().packet(host, frame, now_ns)
            self.interfaces.append(frame.interface)
            if len(self.interfaces) < 2:
                host.send(frame.data, 1 - frame.interface)

    first, second = Across(sends([b"x"], 0x0A000000 + b), port=9000), Across(port=9000)
    net.engine.programs.add(a, first)
    net.engine.programs.add(b, second)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert (second.interfaces, first.interfaces) == ([0, 0], [1])
    hop = 84 * SLOT + DELAY
    assert net.engine.now == 3 * hop


def test_a_slow_host_hands_frames_to_a_program_at_its_rate(net: Net) -> None:
    a, b = pair(net)
    rate = 10_000_000_000
    net.engine.set_receiver(b, 0, Receiver(rate, 1 << 20, 1 << 20, 1 << 19, 0))
    taker = Recorder(port=9000)
    net.engine.programs.add(a, Recorder(sends([bytes(1000)] * 5, 0x0A000000 + b)))
    net.engine.programs.add(b, taker)
    net.engine.programs.start()
    assert net.engine.run(to_the_end=True) is Stop.DONE  # and not before the last one is taken
    first = wire(1000) + DELAY
    assert [at for at, _ in taker.frames] == [
        (first + (n + 1) * 10 * wire(1000)) // PS_PER_NS for n in range(5)
    ]


def test_several_programs_share_a_host_by_their_ports(net: Net) -> None:
    a, b = pair(net)
    takers = [Recorder(port=port) for port in (9000, 9001, 9002)]
    frames = [
        udp_frame(_interface(a), 0x0A000000 + b, 1, 9000 + n % 4, bytes([n])) for n in range(12)
    ]
    net.engine.add_script([(a, 0, n, frame) for n, frame in enumerate(frames)])
    for each in takers:
        net.engine.programs.add(b, each)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    for n, each in enumerate(takers):
        assert [frame for _, frame in each.frames] == frames[n::4]
    assert net.engine.totals().received_other == 3


def test_who_listens_to_a_port_comes_before_who_listens_to_ipv4(net: Net) -> None:
    a, b = pair(net)
    to = 0x0A000000 + b
    frames = [udp_frame(_interface(a), to, 1, port, b"x") for port in (9000, 9001, 4791)]
    net.engine.add_script([(a, 0, n, frame) for n, frame in enumerate(frames)])
    all_ = Recorder(lambda host: host.listen_ethertype(0x0800))
    one = Recorder(port=9000)
    net.engine.programs.add(b, all_)
    net.engine.programs.add(b, one)
    net.engine.programs.start()
    net.engine.run(to_the_end=True)
    assert [frame for _, frame in one.frames] == frames[:1]
    assert [frame for _, frame in all_.frames] == frames[1:]  # RoCEv2 of no queue pair, too


# --- in C -------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay_ns", [0, 700])
def test_echo_answers_after_its_delay(net: Net, delay_ns: int) -> None:
    hosts, _ = net.star(2)
    asking = Recorder(sends([b"hello"], 0x0A000000 + hosts[1]), port=1)
    net.engine.programs.add(hosts[0], asking)
    settings = {"port": 9000, "delay_ns": delay_ns}
    number = net.engine.programs.add(hosts[1], "echo", settings=settings)
    net.engine.programs.start()
    assert net.engine.run(to_the_end=True) is Stop.DONE
    ((at, frame),) = asking.frames
    found = datagram_of(frame)
    assert found is not None
    assert (found.payload, found.source_port, found.port) == (b"hello", 9000, 1)
    assert (found.source, found.to) == (0x0A000000 + hosts[1], 0x0A000000 + hosts[0])
    way = 2 * wire(5) + 2 * DELAY
    left = (way // PS_PER_NS + delay_ns) * PS_PER_NS if delay_ns else way  # timers are whole ns
    assert at == (left + way) // PS_PER_NS
    assert net.engine.programs.counters(number) == {"answered": 1}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"port": 0}, "echo on h1 at 0 ns: port: a UDP port is a number from 1 to 65535"),
        ({"port": 4791}, "other than RoCEv2's 4791"),
        ({"delay_ns": -1}, "delay_ns: a delay is not below 0"),
        ({"speed": 1}, "echo has no setting speed"),
        ({"port": "x"}, "port has to be a whole number, not 'x'"),
    ],
)
def test_settings_of_a_program_in_c_are_checked(
    net: Net, settings: dict[str, Any], why: str
) -> None:
    a, _ = pair(net)
    with pytest.raises(ProgramError, match=why):
        net.engine.programs.add(a, "echo", host="h1", settings=settings)
        net.engine.programs.start()


# --- what is refused --------------------------------------------------------------------------


REFUSED: list[tuple[Callable[[Host], object], str]] = [
    (lambda host: host.listen_udp(4791), "UDP port 4791: RoCEv2's port is the card's"),
    (lambda host: host.listen_udp(0), "UDP port 0: UDP ports and EtherTypes are numbers"),
    (lambda host: host.listen_ethertype(1 << 16), "EtherType 0x10000: UDP ports"),
    (lambda host: host.send(bytes(13)), "a frame of 13 bytes: a frame has 14 bytes"),
    (lambda host: host.send(bytes(4215)), "a frame of 4215 bytes"),
    (lambda host: host.send(bytes(60), 1), "interface 1: the host has no such interface"),
    (lambda host: host.send(bytes(60), -1), "interface -1: the host has no such interface"),
    (lambda host: host.set_timer(65_536, 0), "timer 65536 at 0 ns: a timer's token"),
    (lambda host: host.set_timer(-1, 0), "timer -1: a timer's token"),
    (lambda host: host.set_timer(0, -1), "timer 0 at -1 ns: a time is not before the start"),
    (lambda host: host.set_timer(0, 1 << 62), "a time is not before the start, nor later"),
    (lambda host: host.set_timer(0, 1 << 70), "a time is not before the start, nor later"),
    (lambda host: host.cancel_timer(65_536), "timer 65536: a timer's token"),
    (lambda host: host.count("x", -1), "counter x: -1 is below 0"),
]


@pytest.mark.parametrize(("call", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_program_is_told_what_its_host_refuses(
    net: Net, call: Callable[[Host], object], why: str
) -> None:
    a, _ = pair(net)
    seen: list[str] = []

    def start(host: Host) -> None:
        try:
            call(host)
        except ProgramError as error:
            seen.append(str(error))

    net.engine.programs.add(a, Recorder(start))
    net.engine.programs.start()
    assert seen and why in seen[0]
    assert net.engine.run(to_the_end=True) is Stop.DONE  # it was only refused


def test_two_programs_of_a_host_cannot_listen_to_one_port(net: Net) -> None:
    a, b = pair(net)
    net.engine.programs.add(a, Recorder(port=9000), title="first", host="h1")
    net.engine.programs.add(b, Recorder(port=9000), title="elsewhere", host="h2")
    net.engine.programs.add(a, Recorder(port=9000), title="second", host="h1")
    with pytest.raises(ProgramError, match="second on h1 at 0 ns: UDP port 9000: another program"):
        net.engine.programs.start()


def test_an_exception_ends_the_run_with_program_host_and_time(net: Net) -> None:
    a, _ = pair(net)

    class Broken(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            raise ZeroDivisionError("by\nzero")

    program = Broken(lambda host: host.set_timer(0, 1_234))
    other = Recorder(lambda host: host.set_timer(0, 5_000))
    net.engine.programs.add(a, program, title="broken", host="h1")
    net.engine.programs.add(a, other)
    net.engine.programs.start()
    for _ in range(2):  # and no later run goes on
        with pytest.raises(ProgramError) as caught:
            net.engine.run(to_the_end=True)
        told = str(caught.value)
        assert told.startswith("broken on h1 at 1234 ns: ZeroDivisionError: by zero (test_programs")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert net.engine.now == 1_234 * PS_PER_NS and not other.timers


def test_ctrl_c_in_a_program_is_ctrl_c(net: Net) -> None:
    a, _ = pair(net)

    class Interrupted(Recorder):
        def timer(self, host: Host, token: int, now_ns: int) -> None:
            raise KeyboardInterrupt

    net.engine.programs.add(a, Interrupted(lambda host: host.set_timer(0, 1)))
    net.engine.programs.start()
    with pytest.raises(KeyboardInterrupt):
        net.engine.run(to_the_end=True)


def test_programs_are_added_to_hosts_before_they_start(net: Net) -> None:
    hosts, switch = net.star(1)
    programs = net.engine.programs
    with pytest.raises(ProgramError, match=f"node {switch} is no host"):
        programs.add(switch, Recorder())
    with pytest.raises(ProgramError, match="node 99 is no host"):
        programs.add(99, Recorder())
    with pytest.raises(ProgramError, match="no program 'nothing' in C"):
        programs.add(hosts[0], "nothing")
    with pytest.raises(ProgramError, match="there are no programs"):
        programs.start()
    program = Recorder()
    programs.add(hosts[0], program)
    programs.start()
    with pytest.raises(ProgramError, match="programs have started"):
        programs.add(hosts[0], Recorder())
    with pytest.raises(ProgramError, match="programs have started"):
        programs.start()
    net.engine.run(until=3_000)
    programs.stop()
    programs.stop()
    assert program.ended_ns == 3
