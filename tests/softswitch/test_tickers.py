"""The daemon's tickers in real time: every tick comes, at its time, however late the loop is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import CoreError, OutputKind
from softswitch.diagnostics import DiagnosticsClient
from softswitch.options import UsageError, parse
from softswitch.ticker_options import TICKER_PORT, TickerOption
from tests.softswitch.test_switch_daemon import GOLDEN, Running, wait_for
from tests.softswitch.veth_rig import in_namespace, until

CPU = 255
MS = 10**9
BEHIND = 1024
"""Ticks that the loop makes up for."""


def heard(loop: Any, seconds: float) -> list[Any]:
    """Return what comes for the controller within so many seconds."""
    found: list[Any] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        found += loop.wait_events(left)
    return found


def stats_of(loop: Any, ticker: int = 0) -> Any:
    with loop.locked():
        return loop.ticker_stats()[ticker]


def grid(stats: Any) -> int:
    return int(stats.ticks + stats.skipped)


@pytest.mark.root
@in_namespace
def test_ticks_come_with_the_times_of_the_grid(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    """A second of 1 kHz: as many as fit, none twice, each with the time at which it was due."""
    with rig(ports=1, cpu_port=CPU) as r:
        period, offset = MS, 333_333_333
        packet = frame(out=CPU, payload=b"tick")
        ticker = r.loop.add_ticker(TICKER_PORT, packet, period, offset)
        assert ticker == 0
        first = offset + -(-(r.loop.now() - offset) // period) * period
        events = heard(r.loop, 1.0)
        counted, now = stats_of(r.loop), r.loop.now()
        assert {(e.kind, e.port, e.data[32:]) for e in events} == {(OutputKind.CPU, CPU, b"tick")}
        times = [event.at_ps for event in events]
        assert times[0] in (first - period, first)
        assert times == [times[0] + k * period for k in range(len(times))]
        assert (now - times[0]) // period + 1 >= counted.ticks >= len(times) >= 500
        assert (counted.skipped, counted.port) == (0, TICKER_PORT)
        assert (counted.start_ps, counted.period_ps) == (offset, period)
        assert 0 <= counted.late_p50_ps <= counted.late_p99_ps <= counted.late_max_ps
        with r.loop.locked() as core:
            assert core.port_stats(TICKER_PORT).rx_packets >= counted.ticks


@pytest.mark.root
@in_namespace
def test_a_loop_that_comes_late_makes_up_for_all_ticks(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    """300 ticks of two tickers become due while somebody holds the switch."""
    with rig(ports=1, cpu_port=CPU) as r:
        for payload, offset in ((b"a", 0), (b"b", MS // 2)):
            r.loop.add_ticker(TICKER_PORT, frame(out=CPU, payload=payload), 2 * MS, offset)
        with r.loop.locked():
            time.sleep(0.3)
        events = heard(r.loop, 0.2)
        counted = [stats_of(r.loop, ticker) for ticker in (0, 1)]
        times = [event.at_ps for event in events]
        assert times == sorted(times) and len(events) >= 400 // 2
        for payload, offset in ((b"a", 0), (b"b", MS // 2)):
            own = [event.at_ps for event in events if event.data[32:] == payload]
            assert own == [own[0] + k * 2 * MS for k in range(len(own))]
            assert own[0] % (2 * MS) == offset
        assert all(each.skipped == 0 and each.late_max_ps > 250 * MS for each in counted)


@pytest.mark.root
@in_namespace
def test_what_is_too_late_is_skipped_and_counted(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(ports=1, cpu_port=CPU) as r:
        period = MS // 10
        r.loop.add_ticker(TICKER_PORT, frame(out=1), period)
        began = r.loop.now()
        with r.loop.locked():
            time.sleep(0.4)
        until(lambda: stats_of(r.loop).late_max_ps > 0, "ticks after the pause")
        counted, now = stats_of(r.loop), r.loop.now()
        assert counted.skipped >= 4000 - BEHIND - 1
        assert grid(counted) <= (now - began) // period + 1
        # From the grid's first tick to now none is missing in the count.
        goal = (r.loop.now() - began) // period - 1
        until(lambda: grid(stats_of(r.loop)) >= goal, "the count of the grid")


@pytest.mark.root
@in_namespace
def test_ports_and_packets_that_no_ticker_can_have(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(ports=1, cpu_port=CPU) as r:
        wrong: list[tuple[tuple[Any, ...], str]] = [
            ((1, frame(), MS), "ticker at port 1: the port has an interface"),
            ((CPU, frame(), MS), "ticker at port 255: .* the controller's"),
            ((70000, frame(), MS), "ticker at port 70000: the port is out of range"),
            ((TICKER_PORT, frame(), 0), "a period is at least 10 us"),
            ((TICKER_PORT, frame(), 9_999_999), "a period is at least 10 us"),
            ((TICKER_PORT, frame(), MS, -1), "the start is out of range"),
            ((TICKER_PORT, bytes(13), MS), "a packet has 14 to 1514 bytes"),
            ((TICKER_PORT, bytes(1515), MS), "a packet has 14 to 1514 bytes"),
        ]
        for arguments, says in wrong:
            with pytest.raises(CoreError, match=says):
                r.loop.add_ticker(*arguments)
        with r.loop.locked():
            assert r.loop.ticker_stats() == []
        r.loop.add_ticker(TICKER_PORT, frame(), MS)
        with pytest.raises(CoreError, match=f"port {TICKER_PORT} is where tickers' packets come"):
            r.loop.add_port(TICKER_PORT, "lo")


def test_the_daemon_ticks_and_says_how_late(tmp_path: Path) -> None:
    """As a process, whose program gets the packets; the side channel tells what it did."""
    program = f"{GOLDEN}/l3.json --p4info {GOLDEN}/l3.p4info.txtpb"
    line = f"{program} -- --ticker period=2ms,packet={'00' * 60}".split()
    daemon = Running(tmp_path / "ready", tmp_path / "log", line)
    try:
        check_ticks(daemon.address)
        assert daemon.end() == 0
    finally:
        daemon.process.kill()


def check_ticks(address: str) -> None:
    with DiagnosticsClient(address) as switch:
        wait_for(lambda: switch.switch_stats()["tickers"][0]["ticks"] >= 100, "100 ticks")
        (ticker,) = switch.switch_stats()["tickers"]
        assert (ticker["port"], ticker["period_ps"], ticker["start_ps"]) == (509, 2 * MS, 0)
        assert 0 <= ticker["late_p50_ps"] <= ticker["late_p99_ps"] <= ticker["late_max_ps"]
        port = switch.port_stats()[TICKER_PORT]
        assert (port["interface"], port["state"]) == ("", "up")
        assert port["rx_packets"] >= ticker["ticks"] - ticker["skipped"] > 0
        assert switch.switch_stats()["switch"]["ingress"] >= ticker["ticks"]


# --- the command line ---------------------------------------------------------------------------

PACKET = "ffffffffffff020000000001 88b5 00"


def test_a_ticker_on_the_command_line() -> None:
    line = ["--no-p4", "--", "--ticker", f"period=2.5ms,packet={PACKET},start=10us"]
    options = parse([*line, "--ticker", f"packet={PACKET.upper()},period=1ms"])
    packet = bytes.fromhex(PACKET)
    assert options.tickers == (
        TickerOption(2_500_000_000, packet, 10_000_000),
        TickerOption(MS, packet),
    )
    assert parse(["--no-p4"]).tickers == ()


@pytest.mark.parametrize(
    ("ticker", "says"),
    [
        ("period=1ms", "has no packet="),
        (f"packet={PACKET}", "has no period="),
        (f"period=1ms,packet={PACKET},count=3", "'count=3': known are period, packet, start"),
        ("period=1ms,packet", "'packet': known are"),
        (f"period=1,packet={PACKET}", "'1' is not a time with unit"),
        (f"period=1us,packet={PACKET}", "1us is too short for a process: at least 10us"),
        (f"period=1400000s,packet={PACKET}", "no time is longer than 13 days"),
        (f"period=1s,start=99999999s,packet={PACKET}", "no time is longer than 13 days"),
        ("period=1ms,packet=fff", "two hex digits a byte, and these are 3"),
        ("period=1ms,packet=0xff", "written in hex"),
        ("period=1ms,packet=ff", "a packet has 14 to 1514 bytes, .* not 1"),
        (f"period=1ms,packet={'00' * 1515}", "not 1515"),
    ],
)
def test_a_wrong_ticker_on_the_command_line(ticker: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(["--no-p4", "--", "--ticker", ticker])


@pytest.mark.parametrize(
    "line",
    [
        "--no-p4 -i 509@veth0 --",
        "--no-p4 -- --cpu-port 509",
        "--no-p4 -- --drop-port 509",
    ],
)
def test_the_tickers_port_is_nobody_elses(line: str) -> None:
    with pytest.raises(UsageError, match="--ticker uses port 509"):
        parse([*line.split(), "--ticker", f"period=1ms,packet={PACKET}"])
    parse(line.split())  # without a ticker it is a port like any other
