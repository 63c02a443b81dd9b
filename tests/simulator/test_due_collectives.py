"""Collectives whose messages are made as they are due, against the same with all messages kept.

ring over ranks 0, 1, 2        step 0        step 1         what is on the way: one message
piece 0                        0 -> 1 -----> 1 -> 2 ...     a piece, and each is made when the
piece 1                        1 -> 2 -----> 2 -> 0 ...     one before it has arrived
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workloads
from simulator.result_due import Tally, spread_with
from simulator.result_statistics import spread
from simulator.runner import Outcome, Simulation
from tests.simulator.test_runner import program
from workloads.limits import MAX_MESSAGES
from workloads.loader import read_run
from workloads.plan import plan

RANKS = "topology: fattree4\nsample: 5us\n{more}job: {{ranks: {ranks}, phases: [{phases}]}}\n"
MIXED = """topology: fattree4
sample: 5us
traffic:
  - incast: {from: [h2, h3, h4], to: h1, bytes: 20kB, rounds: 2}
jobs:
  - name: one
    ranks: 8
    dp: 4
    tp: 2
    placement: stride
    iterations: 2
    phases:
      - {allreduce: {bytes: 40kB, over: dp, channels: 2}, background: true}
      - {alltoall: {bytes: 40001B, over: all, window: 2, repeat: 2, compute: 3us}}
      - compute: 5us
      - parallel:
        - allreduce: {bytes: 100kB, over: dp, algorithm: tree}
        - reducescatter: {bytes: 30kB, over: all}
        - compute: 1us
      - {incast: {bytes: 10kB, over: dp}}
  - name: two
    ranks: 5
    placement: [h5, h9, h11, h13, h15]
    start: 7us
    phases: [{allgather: {bytes: 33333B}}, {alltoall: {bytes: 9kB, fraction: 1/2}}]
"""
MARKED = """topology:
  generator: fat_tree
  k: 4
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}
    rest: {queue: 0}
buffer: {shared: 4MB, alpha: 1/8, headroom: formula}
sample: 20us
transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn, ack_every: 4}
job: {ranks: 13, placement: stride, phases: [{alltoall: {bytes: 2MB, repeat: 2}}]}
"""
FAULT = "events: [{{at: 20us, link: s1-s9, do: down}}, {{at: 200us, link: s1-s9, do: up}}]\n"
FAULT += "controller: {{delay: 50us}}\nuntil: 9ms\n"


def both(text: str, folder: Path, seed: int = 1) -> tuple[Outcome, Outcome]:
    """Run it with all messages kept, and with none of a regular collective."""
    loaded = read_run(text)
    found = []
    for keep in (MAX_MESSAGES, 0):
        traffic = plan(loaded, seed, keep=keep)
        assert (traffic.due is None) == (keep > 0)
        simulation = Simulation(loaded, program(), seed=seed, traffic=traffic)
        found.append(simulation.run(folder / str(keep)))
    return found[0], found[1]


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / f"{table}.parquet").to_pylist())


def is_rounded(exact: int | None, found: int | None) -> bool:
    """Up to 1/128 too small, as percentiles of what is counted are."""
    if exact is None or found is None:
        return exact is found
    return exact - exact / 128 <= found <= exact


def assert_same(kept: Outcome, due: Outcome, folder: Path) -> None:
    """All tables are equal, but for rows of messages that are not kept, and percentiles."""
    assert (kept.stop, kept.end.now_ps) == (due.stop, due.end.now_ps)
    assert kept.summary["totals"] == due.summary["totals"]
    one, other = kept.summary["files"], due.summary["files"]
    assert {name for name in one if one[name] != other[name]} <= {
        "jobs.parquet",
        "messages.parquet",
    }
    spans, counted = rows(folder / str(MAX_MESSAGES), "jobs"), rows(folder / "0", "jobs")
    for span, row in zip(spans, counted, strict=True):
        for name, value in span.items():
            if name.startswith(("fct_p", "message_slowdown_p")):
                assert is_rounded(value, row[name]), (span["name"], name)
            else:
                assert value == row[name], (span["name"], name)
    for name, value in kept.summary["messages"].items():
        if isinstance(value, dict):
            for key, number in value.items():
                check = is_rounded if key.startswith("p") else int.__eq__
                assert check(number, due.summary["messages"][name][key]), (name, key)
        else:
            assert value == due.summary["messages"][name]
    # What is still kept, barriers above all, has the same times.
    whole = [row for row in rows(folder / str(MAX_MESSAGES), "messages") if row["flow"] is None]
    part = [row for row in rows(folder / "0", "messages") if row["flow"] is None]
    assert [row["done_ps"] for row in whole] == [row["done_ps"] for row in part]


@pytest.mark.parametrize("ranks", [2, 3, 7, 13, 16])
@pytest.mark.parametrize(
    "phase",
    [
        "{allreduce: {bytes: 30011B}}",
        "{allreduce: {bytes: 30011B, channels: 3}}",
        "{allgather: {bytes: 50kB, repeat: 2, compute: 1us}}",
        "{reducescatter: {bytes: 48B, channels: 3}}",
        "{alltoall: {bytes: 30011B}}",
        "{alltoall: {bytes: 30011B, window: 1, channels: 2}}",
    ],
)
def test_a_collective_takes_the_same_times(ranks: int, phase: str, tmp_path: Path) -> None:
    assert_same(*both(RANKS.format(ranks=ranks, phases=phase, more=""), tmp_path), tmp_path)


@pytest.mark.parametrize(
    "more",
    [
        "",
        "until: 40us\n",
        "transport: {}\n",
        "transport: {operation: read}\n",
        "transport: {retransmission: selective-repeat}\n" + FAULT.format(),
        FAULT.format(),
    ],
)
def test_jobs_beside_other_traffic_are_the_same(more: str, tmp_path: Path) -> None:
    """Several jobs, background and parallel phases, trees and incasts that stay messages."""
    kept, due = both(MIXED.replace("traffic:", more + "traffic:"), tmp_path)
    assert_same(kept, due, tmp_path)
    assert due.summary["messages"]["made_as_due"] > 0
    assert "made_as_due" not in kept.summary["messages"]


def test_senders_that_dcqcn_slows_down_are_the_same(tmp_path: Path) -> None:
    kept, due = both(MARKED, tmp_path)
    assert kept.summary["transport"]["cnps"] > 0
    assert_same(kept, due, tmp_path)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ranks=st.integers(2, 12),
    size=st.integers(40, 60_000),
    channels=st.integers(1, 3),
    window=st.none() | st.integers(1, 4),
    kinds=st.lists(st.sampled_from(["allreduce", "allgather", "alltoall"]), min_size=1, max_size=3),
    seed=st.integers(1, 1000),
)
def test_random_phases_are_the_same(
    ranks: int,
    size: int,
    channels: int,
    window: int | None,
    kinds: list[str],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("random")
    phases = []
    for number, kind in enumerate(kinds):
        bound = f", window: {window}" if kind == "alltoall" and window is not None else ""
        back = ", background: true" if number % 2 else ""
        phases.append(f"{{{kind}: {{bytes: {size}B, channels: {channels}{bound}}}{back}}}")
    text = RANKS.format(ranks=ranks, phases=", ".join(phases), more="")
    text = text.replace("phases:", "placement: random, iterations: 2, phases:")
    assert_same(*both(text, folder, seed), folder)


def test_more_messages_than_are_kept_are_made_as_they_are_due() -> None:
    """17 rings over 1024 ranks: 35.6 million messages, of which the two barriers' are kept."""
    shipped = (Path(workloads.__file__).parent / "allreduce-1024.yaml").read_text()
    found = plan(read_run(shipped.replace("algorithm: ring", "algorithm: ring, channels: 17")))
    assert found.due is not None
    assert len(found.messages) == 3 * 1024
    count = 17 * 2 * 1023 * 1024
    assert count > MAX_MESSAGES
    assert found.due.messages(len(found.flows)).sum() == count
    assert found.due.bytes(len(found.flows)).sum() == 2 * 1023 * 64_000_000
    assert found.core_share == 1
    assert plan(read_run(shipped), keep=MAX_MESSAGES).due is None


# --- statistics -----------------------------------------------------------------------------------


@given(
    kept=st.lists(st.integers(0, 1 << 40), max_size=30),
    counted=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=200),
)
def test_a_tally_has_the_spread_of_its_values(kept: list[int], counted: list[int]) -> None:
    """Values below 128 are exact, others lose all but eight bits: never above, never 1/128 off."""
    cut = [v if v < 128 else v >> v.bit_length() - 8 << v.bit_length() - 8 for v in counted]
    values, counts = np.unique(np.array(cut, dtype=np.int64), return_counts=True)
    tally = Tally(values, counts, sum(counted), max(counted))
    found = spread_with(np.array(kept, dtype=np.int64), tally)
    exact = spread(np.array(kept + counted, dtype=np.int64))
    for key, value in exact.items():
        assert (is_rounded if key.startswith("p") else int.__eq__)(value, found[key]), key


def test_nothing_counted_is_nothing() -> None:
    assert spread_with(np.array([3, 1]), Tally.joined([])) == spread(np.array([3, 1]))
