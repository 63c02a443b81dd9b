"""`tickers:` of a topology file: what it says, and the one line for each mistake."""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter

import topologies
from mechanisms.tickers import Scheduled, scheduled, tickers
from topologies import Topology, TopologyError
from topologies.tickers import TICKER_PORT, Ticker, TickerRule

HEX = "ffffffffffff 020000000001 88b5"
PACKET = bytes.fromhex(HEX)

EXPLICIT = f"""\
time_scale: 100
link: {{rate: 1Gbps, delay: 1us, queue: 1MB}}
switches: [s1, s2]
hosts: [h1]
links:
  - {{a: h1, b: s1:1}}
  - {{a: s1:2, b: s2:1}}
tickers:
  - {{period: 10us, packet: "{HEX}"}}
  - {{period: 1ms, packet: "{HEX} 01", start: 30us, switches: [s2]}}
"""
GENERATED = f"""\
time_scale: 100
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
link: {{rate: 1Gbps, delay: 1us, queue: 1MB}}
tickers:
  - {{period: 10us, packet: "{HEX}"}}
  - {{period: 1ms, packet: "{HEX} 01", start: 30us, switches: [s2]}}
"""


@pytest.mark.parametrize("text", [EXPLICIT, GENERATED])
def test_a_file_gives_tickers_to_all_switches_or_to_some(text: str) -> None:
    topology = topologies.loads(text)
    first, second = Ticker.of(10**7, PACKET), Ticker.of(10**9, PACKET + b"\x01", 3 * 10**7)
    assert topology.tickers == (TickerRule(first), TickerRule(second, ("s2",)))
    assert topology.tickers_of("s1") == (first,)
    assert topology.tickers_of("s2") == (first, second)
    assert tickers(topology, topology.switch("s2")) == (first, second)
    assert (first.data, second.data) == (PACKET, PACKET + b"\x01")


def test_times_are_scaled_and_open_starts_drawn_by_seed_and_switch() -> None:
    topology = topologies.loads(EXPLICIT)
    s1, s2 = topology.switches
    (one,) = scheduled(topology, s1)
    two, late = scheduled(topology, s2)
    assert late == Scheduled(3 * 10**9, 10**11, PACKET + b"\x01")
    assert one.period_ps == two.period_ps == 10**9
    assert 0 <= one.start_ps < 10**9 and 0 <= two.start_ps < 10**9
    assert one.start_ps != two.start_ps
    assert scheduled(topology, s1) == (one,) != scheduled(topology, s1, seed=2)
    (fabric,) = scheduled(topology.with_time_scale(1), s1)
    assert (fabric.start_ps * 100, fabric.period_ps * 100) == (one.start_ps, one.period_ps)


def test_a_running_fabrics_record_keeps_them() -> None:
    adapter, topology = TypeAdapter(Topology), topologies.loads(EXPLICIT)
    kept = json.loads(json.dumps(adapter.dump_python(topology, mode="json")))
    assert adapter.validate_python(kept) == topology


MISTAKES = [
    ("period: 10us", "period: 0us", "9:6: tickers[0].period: a ticker's period is from 10ns to 1s"),
    ("period: 10us", "period: 1ps", "period: a ticker's period is from 10ns to 1s, not 1ps"),
    ("period: 10us", "period: 2s", "period: a ticker's period is from 10ns to 1s, not 2s"),
    ("period: 10us", "period: 10", "tickers[0].period: 10 has no unit"),
    ("period: 10us, ", "", "9:5: tickers[0].period: 'period' is missing here"),
    (
        f'packet: "{HEX}"}}',
        "packet: 0200}",
        "9:20: tickers[0].packet: a packet is written in hex, ",
    ),
    (f'packet: "{HEX}"}}', 'packet: "0x00"}', "a packet is written in hex, two digits a byte"),
    (f'"{HEX}"}}', f'"{HEX}0"}}', "a packet has two hex digits a byte, and these are 29"),
    (f'"{HEX}"}}', '"00"}', "a packet has 14 to 1514 bytes, from the Ethernet header on, not 1"),
    (f'"{HEX}"}}', f'"{"00" * 1515}"}}', "a packet has 14 to 1514 bytes"),
    ("start: 30us", "start: -1us", "tickers[1].start: '-1us' is not a duration"),
    ("start: 30us", "strat: 30us", "tickers[1].strat: unknown key 'strat'; did you mean 'start'?"),
    ("switches: [s2]", "switches: [s2, s22]", "tickers[1].switches[1]: no switch 's22'; did you"),
    ("switches: [s2]", "switches: [h1]", "tickers[1].switches[0]: no switch 'h1'"),
    ("b: s2:1", f"b: s2:{TICKER_PORT}", "7:15: links[1].b: 's2:509' needs a port from 1 to 254"),
]


@pytest.mark.parametrize(("old", "new", "says"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(old: str, new: str, says: str) -> None:
    assert EXPLICIT.count(old) == 1
    with pytest.raises(TopologyError) as caught:
        topologies.loads(EXPLICIT.replace(old, new), file="net.yaml")
    (problem,) = caught.value.problems
    assert str(problem).startswith("net.yaml:") and says in str(problem), str(problem)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, PACKET), "period is from"),
        ((10**7, bytes(13)), "bytes"),
        ((10**7, PACKET, -1), "start"),
    ],
)
def test_a_mechanisms_ticker_is_held_to_the_same(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Ticker.of(*arguments)  # type: ignore[arg-type]
