"""UDP source ports of flows: by the pair and the channel, moved by the seed, RoCEv2's range kept.

Bounds are of chance alone, at one in 10^6 or rarer: the seeds are fixed, so a test that holds
holds always.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from workloads.dag import FlowKind, FlowTable
from workloads.loader import read_run
from workloads.plan import plan
from workloads.transport_schema import TransportFields

PORTS = 1 << 14
FABRIC = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: 4
  hosts_per_leaf: 8
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
until: 1ms
"""
PAIRS = "traffic:\n" + "".join(
    f"  - message: {{from: h{i}, to: h{i + 8}, bytes: 1MB}}\n" for i in range(1, 9)
)
RING = "job: {ranks: 16, phases: [{allreduce: {bytes: 1MB, over: dp, channels: 4}}]}\n"


def ports(text: str, seed: int | None) -> npt.NDArray[np.int64]:
    """Return the ports of a run's flows, in their order."""
    return plan(read_run(FABRIC + text), seed).flows["udp_port"].astype(np.int64)


def drawn_ports(seeds: int, transport: TransportFields | None = None) -> npt.NDArray[np.int64]:
    """Return the ports of eight flows, each to the next leaf's host: a row a seed, from 1 on."""
    topology = read_run(FABRIC + PAIRS).topology
    rows = []
    for seed in range(1, seeds + 1):
        table = FlowTable(topology, transport, seed=seed)
        table.flows(FlowKind("traffic 0"), np.arange(8), np.arange(8, 16))
        rows.append(table.records()["udp_port"].astype(np.int64))
    return np.array(rows)


def test_without_a_seed_ports_are_what_they_always_were() -> None:
    always = [54416, 54431, 58278, 50943, 62968, 54612, 59169, 59674]
    assert ports(PAIRS, None).tolist() == always
    assert ports(PAIRS, 1).tolist() == ports("seed: 1\n" + PAIRS, None).tolist() == always


@pytest.mark.parametrize("text", [PAIRS, RING], ids=["pairs", "job"])
def test_a_seed_moves_every_port_and_gives_the_same_again(text: str) -> None:
    first, second = ports(text, 1), ports(text, 2)
    assert second.tolist() == ports(text, 2).tolist()
    assert second.tolist() == ports("seed: 2\n" + text, None).tolist()
    assert (first != second).mean() > 0.9  # of two seeds one port in 16384 is the same
    assert len(np.unique(second)) > 0.9 * len(second)


def test_a_port_of_the_file_stays() -> None:
    text = PAIRS.replace("bytes: 1MB", "bytes: 1MB, udp_port: 50000")
    assert {port for seed in range(20) for port in ports(text, seed).tolist()} == {50000}


def test_ports_of_all_seeds_are_in_rocev2s_range() -> None:
    for transport, several in ((None, 1), (TransportFields(udp_ports=1024), 1024)):
        drawn = drawn_ports(1024, transport)
        assert 49152 <= drawn.min() < 49152 + 64
        assert 65536 - several - 64 < drawn.max() <= 65536 - several


def test_over_seeds_a_port_is_any_with_the_same_chance() -> None:
    """Pearson's chi-squared over 64 equal parts of the range, for eight flows and 4096 seeds."""
    drawn = drawn_ports(4096) - 49152
    for flow in range(8):
        seen = np.bincount(drawn[:, flow] * 64 // PORTS, minlength=64)
        assert 21 < ((seen - 64) ** 2 / 64).sum() < 130  # 63 degrees of freedom
    # Seeds that follow each other, and two flows of one seed, know nothing of one another.
    pairs = {
        "seeds": (drawn[:-1, 0], drawn[1:, 0]),
        "flows": (drawn[:, 0], drawn[:, 1]),
        "differences": ((drawn[:, 2] - drawn[:, 3]) % PORTS, drawn[:, 2]),
    }
    for what, (one, other) in pairs.items():
        both = np.bincount((one * 8 // PORTS) * 8 + other * 8 // PORTS, minlength=64)
        expected = len(one) / 64
        assert 21 < ((both - expected) ** 2 / expected).sum() < 130, what
