"""What "ECN or Delay" (CoNEXT 2016) has in its figures, and how its authors came to it.

    python -m tests.mechanisms.dcqcn.published             both tables of docs/congestion-control.md
    python -m tests.mechanisms.dcqcn.published --simulate  spreads of whole runs, too: a minute

The numbers are those of github jitupadhye-zz/rdma, conext2016/figures: pm_rai40_delay*.txt (figure
3a: 40 Gb/s, packets of 1 kB, tau = 50 us, tau' = T = 55 us, F = 5, B = 10 MB, R_AI = 40 Mb/s,
Kmin = 5 kB, Kmax = 200 kB, Pmax = 1 %, g = 1/256), and convergence_*.txt, which the paper's source
has in a part that was left out of print. Their stability.m does not linearise their equations as
they are. The classes below change one thing after the other in ours, until it is theirs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.dcqcn.fluid_model import FixedPoint, FluidModel
from simulator.runner import Simulation
from workloads.loader import read_run

Floats = npt.NDArray[np.float64]
Linear = tuple[Floats, Floats, Floats]

US = 1e-6
NO_DELAY = 1e-9
MARGINS = {
    0: {2: 26.624, 4: 13.407, 10: 4.7564, 20: 9.6336, 50: 35.126, 100: 56.48},
    50: {2: 8.2626, 4: -0.75215, 10: -6.5844, 20: -0.95129, 50: 22.546, 100: 39.811},
    100: {2: -10.099, 4: -14.912, 10: -17.925, 20: -11.536, 50: 9.9651, 100: 23.142},
}
"""Degrees, by delay in us and number of flows."""

CONVERGENCE = {
    "default": {2: 0.096901, 4: 0.063592, 6: 0.049369, 8: 0.04124, 10: 0.035894, 100: 0.010089},
    "rai10": {2: 0.35817, 4: 0.22792, 6: 0.17292, 8: 0.14174},
    "kmax1000": {2: 0.1027, 4: 0.068737, 6: 0.054098, 8: 0.045673},
    "g16": {2: 0.10007, 4: 0.065715, 6: 0.051033, 8: 0.042638},
}
"""Seconds, by figure and number of flows."""


class Exact(FluidModel):
    """Ours, as it is."""


class Approximated(FluidModel):
    """The fixed point is that of the authors' formula, for p B F << 1 and p T R F << 1."""

    def fixed_point(self) -> FixedPoint:
        """Return p* = (R_AI N^2/(tau' C^2) (1/B + N/(C T))^2)^(1/3), and what follows of it."""
        each = 1 / self.byte_counter + self.flows / (self.capacity * self.increase_timer)
        cube = self.rate_ai * self.flows**2 / (self.alpha_timer * self.capacity**2) * each**2
        p = cube ** (1 / 3)
        rate, target, alpha = FluidModel._rest(Exact(**vars(self)), p)
        queue = self.kmin + p / self.pmax * (self.kmax - self.kmin)
        bits = 8 * self.packet_bytes
        return FixedPoint(p, queue * self.packet_bytes, rate * bits, target * bits, alpha)

    def _rest(self, p: float) -> tuple[float, float, float]:
        return FluidModel._rest(Exact(**vars(self)), p)


class Expanded(Approximated):
    """What depends on p is its Taylor series of the first order, also where p B is 9 and more.

    With A = 1/B + 1/(T R): b + d = A - (1 + A/2) p, and c + e = A - (1 + 2F + A/2) p. The byte
    counter, which hardly ever expires between two marks, so takes p/2 from all increases.
    """

    def _terms(self, p: float, rate: float) -> tuple[float, float, float, float, float]:
        expiries = 1 / self.byte_counter + 1 / (self.increase_timer * rate)
        return (
            self.tau * rate * p,
            self.alpha_timer * rate * p,
            expiries - (1 + expiries / 2) * p,
            expiries - (1 + 2 * self.fast_recovery + expiries / 2) * p,
            rate * p,
        )


class PerPacket(Expanded):
    """Alpha follows marks by the packet, alpha' = g R (p^ - alpha), and not by its timer."""

    def _linear(self) -> Linear:
        now, past_rate, past_queue = (each.copy() for each in super()._linear())
        gain = self.gain * self.capacity / self.flows
        now[2], past_rate[2] = [0, 0, -gain], 0
        past_queue[2] = gain * self.pmax / (self.kmax - self.kmin)
        return now, past_rate, past_queue


class Published(PerPacket):
    """Of (Rt - R) R^ A/2 what comes of R is delayed, what comes of R^ is not.

    In the equations it is the other way round. And A does not depend on the rate, and R^ R_AI A
    counts twice, once at once and once delayed.
    """

    def _linear(self) -> Linear:
        now, past_rate, past_queue = (each.copy() for each in super()._linear())
        p = self.fixed_point().marking
        rate, target, alpha = self._rest(p)
        a = 1 / self.byte_counter + 1 / (self.increase_timer * rate)
        half, steps = 0.5 + a / 4, 1 + 2 * self.fast_recovery + a / 2
        cut = -p * rate * alpha / 2
        now[0, 0] = cut + a / 2 * (target - rate) - half * p * (target - rate)
        past_rate[0] = cut - a / 2 * rate + half * p * rate
        now[1, 0] = p * rate + a * self.rate_ai
        past_rate[1] = -p * (target - rate) + (a - steps * p) * self.rate_ai
        return now, past_rate, past_queue


STEPS: tuple[type[FluidModel], ...] = (Exact, Approximated, Expanded, PerPacket, Published)


def figure_3(kind: type[FluidModel], flows: int, delay_us: float) -> FluidModel:
    """Return the model of figure 3a."""
    packet = 1000
    return kind(
        flows=flows,
        capacity=40e9 / (8 * packet),
        packet_bytes=packet,
        rate_ai=40e6 / (8 * packet),
        hyper=0.0,
        tau=50 * US,
        alpha_timer=55 * US,
        increase_timer=55 * US,
        byte_counter=10_000.0,
        fast_recovery=5,
        gain=1 / 256,
        clamps=True,
        kmin=5.0,
        kmax=200.0,
        pmax=0.01,
        delay=delay_us * US or NO_DELAY,
    )


def margin(model: FluidModel) -> float:
    """Return the phase margin in degrees, from -180 to 180."""
    return (model.stability().phase_margin_deg + 180) % 360 - 180


def swings(model: FluidModel, seconds: float, step: float = 2 * US) -> tuple[float, float]:
    """Solve the equations from the fixed point with 1 % more queue.

    Returns the queue's swing, most - least in packets, in the second and in the last fifth.
    """
    point = model.fixed_point()
    rate, target, alpha = model._rest(point.marking)
    queue = point.queue_bytes / model.packet_bytes * 1.01
    lag = max(1, round(model.delay / step))
    past = [(point.marking, rate)] * lag
    steps = round(seconds / step)
    depths = np.zeros(steps)
    for i in range(steps):
        change = model._change(rate, target, alpha, *past[i % lag])
        rate, target, alpha = (
            value + by * step for value, by in zip((rate, target, alpha), change, strict=True)
        )
        queue = max(0.0, queue + (model.flows * rate - model.capacity) * step)
        depths[i] = queue
        past[i % lag] = (model.marking(queue), rate)
    parts = depths.reshape(5, -1)
    return float(np.ptp(parts[1])), float(np.ptp(parts[4]))


def convergence_s(
    flows: int, *, rate_ai: float = 40e6, kmax: float = 200e3, gain: float = 1 / 256
) -> float:
    """Return the authors' upper bound of the time until rates differ by 10 % of the fair share.

    A discrete model: all flows cut at once, every d periods of tau', from alpha = a, where a is the
    fixed point of alpha -> (1-g)^(d-1) ((1-g) alpha + g), and d = 2 + (t/2 + C/(2 N R_AI)) alpha; t
    periods are the queue's way to Kmax. A cut takes a/2 of a difference, which begins with C.
    """
    capacity, period = 40e9, 55 * US
    filling = (-1 + math.sqrt(1 + 8 * 8 * kmax / (flows * rate_ai * period))) / 2

    def between(alpha: float) -> float:
        return 2 + (filling / 2 + capacity / (2 * flows * rate_ai)) * alpha

    low, high = 0.0, 1.0
    for _ in range(60):
        alpha = (low + high) / 2
        after = (1 - gain) ** (between(alpha) - 1) * ((1 - gain) * alpha + gain)
        low, high = (alpha, high) if after > alpha else (low, alpha)
    return math.log(0.1 / flows) / math.log(1 - low / 2) * period * between(low)


CHANGED: dict[str, dict[str, float]] = {
    "default": {},
    "rai10": {"rate_ai": 10e6},
    "kmax1000": {"kmax": 1000e3},
    "g16": {"gain": 1 / 16},
}
"""How each figure of convergence times differs from the first."""


# ---------------------------------------------------------------- whole runs

RUN = """
topology:
  generator: single
  hosts: {hosts}
  link: {{rate: 40Gbps, delay: 1us, queue: 64MB, mtu: 1100B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, ecn: {{min: 5kB, max: 200kB, probability: 1%}}}}
    rest: {{queue: 0}}
until: 300ms
sample: 500us
seed: {seed}
buffer: {{shared: 64MB, alpha: 8, headroom: formula}}
transport:
  parameters: ns3-rdma
  mtu: 1024
  overrides:
    {{alpha_timer: 55us, increase_timer: 55us, byte_counter: 10MB, rate_hai: 40Mbps}}
traffic:
  - incast: {{to: h1, from: [{early}], persistent: true}}
  - incast: {{to: h1, from: [{late}], persistent: true, start: 100ms}}
"""


def spread(program: CompiledProgram, flows: int, seed: int) -> float:
    """Return (most - least)/share of flows' rates over 2 ms, median from 200 to 300 ms.

    The last of the flows starts 100 ms after the others.
    """
    early = ", ".join(f"h{number}" for number in range(2, flows + 1))
    text = RUN.format(hosts=flows + 1, seed=seed, early=early, late=f"h{flows + 1}")
    with tempfile.TemporaryDirectory() as folder:
        Simulation(read_run(text), program).run(Path(folder) / "out")
        table = pq.read_table(Path(folder) / "out" / "flow_rates.parquet").to_pydict()
    sample_ps, samples = 500_000_000, 600
    sent = np.zeros((flows, samples + 1))
    for at, flow, size in zip(table["at_ps"], table["flow"], table["bytes"], strict=True):
        sent[flow, at // sample_ps] = size
    late = sent[:, 401:601].reshape(flows, 50, 4).sum(axis=2)
    return float(np.median(np.ptp(late, axis=0) / late.mean(axis=0)))


def margin_rows() -> list[str]:
    """Return the table of margins, Markdown: all steps for 50 us, for others the ends."""
    flows = tuple(MARGINS[0])
    rows = ["| delay | margin (degrees) | " + " | ".join(f"N = {n}" for n in flows) + " |"]
    rows.append("|---" * (2 + len(flows)) + "|")
    for delay, degrees in MARGINS.items():
        kinds = STEPS if delay == 50 else (Exact, Published)
        found = [("published", [degrees[n] for n in flows])]
        found += [
            (_NAMES[kind], [margin(figure_3(kind, n, delay)) for n in flows]) for kind in kinds
        ]
        for name, values in found:
            each = " | ".join(f"{value:.1f}" for value in values)
            rows.append(f"| {delay} us | {name} | {each} |")
    return rows


_NAMES = {
    Exact: "ours",
    Approximated: "with their fixed point",
    Expanded: "and series in p",
    PerPacket: "and alpha by the packet",
    Published: "and terms exchanged: theirs",
}


def main(*, simulates: bool) -> None:
    """Print both tables."""
    print(*margin_rows(), "", sep="\n")
    for name, seconds in CONVERGENCE.items():
        own = ((n, convergence_s(n, **CHANGED[name])) for n in seconds)
        print(name, ", ".join(f"N = {n}: {found:.5g} s ({seconds[n]})" for n, found in own))
    if simulates:
        program = CompiledProgram.of(compile_p4(Path("p4src/fabric.p4")))
        for n in (2, 4, 8):
            each = sorted(spread(program, n, seed) for seed in range(1, 7))
            print(f"N = {n}: spread {np.median(each):.3f} [{each[0]:.3f}, {each[-1]:.3f}] by seed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulate", action="store_true", help="play whole runs, too")
    main(simulates=parser.parse_args().simulate)
