"""Tickers in real time: our switches tick by themselves, for BMv2 a process does at a veth pair.

s2    a spine
s1    a leaf with h1        both tick 1 000 times a second, here
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram
from emulation import teardown
from emulation.errors import EmulationError
from emulation.link_events import FabricCalls
from emulation.network import Network
from emulation.processes import identify
from emulation.run_state import Run
from emulation.session import Session
from emulation.switch_node import SwitchSettings, Target
from emulation.ticker_process import BEHIND, Ticks
from emulation.tickers import TickerProcess, real_tickers, ticker_option
from softswitch.ticker_options import TICKER_PORT, TickerOption, parse_ticker
from topologies.events import SwitchCall, calls

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
PACKET = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(range(46))
TOPOLOGY = f"""\
time_scale: 1000
generator: leaf_spine
spines: 1
leaves: 1
hosts_per_leaf: 1
link: {{rate: 400Gbps, delay: 500ns, queue: 1MB}}
events:
  - {{at: 1us, switch: s2, do: kill, lasts: 1us}}
tickers:
  - {{period: 1us, packet: "{PACKET.hex()}"}}
"""
MS = 10**9
DEADLINE_S = 60.0
ETH_P_ALL = 3


def wait_until(condition: object, what: str) -> None:
    """Poll; fails after the deadline."""
    assert callable(condition)
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.01)


# --- without root ---------------------------------------------------------------------------------


def test_periods_are_real_ones_and_not_too_short() -> None:
    topology = topologies.loads(TOPOLOGY)
    found = real_tickers(topology)
    assert set(found) == {"s1", "s2"}
    (one,), (two,) = found["s1"], found["s2"]
    assert one.period_ps == two.period_ps == MS and one.packet == PACKET
    assert 0 <= one.start_ps < MS and one.start_ps != two.start_ps
    assert parse_ticker(ticker_option(one)) == one
    assert real_tickers(replace(topology, tickers=())) == {}
    with pytest.raises(EmulationError, match="s1 ticks every 1us, which at time_scale 99 is 99us"):
        real_tickers(topology.with_time_scale(99))
    try:
        real_tickers(topology.with_time_scale(99))
    except EmulationError as error:
        assert error.remedy.startswith("give the topology time_scale: 100 or more")
    real_tickers(topology.with_time_scale(100))
    with pytest.raises(EmulationError, match="at time_scale 1 is 1us here: at least 100us"):
        Session(topology.with_time_scale(1), Target.SOFTSWITCH).claim()


def test_the_processs_grid_has_no_drift_and_skips_whole_periods() -> None:
    """A third of a millisecond: after three million ticks the time is exact to the nanosecond."""
    ticks = Ticks(TickerOption(333_333_333, PACKET, 500), began_ns=1000)
    assert ticks.due_ns == 1000
    for late in (10_000, 20_000, 3_000_000):
        ticks.ticked(late)
    assert ticks.due_ns == 1000 + (500 + 3 * 333_333_333) // 1000
    ticks.skip(ticks.due_ns + (BEHIND - 1) * 333_334)  # so many are made up for
    assert ticks.skipped == 0
    ticks.skip(ticks.due_ns + 3_000_000 * 333_333)
    assert 3_000_000 - BEHIND - 10 <= ticks.skipped <= 3_000_000
    n = ticks.ticks + ticks.skipped
    assert ticks.due_ns == 1000 + (500 + n * 333_333_333) // 1000
    assert (ticks.late_us(50), ticks.late_us(99), ticks.most_ns) == (21, 3001, 3_000_000)
    assert str(ticks).startswith(f"3 ticks, {ticks.skipped} skipped, 0 lost; late: p50 21 us")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lo"], "required: ticker"),
        (["lo", "period=1ms"], "has no packet="),
        (["nosuchdev", f"period=1ms,packet={PACKET.hex()}"], "nosuchdev: "),
    ],
)
def test_a_wrong_call_of_the_process_is_one_line(arguments: list[str], says: str) -> None:
    command = [sys.executable, "-m", "emulation.ticker_process", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and says in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


# --- the process at its veth pair ---------------------------------------------------------------


@pytest.fixture
def ticking(run: Run) -> Iterator[Network]:
    """Yield a network whose s1 has the pair of a BMv2 switch, and nothing behind it yet."""
    topology = topologies.loads(TOPOLOGY)
    net = Network(topology, run)
    net.build(
        {
            switch.name: SwitchSettings(
                Target.BMV2,
                switch.device_id,
                0,
                0,
                (),
                run.log_dir / f"{switch.name}.log",
                run.directory / "ready",
                tickers=real_tickers(topology)[switch.name] if switch.name == "s1" else (),
                ticker_interface=net.ticker_interfaces("s1")[0] if switch.name == "s1" else "",
            )
            for switch in topology.switches
        }
    )
    yield net
    del run  # which takes everything down


def receiver(interface: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
    found.bind((interface, 0))
    found.settimeout(DEADLINE_S)
    return found


@pytest.mark.root
def test_the_process_ticks_the_template_and_nothing_stays(ticking: Network, run: Run) -> None:
    ends = ticking.ticker_interfaces("s1")
    assert ends == (f"{run.name}-s1-509", f"{run.name}-s1-t509")
    assert set(ends) <= set(run.record.links)
    with receiver(ends[0]) as port:
        began = time.monotonic_ns()
        ticking.start_tickers()
        assert {port.recv(2000) for _ in range(500)} == {PACKET}
        # The 500th is due 499 periods after the first, and the process began behind `began`.
        assert time.monotonic_ns() - began >= 499 * 10**6
        ticking.check_tickers()
    (process,) = ticking.tickers
    (recorded,) = [each for each in run.record.processes if each.role == "ticker of s1"]
    assert recorded.pid == process.pid and recorded.is_alive()
    removed = teardown.remove(run.record)
    assert removed.processes >= 1 and not recorded.is_alive()
    assert not any(Path("/sys/class/net", end).exists() for end in ends)
    first, last = process.log_path.read_text().splitlines()
    assert first == f"ticking on {ends[1]}"
    assert int(last.split()[0]) >= 500 and " 0 lost; late: p50 " in last
    with pytest.raises(EmulationError, match="the ticker of s1 ended: "):
        ticking.check_tickers()


@pytest.mark.root
def test_a_process_whose_interface_vanishes_says_so(ticking: Network, run: Run) -> None:
    ticking.start_tickers()
    (process,) = ticking.tickers
    wait_until(lambda: "ticking on" in process.log_path.read_text(), "the first line")
    end = ticking.ticker_interfaces("s1")[1]
    subprocess.run(["ip", "link", "set", end, "down"], check=True)
    time.sleep(0.05)
    ticking.check_tickers()  # down is no reason to end
    subprocess.run(["ip", "link", "delete", end], check=True)
    wait_until(lambda: "it is gone" in process.log_path.read_text(), "its end")


RUNNER = """
import signal
from pathlib import Path
import topologies
from emulation import teardown
from emulation.network import Network
from emulation.run_state import Run
from emulation.switch_node import SwitchSettings, Target
from emulation.tickers import real_tickers
from tests.emulation.test_tickers import TOPOLOGY

lock, _ = teardown.claim()
run = Run.start(lock, "test")
topology = topologies.loads(TOPOLOGY)
net = Network(topology, run)
tickers = real_tickers(topology)
net.build({
    switch.name: SwitchSettings(
        Target.BMV2, switch.device_id, 0, 0, (), run.log_dir / f"{switch.name}.log", Path("/"),
        tickers=tickers[switch.name], ticker_interface=net.ticker_interfaces(switch.name)[0],
    )
    for switch in topology.switches
})
net.start_tickers()
print(run.name, *(each.pid for each in net.tickers), flush=True)
signal.pause()
"""


@pytest.mark.root
def test_a_crashed_run_leaves_no_ticker(roots: Path) -> None:
    command = [sys.executable, "-c", RUNNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        name, *pids = runner.stdout.readline().split()
        runner.kill()
    assert len(pids) == 2 and all(identify(int(pid)) for pid in pids)
    ends = [f"{name}-{switch}-{end}" for switch in ("s1", "s2") for end in ("509", "t509")]
    assert all(Path("/sys/class/net", end).exists() for end in ends)
    (removed,) = teardown.clean()
    assert removed.run == name
    assert not any(Path("/sys/class/net", end).exists() for end in ends)
    assert not any(identify(int(pid)) for pid in pids)


# --- fabrics -----------------------------------------------------------------------------------


def ticked(session: Session) -> dict[str, int]:
    """Count what came in by the tickers' port of each switch that has a program."""
    names = list(session.network.switches)
    cells = session.controller.read_cells("port_rx", {name: [TICKER_PORT] for name in names})
    return {name: cells[name][TICKER_PORT] for name in names}


def in_step(session: Session) -> bool:
    """Say whether no switch counts more ticks than come: BMv2 may have kept 1024 packets."""
    before, began = ticked(session), time.monotonic()
    time.sleep(0.3)
    after, ended = ticked(session), time.monotonic()
    return all(after[each] - before[each] <= (ended - began) * 1000 + 60 for each in before)


@pytest.fixture(
    params=["softswitch", pytest.param("bmv2", marks=pytest.mark.reference("simple_switch_grpc"))]
)
def session(request: pytest.FixtureRequest, roots: Path) -> Iterator[Session]:
    made = Session(topologies.loads(TOPOLOGY), Target(request.param))
    try:
        made.claim()
        made.build_network()
        made.wait_for_switches()
        made.bring_up(CompiledProgram.of(compile_p4(FABRIC)))
        yield made
    finally:
        made.close()


@pytest.mark.root
def test_every_switch_of_a_fabric_ticks(session: Session) -> None:
    """As many in a while as the period says; a switch that was killed goes on when it is back."""
    wait_until(lambda: min(ticked(session).values()) > 100, "ticks in every switch")
    wait_until(lambda: in_step(session), "the end of what BMv2 kept before it had a program")
    before, began = ticked(session), time.monotonic()
    time.sleep(1.0)
    reading = time.monotonic()
    after, ended = ticked(session), time.monotonic()
    for name in before:
        counted = after[name] - before[name]
        # One may have been late at either look: made up for, at the latest, by the next one.
        assert (reading - began) * 1000 * 0.9 <= counted <= (ended - began) * 1000 + 200, name
    events = {call.says: call for call in calls(session.topology) if isinstance(call, SwitchCall)}
    session.supervise(lambda text: None)
    player = FabricCalls(session)
    for call in events.values():
        player.perform(call)
    wait_until(lambda: ticked(session)["s2"] > 100, "ticks of the switch that was revived")
    session.check_switches()


@pytest.mark.root
def test_a_ticker_that_ends_is_noticed(run: Run) -> None:
    process = TickerProcess("s1", "nosuchdev", (TickerOption(MS, PACKET),), run.log_dir / "log")
    wait_until(lambda: identify(process.pid) is None, "its end")
    with pytest.raises(EmulationError, match="of s1 ended: nosuchdev: there is no such interface"):
        process.check_alive()
