"""DCQCN in the simulator against the published fluid model (mechanisms/dcqcn/fluid_model.py).

    h2 .. hN+1 ==> s1 ==bottleneck==> h1

Three comparisons, each within 25 %:
1. the reaction point alone, under a constant marking probability, stands still at the fair share
   where the model's fixed point says so;
2. closed loop with `hpcc-dcqcn`: marking and queue, as means over time, are those of the equations'
   solution, which rests (in the published model, where every cut sets the target, it does not);
3. closed loop with `hpcc-dcqcn-paper`: marking and (queue - Kmin) are the fixed point's, for ten
   senders and, with a flat ramp and a faster increase, for two.

As published, two senders of `hpcc-dcqcn-paper` have their fixed point 1.7 packets above Kmin, and a
single cut drains more than that: no fluid. docs/congestion-control.md has what is measured there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.dcqcn.fluid_model import FluidModel
from mechanisms.dcqcn.parameters import SETS, DcqcnParameters, parameters, thresholds
from simulator.result_model import Stop
from simulator.runner import Simulation
from tests.hostagent.native_replay import Alone
from topologies.ecn import CERTAIN, EcnThresholds
from workloads.loader import read_run

FABRIC = Path(__file__).parents[3] / "p4src" / "fabric.p4"
GBPS = 10**9
PS = 10**12
PAYLOAD, FRAME, ON_THE_WIRE = 4096, 4096 + 58, 4096 + 82

RUN = """
topology:
  generator: single
  hosts: {hosts}
  link: {{rate: {gbps}Gbps, delay: 1us, queue: 64MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, ecn: {ecn}}}
    rest: {{queue: 0}}
until: {milliseconds}ms
sample: 10ms
buffer: {{shared: 64MB, alpha: 8, headroom: formula}}
transport: {{parameters: {name}, overrides: {{rate_ai: {rate_ai}bps, rate_hai: {rate_hai}bps}}}}
traffic:
  - incast: {{to: h1, senders: {flows}, persistent: true}}
"""


def given(name: str, gbps: int) -> DcqcnParameters:
    """Return the set without hyper increase, which the model does not have."""
    found = parameters(name, gbps * GBPS)
    return replace(found, rate_hai_bps=found.rate_ai_bps)


def model(name: str, gbps: int, flows: int) -> FluidModel:
    marks = thresholds(name, gbps * GBPS)
    return FluidModel.of(given(name, gbps), marks, gbps * GBPS, flows=flows, payload=PAYLOAD)


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flows", [2, 10])
@pytest.mark.parametrize("gbps", [25, 100, 400])
def test_small_fixed_points_are_those_of_the_authors_approximation(gbps: int, flows: int) -> None:
    """p = (R_AI N^2 / (tau' C^2) (1/B + N/(C T))^2)^(1/3): in their stability.m."""
    found = model("hpcc-dcqcn-paper", gbps, flows).clamped()
    per_timer = found.flows / (found.capacity * found.increase_timer)
    cube = found.rate_ai * flows**2 / (found.alpha_timer * found.capacity**2) * per_timer**2
    assert found.fixed_point().marking == pytest.approx(cube ** (1 / 3), rel=0.1)


@pytest.mark.parametrize("name", SETS)
def test_phase_margins_say_what_characteristic_roots_say(name: str) -> None:
    """Two ways to the same answer: the loop cut open, and the rightmost root of the whole."""
    for gbps in (10, 40, 100, 400):
        for flows in (2, 10):
            found = model(name, gbps, flows).stability()
            assert (found.phase_margin_deg > 0) == (found.growth < 0)


def test_the_scaled_set_would_leave_its_fixed_point_if_it_clamped() -> None:
    for flows in (2, 10):
        paper, scaled = (model(name, 100, flows) for name in ("hpcc-dcqcn-paper", "hpcc-dcqcn"))
        assert paper.clamped().stability().phase_margin_deg > 15
        assert paper.stability().phase_margin_deg > 15
        assert scaled.stability().phase_margin_deg > 5
        unstable = scaled.clamped()
        assert unstable.stability().phase_margin_deg < -4
        solution = unstable.solve(0.5)
        assert solution.least_bytes == 0
        assert solution.most_bytes > unstable.fixed_point().queue_bytes


def test_a_stable_solution_ends_at_the_fixed_point() -> None:
    found = model("hpcc-dcqcn-paper", 10, 10)
    point, solution = found.fixed_point(), found.solve(0.5)
    assert solution.marking == pytest.approx(point.marking, rel=0.01)
    assert solution.most_bytes - solution.least_bytes < 0.01 * point.queue_bytes
    assert point.rate_bps == pytest.approx(10 * GBPS / 10)


# --- 1. the reaction point alone ------------------------------------------------------------------


class Sender:
    """A queue pair whose every packet is marked with the same probability, and told at once."""

    def __init__(self, set_: DcqcnParameters, seed: int) -> None:
        self.set = set_
        self.alone = Alone.begun("dcqcn", set_.fields(), 0)
        self.state = self.alone.state
        self.random = random.Random(seed)
        self.now = 0.0

    def event(self, kind: int) -> None:
        self.alone.event(int(self.now), kind=kind)

    def mean_rate(self, p: float, marks: int) -> float:
        """In bits/s, over all but the first fifth of so many marks."""
        sent, since = 0.0, 0.0
        for number in range(marks):
            if number == marks // 5:
                sent, since = 0.0, self.now
            packets = 1 + int(np.log(1 - self.random.random()) / np.log1p(-p))
            left = packets * 8.0 * ON_THE_WIRE
            sent += left
            while left > 0:
                state, set_ = self.state, self.set
                due = state.increase_at + set_.increase_timer_ns
                if state.pending:
                    due = min(due, state.cut_at + set_.cut_interval_ns)
                due = max(due, int(self.now) + 1) if state.limited else 1 << 62
                whole = left * 1e9 / state.rate
                if self.now + whole < due:
                    self.now += whole
                    left = 0.0
                else:
                    left -= (due - self.now) * state.rate / 1e9
                    self.now = float(due)
                    self.event(2)
            self.event(0)
        return sent * 1e9 / (self.now - since)


@pytest.mark.parametrize("flows", [2, 10])
@pytest.mark.parametrize(("clamps", "off"), [(False, 0.15), (True, 0.25)])
@pytest.mark.parametrize("name", ["hpcc-dcqcn", "hpcc-dcqcn-paper"])
def test_the_reaction_point_rests_at_the_fixed_point_s_marking(
    name: str, clamps: bool, off: float, flows: int
) -> None:
    """Faster than the fair share at 1 - off of the fixed point's p, slower at 1 + off of it.

    With the published model, in which every cut sets the target, and with ours for these sets.
    """
    fluid = model(name, 100, flows)
    point = (fluid.clamped() if clamps else fluid).fixed_point()
    set_ = replace(given(name, 100), clamp_target_rate=clamps)
    for factor, seed in ((1 - off, 1), (1 + off, 2)):
        rate = Sender(set_, seed).mean_rate(factor * point.marking, 6000)
        assert (rate > point.rate_bps) == (factor < 1), (factor, rate)


# --- 2., 3. closed loop ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    marking: float
    queue_bytes: float
    jain: float
    lost: int


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


def measured(
    set_: DcqcnParameters, flows: int, milliseconds: int, ecn: EcnThresholds | None = None
) -> Measured:
    """Means of a run's last 60 %; the queue by Little's law, from the time that packets waited.

    `set_` may differ from the one of its name in the two increases. `ecn` None: the set's.
    """
    ramp = "{{min: {}B, max: {}B, probability: {}%}}"
    text = RUN.format(
        hosts=flows + 1,
        gbps=set_.line_rate_bps // GBPS,
        name=set_.name,
        ecn=ramp.format(ecn.min_bytes, ecn.max_bytes, 100 * ecn.probability / CERTAIN)
        if ecn
        else set_.name,
        flows=flows,
        milliseconds=milliseconds,
        rate_ai=set_.rate_ai_bps,
        rate_hai=set_.rate_hai_bps,
    )
    run = Simulation(read_run(text), program())
    seen = []

    def look() -> None:
        port = run.ended(Stop.UNTIL).switches["s1"].ports[1]
        seen.append((run.engine.now, port["wait_ps"], run.engine.flow_stats(0, flows).copy()))

    run.at(milliseconds * PS // 1000 * 2 // 5, look)
    outcome = run.run()
    look()
    (start, waited, before), (end, waited_after, after) = seen
    received = (after["received_packets"] - before["received_packets"]).astype(float)
    marked = (after["marked"] - before["marked"]).sum()
    ports = outcome.end.switches["s1"].ports.values()
    lost = sum(port[name] for port in ports for name in port if name.startswith("drop_"))
    return Measured(
        float(marked / received.sum()),
        (waited_after - waited) / (end - start) * FRAME,
        float(received.sum() ** 2 / (flows * (received**2).sum())),
        lost,
    )


@pytest.mark.parametrize(("flows", "milliseconds"), [(2, 3000), (10, 1000)])
def test_the_scaled_set_rests_as_the_model_does(flows: int, milliseconds: int) -> None:
    solution = model("hpcc-dcqcn", 25, flows).solve(1.0)
    found = measured(given("hpcc-dcqcn", 25), flows, milliseconds)
    assert found.marking == pytest.approx(solution.marking, rel=0.25)
    assert found.queue_bytes == pytest.approx(solution.queue_bytes, rel=0.25)
    assert found.jain >= 0.99
    assert found.lost == 0


def rests_at_the_fixed_point(
    set_: DcqcnParameters, flows: int, milliseconds: int, marks: EcnThresholds
) -> None:
    """Within 25 %: the fraction marked, and how far the queue is above Kmin."""
    rate = set_.line_rate_bps
    point = FluidModel.of(set_, marks, rate, flows=flows, payload=PAYLOAD).fixed_point()
    found = measured(set_, flows, milliseconds, marks)
    kmin = marks.min_bytes
    assert found.marking == pytest.approx(point.marking, rel=0.25)
    assert found.queue_bytes - kmin == pytest.approx(point.queue_bytes - kmin, rel=0.25)
    assert found.jain >= 0.99
    assert found.lost == 0


@pytest.mark.parametrize("gbps", [10, 25])
def test_ten_senders_of_the_paper_s_set_rest_at_the_fixed_point(gbps: int) -> None:
    marks = thresholds("hpcc-dcqcn-paper", gbps * GBPS)
    rests_at_the_fixed_point(given("hpcc-dcqcn-paper", gbps), 10, 20_000 // gbps, marks)


@pytest.mark.parametrize(("gbps", "flatter"), [(10, 20), (25, 40)])
def test_two_senders_rest_at_the_fixed_point_of_a_flat_ramp(gbps: int, flatter: int) -> None:
    """Where the queue above Kmin is 68 and 102 packets, and increases are DCQCN's own 40 Mb/s."""
    published = thresholds("hpcc-dcqcn-paper", gbps * GBPS)
    width = flatter * (published.max_bytes - published.min_bytes)
    marks = replace(published, max_bytes=published.min_bytes + width)
    set_ = replace(given("hpcc-dcqcn-paper", gbps), rate_ai_bps=40_000_000, rate_hai_bps=40_000_000)
    rests_at_the_fixed_point(set_, 2, 30_000 // gbps, marks)


@pytest.mark.parametrize("flows", [2, 10])
@pytest.mark.parametrize("name", SETS)
def test_flows_end_with_equal_shares_and_lose_nothing(name: str, flows: int) -> None:
    """Every set as shipped, hyper increase and all."""
    found = measured(parameters(name, 25 * GBPS), flows, 300)
    assert found.jain >= 0.99
    assert found.lost == 0
    assert found.marking > 0


@pytest.mark.parametrize(("gbps", "flows"), [(25, 2), (25, 10), (100, 10)])
def test_the_paper_s_set_as_shipped_marks_as_at_the_fixed_point(gbps: int, flows: int) -> None:
    """With hyper increase in both: the model's terms for it and for the target are ours.

    Two flows at 100 Gb/s mark half as much again: their marks come in bursts, from a queue that
    swings far below Kmin, and a target that is kept through a burst is what the model has not.
    """
    name = "hpcc-dcqcn-paper"
    marks = thresholds(name, gbps * GBPS)
    set_ = parameters(name, gbps * GBPS)
    full = FluidModel.of(set_, marks, gbps * GBPS, flows=flows)
    point = full.fixed_point()
    assert point.marking > 1.5 * full.without_hyper().fixed_point().marking
    found = measured(set_, flows, 20_000 // gbps)
    assert found.marking == pytest.approx(point.marking, rel=0.25)
