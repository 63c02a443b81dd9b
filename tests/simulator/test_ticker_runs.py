"""Tickers of a topology in runs of the simulator: of the file, and of a mechanism.

h1 - s1 - s2 - h2      s1 ticks a datagram to h2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms import tickers as all_tickers
from mechanisms.contract import Mechanism
from mechanisms.program import FABRIC
from simulator.prepared import PreparedFabric
from simulator.result_model import Stop
from simulator.runner import Outcome, Simulation
from topologies.addressing import switch_mac
from topologies.model import Switch, Topology
from topologies.tickers import TICKER_PORT, Ticker
from workloads.loader import read_run

BEAT = bytes(Ether(src="02:00:00:00:00:01", dst=switch_mac(1)) / IP(dst="10.0.2.1") / UDP())
RUN = f"""
topology:
  switches: [s1, s2]
  hosts: [h1, h2]
  link: {{rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}}
  links:
    - {{a: h1, b: s1:1}}
    - {{a: h2, b: s2:1}}
    - {{a: s1:2, b: s2:2}}
  tickers:
    - {{period: 10us, packet: "{BEAT.hex()}", switches: [s1], start: 5us}}
until: 1ms
traffic:
  - cbr: {{from: h1, to: h2, rate: 10Gbps, payload: 1000B}}
"""


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def run(text: str = RUN, **options: int) -> Outcome:
    return Simulation(read_run(text), program(), **options).run()


def ticks(outcome: Outcome) -> int:
    """Count what h2 received that belongs to no flow."""
    return int(outcome.end.totals["received_other"])


def test_a_files_ticks_reach_the_host_they_are_for() -> None:
    outcome = run()
    assert ticks(outcome) == 100  # at 5 us, 15 us, ... 995 us
    plain = run(RUN.replace("start: 5us", "start: 2ms"))
    assert ticks(plain) == 0
    for outcome_ in (outcome, plain):
        stats = outcome_.end.flow_stats[0]
        assert stats["sent_packets"] - stats["received_packets"] <= 4  # on their way


def test_open_starts_follow_the_seed_alone() -> None:
    text = RUN.replace(", start: 5us", "").replace("switches: [s1]", "switches: [s1, s2]")
    text = text.replace("10us", "700us")
    found = set()
    for seed in (1, 2, 3):
        made = Simulation(read_run(text), program(), seed=seed)
        again = Simulation(read_run(text), program(), seed=seed)
        stats = [[each.engine.ticker_stats(number) for number in (0, 1)] for each in (made, again)]
        assert stats[0] == stats[1]
        assert stats[0][0].next_ps != stats[0][1].next_ps
        found.add(stats[0][0].next_ps)
    assert len(found) == 3 and all(0 <= at < 700_000_000 for at in found)


def test_a_prepared_fabric_ticks_as_one_of_the_run() -> None:
    text = RUN.replace(", start: 5us", "")
    file = read_run(text)
    prepared = PreparedFabric(file, program(), seed=1)
    shared = Simulation(file, program(), seed=2, prepared=prepared)
    own = Simulation(file, program(), seed=2)
    assert shared.engine.ticker_stats(0) == own.engine.ticker_stats(0)
    assert shared.run().end.totals == own.run().end.totals


def test_periods_are_slowed_with_everything_else() -> None:
    slow = run(time_scale=10, until_ps=10**10)
    assert ticks(slow) == ticks(run()) == 100


def test_a_switch_that_is_killed_is_silent_and_goes_on_at_the_grid() -> None:
    text = RUN + "events:\n  - {at: 300us, switch: s1, do: kill, lasts: 400us}\n"
    made = Simulation(read_run(text), program())
    outcome = made.run()
    stats = made.engine.ticker_stats(0)
    assert stats == (60, 40, 1_005_000_000)  # 305 us .. 695 us are missing
    assert ticks(outcome) <= 60


def test_a_run_to_its_end_is_no_longer_for_its_tickers() -> None:
    message = "  - message: {from: h1, to: h2, bytes: 100kB}\n"
    text = RUN.split("until:")[0] + "traffic:\n" + message
    ticking = run(text)
    silent = run(text.replace("switches: [s1], start: 5us", "switches: [s1], start: 1s"))
    assert (ticking.stop, silent.stop) == (Stop.DONE, Stop.DONE)
    times = [each.end.message_times["done"][0] for each in (ticking, silent)]
    # A tick or two stood before a packet of the message in the queue of the link.
    assert 0 <= times[0] - times[1] <= 2 * 6_720


@dataclass(frozen=True)
class Heart(Mechanism):
    """Beats in every switch with a gateway, twice as often in the first."""

    def holds(self, topology: Topology) -> bool:
        """Every topology."""
        return True

    def tickers(self, topology: Topology, switch: Switch) -> Iterator[Ticker]:
        """Yield one or two."""
        if switch.gateway is not None:
            yield Ticker.of(20_000_000, BEAT, 0)
        if switch.device_id == 1:
            yield Ticker.of(20_000_000, BEAT, 10_000_000)


def test_a_mechanism_may_ask_for_tickers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_tickers, "mechanisms", lambda: (Heart("heart", "heart"),))
    text = RUN.replace("start: 5us", "start: 1s")
    made = Simulation(read_run(text), program())
    made.run()
    switches = made.fabric.switches
    packets = [switches[name].device.core.port_stats(TICKER_PORT).rx_packets for name in switches]
    assert packets == [101, 51]  # 0, 10, ... 1000 us; 0, 20, ... 1000 us
