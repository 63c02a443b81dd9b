"""Fast CNPs in virtual time, over several switches, from the run file to what flows got.

h1, h2 -- s1 ====== s2 -- h3, h4, h5      100 Gb/s and 500 ns each
              ^       ^
h1 -> h5: both queues; h2 -> h4: the first; h3 -> h5: the second

h1, h2 -- l1 -- b1 == 10 km == b2 -- l2 -- r1      100 Gb/s at hosts, 400 Gb/s between switches
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from workloads.loader import read_run

GBPS = 10**9
US, MS = 10**6, 10**9  # in ps
LINE = 100 * GBPS * 4096 / 4178  # payload's part of a link
SENT, INTERVAL, ALREADY_TOLD = 0, 1, 2
TO_BOTH, TO_SECOND, TO_FIRST = range(3)  # the flows, in the file's order

TWO_QUEUES = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4, h5]
  link: {rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}
  links:
    - {a: h1, b: "s1:1"}
    - {a: h2, b: "s1:2"}
    - {a: "s1:9", b: "s2:9"}
    - {a: h3, b: "s2:1"}
    - {a: h4, b: "s2:2"}
    - {a: h5, b: "s2:3"}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, fast_cnp: true}
    rest: {queue: 0}
until: 2ms
transport: {congestion_control: fast-cnp, parameters: hpcc-dcqcn}
traffic:
  - incast: {to: h5, from: [h1, h3], persistent: true}
  - incast: {to: h4, from: [h2], persistent: true}
"""
TRUNK, RECEIVER = ("s1", 9), ("s2", 3)

FAR_END = """
topology:
  switches:
    - {name: l1, role: leaf, group: dc1}
    - {name: b1, role: border, group: dc1}
    - {name: b2, role: border, group: dc2}
    - {name: l2, role: leaf, group: dc2}
  hosts: [h1, h2, r1]
  link: {rate: 100Gbps, delay: 500ns, queue: 64MB, mtu: 4200B}
  links:
    - {a: "b1:2", b: "b2:2", length: 10km, rate: 400Gbps}
    - {a: r1, b: "l2:1"}
    - {a: "l1:20", b: "b1:1", rate: 400Gbps}
    - {a: "b2:1", b: "l2:20", rate: 400Gbps}
    - {a: h1, b: "l1:1"}
    - {a: h2, b: "l1:2"}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, fast_cnp: HOW}
    rest: {queue: 0}
until: 1ms
transport: {congestion_control: fast-cnp, parameters: hpcc-dcqcn, window: 100000, timeout: 100ms}
traffic:
  - incast: {to: r1, from: [h1, h2], persistent: true}
"""


class Played:
    """A run that has ended: what each flow got, and what switches decided."""

    def __init__(self, text: str, *, scale: int = 1) -> None:
        run = read_run(text)
        assert run.until_ps is not None
        self.simulation = Simulation(
            run, fabric_program(), time_scale=scale, until_ps=run.until_ps * scale
        )
        outcome = self.simulation.run()
        stats = outcome.end.transport_stats
        assert stats is not None
        self.stats: Any = np.asarray(stats)
        self.flows: Any = np.asarray(outcome.end.flow_stats)
        self.switches = outcome.end.switches
        self.seconds = run.until_ps * scale / 10**12

    def goodput(self, flow: int) -> float:
        """In bits/s, from the first moment on."""
        return float(self.flows["received_bytes"][flow]) * 8 / self.seconds

    def lost(self) -> int:
        return sum(
            port[name]
            for switch in self.switches.values()
            for port in switch.ports.values()
            for name in port
            if name.startswith("drop_")
        )

    def outcomes(self, at: tuple[str, int]) -> list[int]:
        """Return the outcomes of packets that met a port's long queue, by FastCnpOutcome."""
        device = self.simulation.fabric.switches[at[0]].device
        assert device.pipeline is not None
        counters = device.pipeline.schema.counters.values()
        (index,) = [each.index for each in counters if each.name.endswith(".fast_cnps")]
        return [device.core.counter_get(index, 8 * at[1] + i).packets for i in range(8)]


@pytest.fixture(scope="module")
def two_queues() -> Played:
    return Played(TWO_QUEUES)


def test_two_switches_are_congested_at_once(two_queues: Played) -> None:
    trunk, receiver = two_queues.outcomes(TRUNK), two_queues.outcomes(RECEIVER)
    assert trunk[SENT] > 0 and receiver[SENT] > 0
    # Each has a rate of its own, of which it tells whoever meets its queue.
    assert trunk[ALREADY_TOLD] == receiver[ALREADY_TOLD] == 0
    told = two_queues.stats["notified"].tolist()
    assert 0 <= trunk[SENT] + receiver[SENT] - sum(told) <= 9, "all but those on their way arrive"
    assert told[TO_BOTH] > max(told[TO_FIRST], told[TO_SECOND])
    assert two_queues.stats["cnps"].tolist() == [0, 0, 0], "receivers see no mark"


def test_told_flows_share_both_links_fairly_and_lose_nothing(two_queues: Played) -> None:
    """The one over both queues gets what the others get: the least of two equal rates."""
    both, second, first = (two_queues.goodput(flow) for flow in (TO_BOTH, TO_SECOND, TO_FIRST))
    for link in (both + first, both + second):
        assert 0.98 * LINE < link <= LINE
    assert both > 0.94 * max(first, second)
    assert two_queues.lost() == 0
    assert two_queues.stats["repeated_packets"].sum() == 0
    cuts = two_queues.stats["first_cut_at"]
    # More than a burst of 32 packets, a window, and the way back.
    assert all(0 < at < 30 * US for at in cuts.tolist())


def test_the_same_in_slow_motion(two_queues: Played) -> None:
    """All numbers in fabric time: what is first, exactly, and later as near as a ns of jitter."""
    slow = Played(TWO_QUEUES, scale=10)
    assert slow.stats["first_cut_at"] / 10 == pytest.approx(
        two_queues.stats["first_cut_at"], rel=2e-4
    )
    for flow in (TO_BOTH, TO_SECOND, TO_FIRST):
        assert slow.goodput(flow) * 10 == pytest.approx(two_queues.goodput(flow), rel=0.15)
    told, told_slowly = (each.stats["notified"].tolist() for each in (two_queues, slow))
    assert told_slowly == pytest.approx(told, rel=0.2)


def test_twice_as_slow_is_the_same_but_for_the_clock_s_rounding(two_queues: Played) -> None:
    """Ticks of a nanosecond are half as long then: what fits into a window is off by some bytes."""
    slow = Played(TWO_QUEUES, scale=2)
    for name in ("received_bytes", "sent_packets"):
        fast = two_queues.flows[name].tolist()
        assert slow.flows[name].tolist() == pytest.approx(fast, rel=2e-3)
    told = two_queues.stats["notified"].tolist()
    assert slow.stats["notified"].tolist() == pytest.approx(told, rel=1e-2)


def test_sources_that_understand_beside_a_stock_one() -> None:
    """h3 has a stock NIC, whose queue pair the controller learns once it has seen samples."""
    mixed = Played(TWO_QUEUES.replace("  classes:", "  stock_nics: [h3]\n  classes:"))
    fast, plain = mixed.stats["notified"].tolist(), mixed.stats["cnps"].tolist()
    assert fast[TO_SECOND] == 0 and plain[TO_SECOND] > 0
    assert fast[TO_BOTH] > 0 and plain[TO_BOTH] == 0
    assert fast[TO_FIRST] > 0 and plain[TO_FIRST] == 0
    marked = mixed.flows["marked"].tolist()
    # As long as nobody knows h3's queue pair, its receiver is to tell it.
    assert (marked[TO_BOTH], marked[TO_FIRST]) == (0, 0)
    assert 0 < marked[TO_SECOND] <= plain[TO_SECOND]
    assert mixed.goodput(TO_SECOND) > mixed.goodput(TO_BOTH) / 2
    assert mixed.stats["rate_bps"][TO_SECOND] < 100 * GBPS
    assert mixed.lost() == 0


def test_reads_are_slowed_where_the_data_comes_from() -> None:
    """h5 and h4 ask, and h1, h2 and h3 are told of the queues that their answers meet."""
    read = Played(TWO_QUEUES.replace("hpcc-dcqcn}", "hpcc-dcqcn, operation: read}"))
    assert all(count > 100 for count in read.stats["notified"].tolist())
    assert read.outcomes(RECEIVER)[SENT] > 0 and read.outcomes(TRUNK)[SENT] > 0
    for link in ((TO_BOTH, TO_FIRST), (TO_BOTH, TO_SECOND)):
        assert 0.85 * LINE < sum(map(read.goodput, link)) <= LINE
    assert read.lost() == 0


def test_a_lossless_class_is_not_paused() -> None:
    given = TWO_QUEUES.replace("fast_cnp: true", "lossless: true, fast_cnp: true")
    given += "buffer: {shared: 4MB, alpha: 1/2, headroom: formula}\n"
    alone = given.replace(", fast_cnp: true", "").replace(
        ": fast-cnp, parameters: hpcc-dcqcn", ": none"
    )
    without = Played(alone)
    assert all(paused > MS // 2 for paused in without.flows["paused_ps"].tolist())
    told = Played(given)
    assert told.flows["paused_ps"].tolist() == [0, 0, 0]
    assert (told.lost(), without.lost()) == (0, 0)


def test_a_gateway_answers_for_the_far_end() -> None:
    """The source's first cut comes after its own data centre's loop, not after the long one."""
    far, near = (Played(FAR_END.replace("HOW", how)) for how in ("true", "{gateway: true}"))
    way_there_and_back = 2 * 50 * US
    assert all(at > way_there_and_back for at in far.stats["first_cut_at"].tolist())
    assert all(0 < at < way_there_and_back // 4 for at in near.stats["first_cut_at"].tolist())
    assert far.outcomes(("l2", 1))[SENT] > 0
    assert near.outcomes(("b1", 2))[SENT] > 0, "counted at the port to the long link"
    assert sum(map(near.goodput, (0, 1))) > max(0.9 * LINE, sum(map(far.goodput, (0, 1))))


def test_thresholds_that_nothing_reaches_change_nothing(tmp_path: Path) -> None:
    """With the feature on, and never used, a run's files are to the byte those without it."""
    off = TWO_QUEUES.replace(": fast-cnp", ": dcqcn").replace("fast_cnp: true", "ecn: hpcc-dcqcn")
    on = off.replace("ecn: hpcc-dcqcn", "ecn: hpcc-dcqcn, fast_cnp: {target: 15MB}")
    assert on != off
    files = []
    for name, text in (("on", on), ("off", off)):
        Simulation(read_run(text), fabric_program()).run(tmp_path / name)
        found = (tmp_path / name).glob("*.parquet")
        files.append({each.name: each.read_bytes() for each in found})
    assert files[0].keys() >= {"flows.parquet", "queues.parquet", "links.parquet"}
    assert files[0] == files[1]
