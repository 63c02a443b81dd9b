"""Run files whose messages are striped over queue pairs as they drain: plan, times, results.

   s5   s6   s7   s8      spines; one link into a leaf may be slow
  /  \\ ...   ECMP by the 5-tuple
s1   s2   s3   s4         leaves, four hosts each
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from simulator.runner import Outcome, Simulation, Stop
from tests.simulator.test_path_choice_runs import RUN, SLOW, program
from weft.sim_transport import transport_rows
from workloads.bound import bound
from workloads.loader import read_run
from workloads.model import Traffic
from workloads.plan import plan

TWO_PATHS = """
topology:
  switches: [s1, s2, {name: s3, role: spine}, {name: s4, role: spine}]
  hosts: [h1, h2]
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s2:1}
    - {a: s1:2, b: s3:1, rate: 40Gbps}
    - {a: s1:3, b: s4:1, rate: 10Gbps}
    - {a: s2:2, b: s3:2}
    - {a: s2:3, b: s4:2}
  classes:
    roce: {dscp: 26, queue: 3}
until: 20ms
transport: {congestion_control: none, queue_pairs: 2, striping: STRIPING}
traffic:
  - message: {from: h1, to: h2, bytes: SIZE}
"""
"""The two queue pairs' ports, of seed 1, take a spine each."""
EQUAL = "window: 64, queue_pairs: 4"
DRAINED = f"{EQUAL}, striping: as-drained"
JOB = "job: {ranks: 8, placement: stride, phases: [PHASE]}"


def text(more: str, traffic: str = "", *, slow: bool = False) -> str:
    whole = RUN.replace("MORE", more).replace("SEED", "1")
    if traffic:
        whole = whole.split("traffic:")[0] + traffic
    return whole + (SLOW if slow else "")


def planned(more: str, traffic: str = "") -> Traffic:
    return plan(read_run(text(more, traffic)))


def slowest_ps(outcome: Outcome) -> int:
    times = outcome.end.message_times
    assert (times["done"] >= 0).all()
    return int((times["done"] - times["ready"]).max())


def test_a_message_stays_one_and_its_queue_pairs_are_flows() -> None:
    equal, drained = planned(EQUAL), planned(DRAINED)
    assert (equal.flows == drained.flows).all()  # ports too: the same ways
    assert (len(equal.messages), len(drained.messages)) == (64, 16)
    assert drained.messages.messages["flow"].tolist() == list(range(0, 64, 4))
    assert (drained.messages.messages["bytes"] == 2_000_000).all()
    assert drained.stripes[["flow", "queue_pairs"]].tolist() == [(i, 4) for i in range(0, 64, 4)]
    assert (drained.stripes["piece_bytes"] == 1 << 16).all()
    assert len(equal.stripes) == 0


@pytest.mark.parametrize(
    "traffic",
    [
        "message: {from: h1, to: [h6, h9], bytes: 9000B, count: 3}",
        "incast: {to: h1, from: [h6, h7], bytes: 9000B, rounds: 3}",
        "mix: {sizes: websearch, load: 10%, stop: 1ms}",
    ],
)
def test_every_kind_of_traffic_is_striped(traffic: str) -> None:
    one, three = (
        planned(f"queue_pairs: {n}, striping: as-drained", f"traffic: [{{{traffic}}}]")
        for n in (1, 3)
    )
    assert len(one.stripes) == 0
    assert len(three.flows) == 3 * len(one.flows) == 3 * len(three.stripes)
    assert (three.first_flows() == np.repeat(3 * np.arange(len(one.flows)), 3)).all()
    same = ["bytes", "waits", "start_ps", "gap_ps"]
    assert (one.messages.messages[same] == three.messages.messages[same]).all()
    assert (one.ideal_ps == three.ideal_ps).all()


def test_open_loop_entries_are_not() -> None:
    more = "{message: {from: h1, to: h2, bytes: 9kB, transport: none}}"
    traffic = planned(DRAINED, f"traffic: [{more}, {{message: {{from: h2, to: h1, bytes: 9kB}}}}]")
    assert (traffic.flows["transport"] > 0).tolist() == [False, True, True, True, True]
    assert traffic.stripes["flow"].tolist() == [1]


def test_a_rate_is_that_of_each_queue_pair() -> None:
    """What is ideal, and the bound, count that of all together."""
    paced = "traffic: [{message: {from: h1, to: h6, bytes: 1MB, rate: 5Gbps}}]"
    traffic = planned(DRAINED, paced)
    run = read_run(text(DRAINED, paced))
    took = slowest_ps(Simulation(run, program()).run())
    (ideal,) = traffic.ideal_ps.tolist()
    assert 1_000_000 * 8 * 10**12 // (20 * 10**9) < ideal < took < 1.2 * ideal
    assert abs(bound(run, traffic).lower_ps - ideal) < 0.02 * ideal


@pytest.mark.parametrize(
    "phase", ["{allreduce: {bytes: 2MB, channels: 2}}", "{alltoall: {bytes: 2MB, window: 3}}"]
)
def test_collectives_are_striped_kept_or_made_as_they_are_due(phase: str) -> None:
    run = read_run(text(DRAINED, JOB.replace("PHASE", phase)))
    found = []
    for keep in (10**6, 0):
        traffic = plan(run, keep=keep)
        assert (traffic.due is None) == (keep > 0)
        end = Simulation(run, program(), traffic=traffic).run().end
        assert end.totals["messages"] == end.totals["messages_done"]
        found.append((end.message_times["done"].max(), end.flow_stats["received_bytes"].tolist()))
    assert found[0] == found[1]
    (_, got) = found[0]
    assert sum(got) == int(plan(run, keep=10**6).messages.messages["bytes"].sum())


@pytest.mark.parametrize("size", [4, 16])
def test_one_slow_path_of_two_gets_its_share(size: int) -> None:
    times, got = [], []
    for striping in ("equal", "as-drained"):
        made = TWO_PATHS.replace("STRIPING", striping).replace("SIZE", f"{size}MB")
        end = Simulation(read_run(made), program()).run().end
        times.append(int(end.message_times["done"].max()))
        got.append(sorted(end.flow_stats["received_bytes"].tolist()))
    whole = size * 1_000_000
    assert got[0] == [whole // 2] * 2
    assert sum(got[1]) == whole
    assert abs(got[1][0] - whole // 5) <= 2 * 65536
    one_rate = (2048 + 82) * 8 * whole // 2048 * 1000  # ps at 1 Gb/s, with headers
    assert times[0] > one_rate // 20
    last = 2 * 65536 * 8 * 1000 // 10  # two pieces by the slow one
    assert one_rate // 50 < times[1] < 1.01 * one_rate // 50 + last


def test_equal_parts_wait_for_the_slow_link_and_pieces_go_round_it() -> None:
    equal, drained = (
        Simulation(read_run(text(more, slow=True)), program()).run() for more in (EQUAL, DRAINED)
    )
    assert slowest_ps(drained) < 0.75 * slowest_ps(equal)
    stats = drained.end.transport_stats
    assert stats is not None and stats["repeated_packets"].sum() == 0
    assert int(drained.end.flow_stats["out_of_order"].sum()) == 0


def test_without_a_second_queue_pair_nothing_is_otherwise() -> None:
    one, plain = (
        Simulation(read_run(text(more)), program()).run().end
        for more in ("queue_pairs: 1, striping: as-drained, piece: 1KiB", "queue_pairs: 1")
    )
    assert np.array_equal(one.message_times, plain.message_times)
    assert np.array_equal(one.flow_stats, plain.flow_stats)


def test_results_count_messages_and_name_the_striping(tmp_path: Path) -> None:
    more = f"{DRAINED}, piece: 32KiB, outstanding: 3"
    outcome = Simulation(read_run(text(more)), program()).run(tmp_path)
    assert outcome.end.stop is Stop.UNTIL
    assert outcome.summary["messages"]["count"] == outcome.summary["messages"]["done"] == 16
    assert outcome.summary["flows"]["count"] == 64
    (transport,) = outcome.summary["transports"]
    assert transport["striping"] == "as-drained"
    assert (transport["piece_bytes"], transport["outstanding"]) == (32768, 3)
    shown = dict(transport_rows(outcome.summary))["transport"]
    assert "striped over 4 queue pairs as they drain, 3 pieces of 32768 B each" in shown
    flows = pq.read_table(tmp_path / "flows.parquet")
    assert flows["messages"].to_pylist() == [1, 0, 0, 0] * 16
    rows = pq.read_table(tmp_path / "messages.parquet").to_pylist()
    assert all(row["first_sent_ps"] < row["last_sent_ps"] < row["done_ps"] for row in rows)
