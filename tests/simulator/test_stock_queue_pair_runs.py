"""Stock NICs in virtual time: learned from the leaves' samples, told by plain CNPs.

h1 (stock), h2, h3 at s1, h4, h5, h6 at s2; the receivers' switch marks nothing, so that every CNP
that a sender gets was made by a switch for the queue pair that the table named.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.fast_cnp.queue_pairs import Answer, SourceIs, Target
from mechanisms.fast_cnp.stock_queue_pairs import StockQueuePairs
from simulator.runner import Simulation
from workloads.loader import read_run

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
H1, H4 = 0x0A000101, 0x0A000201

RUN = """
topology:
  generator: leaf_spine
  spines: 1
  leaves: 2
  hosts_per_leaf: 3
  link: {rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, fast_cnp: true}
    rest: {queue: 0}
  stock_nics: [h1]
until: 6ms
controller: {delay: DELAY}
transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn}
traffic:
  - message: {from: h1, to: h4, bytes: 1GB}
  - message: {from: h1, to: h4, bytes: 1GB}
  - message: {from: h2, to: h4, bytes: 1GB}
"""


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


class Played:
    """A run that has ended: CNPs of each flow, and the table of each switch."""

    def __init__(self, text: str, delay: str = "100us") -> None:
        simulation = Simulation(read_run(text.replace("DELAY", delay)), program())
        outcome = simulation.run()
        stats = outcome.end.transport_stats
        assert stats is not None
        self.cnps = [int(n) for n in np.asarray(stats["cnps"])]
        self.totals = outcome.end.totals
        learner = simulation.control.loop.learners["fast_cnp"]
        assert isinstance(learner, StockQueuePairs)
        self.counts = learner.counts
        learned = simulation.control.model.learned
        self.tables = {
            name: {str(entry.match): entry.action for entry in entries.values()}
            for name, entries in learned.items()
        }
        self.answers: dict[Target, Answer] = dict(learner.logic.answers())


def qp(flow: int) -> int:
    """Both ends of a flow have the same number in the simulator."""
    return flow + 1


def test_each_queue_pair_of_a_stock_nic_hears_of_its_own_congestion() -> None:
    played = Played(RUN)
    assert played.answers == {Target(H4, qp(flow)): SourceIs(H1, qp(flow)) for flow in (0, 1)}
    assert set(played.tables) == {"s1", "s2", "s3"}
    assert played.cnps[0] > 0 and played.cnps[1] > 0
    assert played.counts.resolved == 2
    assert {f"queue_pairs_{k}": v for k, v in asdict(played.counts).items()}.items() <= set(
        played.totals.items()
    )


def test_nothing_is_known_before_the_controller_has_heard() -> None:
    played = Played(RUN, delay="20ms")
    assert played.answers == {}
    # Nobody knows whom to tell: one packet in a while is marked, and receivers tell their sources.
    assert 0 < max(played.cnps[:2]) <= 6000 // 50


def test_a_run_is_the_same_again() -> None:
    one, other = Played(RUN), Played(RUN)
    assert (one.cnps, one.counts, one.totals) == (other.cnps, other.counts, other.totals)
