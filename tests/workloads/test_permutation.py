"""Permutation traffic: each host sends to one other, and each receives from one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from topologies import TopologyError
from workloads.loader import read_run
from workloads.model import SpanKind
from workloads.plan import plan
from workloads.randomness import Random

RUN = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 8
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
traffic:
  - permutation: ENTRY
"""


def run_of(entry: str) -> str:
    return RUN.replace("ENTRY", entry)


def test_each_host_sends_to_one_other_and_receives_from_one() -> None:
    run = read_run(run_of("{bytes: 1MB, count: 3, gap: 1us}"))
    seen = set()
    for seed in range(1, 51):
        traffic = plan(run, seed)
        source, target = traffic.flows["src"], traffic.flows["dst"]
        assert source.tolist() == list(range(16))
        assert sorted(target.tolist()) == list(range(16))
        assert (source != target).all()
        seen.add(tuple(target.tolist()))
        messages = traffic.messages.messages
        assert np.bincount(messages["flow"]).tolist() == [3] * 16
        assert messages["waits"].tolist() == [0] * 16 + [1] * 32
        assert messages["gap_ps"].tolist() == [0] * 16 + [1_000_000] * 32
        spans = [span for span in traffic.spans if span.kind is SpanKind.TRAFFIC]
        assert [(span.name, span.stop - span.first) for span in spans] == [("permutation 0", 48)]
    assert len(seen) == 50
    assert plan(run, 7).flows.tobytes() == plan(run, 7).flows.tobytes()


def test_of_four_hosts_all_nine_ways_come_alike() -> None:
    ways = [each for each in permutations(range(4)) if all(i != a for i, a in enumerate(each))]
    found = [tuple(Random(seed, "permutation", 0).derangement(4)) for seed in range(1800)]
    seen = np.array([found.count(way) for way in ways])
    assert seen.sum() == 1800
    assert ((seen - 200) ** 2 / 200).sum() < 40  # 8 degrees of freedom: one in 10^5


def test_some_hosts_may_be_named() -> None:
    flows = plan(read_run(run_of("{bytes: 1kB, hosts: [h2, h9]}"))).flows
    assert list(zip(flows["src"].tolist(), flows["dst"].tolist(), strict=True)) == [(1, 8), (8, 1)]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{bytes: 1kB, hosts: [h1]}", "at least two hosts"),
        ("{bytes: 1kB, hosts: [h1, h2, h1]}", "h1 is there twice"),
        ("{bytes: 1kB, hosts: [h1, h99]}", "h99"),
        ("{hosts: [h1, h2]}", "bytes"),
        ("{bytes: 1kB, to: h2}", "unknown key 'to'"),
    ],
)
def test_what_can_not_be_is_said_with_its_line(entry: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says) as caught:
        read_run(run_of(entry))
    assert ":8:" in str(caught.value)
