"""DCQCN as a fluid: the published delay differential equations, and their fixed point's stability.

    model = FluidModel.of(parameters("hpcc-dcqcn-paper", rate), thresholds(...), rate, flows=10)
    model.fixed_point().marking, model.stability().phase_margin_deg, model.solve(0.5).marking

Equations: Zhu, Ghobadi, Misra, Padhye, "ECN or Delay", CoNEXT 2016, in the form of the authors' own
program (github jitupadhye-zz/rdma, fluidmodel/dcqcn/dcqcn2.m). N equal flows share a link of C
packets/s. p is the marking probability, x^ the value of x a feedback delay ago, tau the shortest
time between two cuts, tau' the alpha timer, T the increase timer, B the byte counter in packets:

    a = 1 - (1-p^)^(tau R^)                      a CNP within tau
    b = p^ / ((1-p^)^-B - 1)       c = b (1-p^)^(F B)          expiries of the byte counter a packet
    d = p^ / ((1-p^)^-(T R^) - 1)  e = d (1-p^)^(F T R^)       and of the timer; c, e: the F+1st on
    alpha' = g/tau' (1 - (1-p^)^(tau' R^) - alpha)
    Rt'    = -(Rt - R) a/tau + R_AI R^ (c + e)
    R'     = -R alpha a/(2 tau) + (Rt - R)/2 R^ (b + d)
    q'     = N R - C            p = Pmax (q - Kmin)/(Kmax - Kmin) above Kmin, 1 above Kmax

The published model has no hyper increase. Ours adds it where a set has one clock: expiries from the
F+2nd on add R_HAI, so that Rt' gets + (R_HAI - R_AI) R^ d (1-p^)^((F+1) T R^). R_HAI = R_AI is the
published model (`without_hyper`).

In the published model every cut sets Rt to R. Where a set does not clamp, only a cut that has an
increase before it does. With x = (1-p^)^min(B, T R^) the probability of that, a cut comes after
k increases with (1-x) x^k and then finds 1/2^k of the distance that cuts left between Rt and R:
those with k > 0 take together x/2 of what all would take. So Rt' begins with -(Rt - R) R^ p^ x/2 in
the place of -(Rt - R) a/tau. The reaction point alone is within 3 % of it
(tests/mechanisms/dcqcn/test_dcqcn_fluid.py); `clamped` is the published model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mechanisms.dcqcn.parameters import GAIN_ONE, DcqcnParameters
from topologies.ecn import CERTAIN, EcnThresholds
from workloads.slow_motion import ParameterError

Floats = npt.NDArray[np.float64]

ON_THE_WIRE = 82
"""Bytes a RoCE packet costs beside its payload: headers, ICRC, FCS, preamble and gap."""

FREQUENCIES = np.logspace(-2, 8, 50_001)
"""Where the loop's gain is looked at, rad/s."""

LARGEST = 700.0  # exp of more does not fit a float


@dataclass(frozen=True)
class FixedPoint:
    """Where nothing changes. `queue_bytes` as the marking probability tells it, beyond Pmax too."""

    marking: float
    queue_bytes: float
    rate_bps: float
    target_bps: float
    alpha: float


@dataclass(frozen=True)
class Stability:
    """Of the fixed point. `phase_margin_deg` of the linearised loop at its last gain crossover.

    `growth`: real part in 1/s of the rightmost characteristic root, found without the margin: the
    fixed point is stable if it is negative, which a positive margin ought to say as well.
    """

    phase_margin_deg: float
    crossover_rad_s: float
    growth: float


@dataclass(frozen=True)
class Solution:
    """Means over time of the equations' solution, and its queue's extremes."""

    marking: float
    queue_bytes: float
    least_bytes: float
    most_bytes: float


@dataclass(frozen=True)
class FluidModel:
    """Rates in packets/s, times in s, the queue in packets, as in the paper."""

    flows: int
    capacity: float
    packet_bytes: int
    rate_ai: float
    hyper: float
    tau: float
    alpha_timer: float
    increase_timer: float
    byte_counter: float
    fast_recovery: int
    gain: float
    clamps: bool
    kmin: float
    kmax: float
    pmax: float
    delay: float

    @classmethod
    def of(
        cls,
        given: DcqcnParameters,
        marks: EcnThresholds,
        rate_bps: int,
        *,
        flows: int,
        payload: int = 4096,
        delay_s: float = 4e-6,
    ) -> FluidModel:
        """Return the model of `flows` senders into a link of `rate_bps`."""
        packet = payload + ON_THE_WIRE
        return cls(
            flows=flows,
            capacity=rate_bps / (8 * packet),
            packet_bytes=packet,
            rate_ai=given.rate_ai_bps / (8 * packet),
            # With two clocks both have to be beyond F: hardly ever without a CNP.
            hyper=0.0 if given.byte_counter else given.rate_hai_bps / given.rate_ai_bps - 1,
            tau=max(given.cut_interval_ns, given.cnp_interval_ns) * 1e-9,
            alpha_timer=given.alpha_timer_ns * 1e-9,
            increase_timer=given.increase_timer_ns * 1e-9,
            byte_counter=given.byte_counter / packet,
            fast_recovery=given.fast_recovery,
            gain=given.gain_q16 / GAIN_ONE,
            clamps=given.clamp_target_rate,
            kmin=marks.min_bytes / packet,
            kmax=marks.max_bytes / packet,
            pmax=marks.probability / CERTAIN,
            delay=delay_s,
        )

    def without_hyper(self) -> FluidModel:
        """Return the model as published."""
        return replace(self, hyper=0.0)

    def clamped(self) -> FluidModel:
        """Return the model in which every cut sets the target, as published."""
        return replace(self, clamps=True)

    def _terms(self, p: float, rate: float) -> tuple[float, float, float, float, float]:
        """Return a, alpha's input, b + d, c + e and how often a second Rt is set to R.

        c + e in units of R_AI, hyper increase with it.
        """
        if p >= 1:
            return 1.0, 1.0, 0.0, 0.0, 1 / self.tau if self.clamps else 0.0
        log = math.log1p(-p)
        expiries = later = 0.0
        soonest = LARGEST / -log if log else math.inf
        for period in (self.byte_counter, self.increase_timer * rate):
            if period <= 0 or -period * log > LARGEST:
                continue
            each = p / math.expm1(-period * log) if p > 0 else 1 / period
            expiries += each
            soonest = min(soonest, period)
            additive = math.exp(self.fast_recovery * period * log)
            later += each * additive * (1 + self.hyper * math.exp(period * log))
        cut = -math.expm1(self.tau * rate * log)
        after_increase = math.exp(soonest * log)
        return (
            cut,
            -math.expm1(self.alpha_timer * rate * log),
            expiries,
            later,
            cut / self.tau if self.clamps else rate * p * after_increase / 2,
        )

    def _change(
        self, rate: float, target: float, alpha: float, p: float, past_rate: float
    ) -> tuple[float, float, float]:
        """Return d/dt of rate, target and alpha, given p and the rate a feedback delay ago."""
        cut, marked, expiries, later, set_back = self._terms(p, past_rate)
        gap = target - rate
        return (
            -rate * alpha * cut / (2 * self.tau) + gap / 2 * past_rate * expiries,
            -gap * set_back + self.rate_ai * past_rate * later,
            self.gain / self.alpha_timer * (marked - alpha),
        )

    def _rest(self, p: float) -> tuple[float, float, float]:
        """Return rate, target and alpha where target and alpha do not change at the fair share."""
        rate = self.capacity / self.flows
        _, marked, _, later, set_back = self._terms(p, rate)
        above = self.rate_ai * rate * later / set_back if set_back else math.inf
        return rate, min(rate + above, self.capacity), marked

    def fixed_point(self) -> FixedPoint:
        """Solve for the p at which the rate does not change: R' falls as p rises, so by halving."""
        low, high = 1e-12, 0.999
        for _ in range(100):
            middle = math.sqrt(low * high)
            rate, target, alpha = self._rest(middle)
            if self._change(rate, target, alpha, middle, rate)[0] > 0:
                low = middle
            else:
                high = middle
        rate, target, alpha = self._rest(low)
        bits = 8 * self.packet_bytes
        queue = self.kmin + low / self.pmax * (self.kmax - self.kmin)
        return FixedPoint(low, queue * self.packet_bytes, rate * bits, target * bits, alpha)

    def marking(self, queue: float) -> float:
        """Return p at a depth in packets."""
        if queue <= self.kmin:
            return 0.0
        if queue > self.kmax:
            return 1.0
        return (queue - self.kmin) / (self.kmax - self.kmin) * self.pmax

    def _linear(self) -> tuple[Floats, Floats, Floats]:
        """Return the Jacobian by (R, Rt, alpha) and the columns of R^ and q^: at rest."""
        p = self.fixed_point().marking
        at = np.array([*self._rest(p), p, self.capacity / self.flows])
        columns = []
        for i, value in enumerate(at):
            step = np.zeros(5)
            step[i] = value * 1e-6
            up, down = self._change(*(at + step)), self._change(*(at - step))
            columns.append((np.array(up) - np.array(down)) / (2 * step[i]))
        slope = self.pmax / (self.kmax - self.kmin)
        return np.array(columns[:3]).T, columns[4], columns[3] * slope

    def stability(self) -> Stability:
        """Linearise, cut the loop where the delay is, and see how far from unstable it is.

        Raises ParameterError if the loop has no gain crossover.
        """
        now, past_rate, past_queue = self._linear()
        s = 1j * FREQUENCIES
        driven = past_rate[None, :] + past_queue[None, :] * self.flows / s[:, None]
        undelayed = s[:, None, None] * np.eye(3) - now
        loop = -np.linalg.solve(undelayed, driven[:, :, None])[:, 0, 0]
        size = np.abs(loop)
        phase = np.unwrap(np.angle(loop)) - FREQUENCIES * self.delay
        crossings = np.flatnonzero((size[:-1] >= 1) & (size[1:] < 1))
        if not len(crossings):
            raise ParameterError("the loop's gain is 1 nowhere between 0.01 and 10^8 rad/s")
        last = int(crossings[-1])
        return Stability(
            180 + math.degrees(phase[last]),
            float(FREQUENCIES[last]),
            self._rightmost(now, past_rate, past_queue),
        )

    def _rightmost(
        self, now: Floats, past_rate: Floats, past_queue: Floats, points: int = 16
    ) -> float:
        """Return the rightmost root's real part: the delay collocated (Breda et al., SISC 2005)."""
        present, past = np.zeros((4, 4)), np.zeros((4, 4))
        present[:3, :3], present[3, 0] = now, self.flows
        past[:3, 0], past[:3, 3] = past_rate, past_queue
        j = np.arange(points + 1)
        nodes = np.cos(np.pi * j / points)
        weight = np.where((j == 0) | (j == points), 2.0, 1.0) * (-1.0) ** j
        apart = nodes[:, None] - nodes[None, :] + np.eye(points + 1)
        slopes = weight[:, None] / weight[None, :] / apart
        slopes -= np.diag(slopes.sum(axis=1))
        whole = np.zeros((4 * points + 4, 4 * points + 4))
        whole[4:] = np.kron(slopes[1:] * 2 / self.delay, np.eye(4))
        whole[:4, :4], whole[:4, -4:] = present, past
        return float(np.linalg.eigvals(whole).real.max())

    def solve(self, duration_s: float, *, settle: float = 0.5, step_s: float = 2e-6) -> Solution:
        """Integrate from the fair share and an empty queue; means leave the first `settle` out."""
        rate = target = self.capacity / self.flows
        alpha, queue = 0.001, 0.0
        lag = max(1, round(self.delay / step_s))
        past = [(0.0, rate)] * lag
        steps = round(duration_s / step_s)
        depths, marks = np.zeros(steps), np.zeros(steps)
        for i in range(steps):
            p, past_rate = past[i % lag]
            by_rate, by_target, by_alpha = self._change(rate, target, alpha, p, past_rate)
            rate = min(max(rate + by_rate * step_s, 1.0), self.capacity)
            target = min(max(target + by_target * step_s, rate), self.capacity)
            alpha += by_alpha * step_s
            queue = max(0.0, queue + (self.flows * rate - self.capacity) * step_s)
            depths[i], marks[i] = queue, self.marking(queue)
            past[i % lag] = (float(marks[i]), rate)
        depths, marks = depths[int(steps * settle) :], marks[int(steps * settle) :]
        return Solution(
            float(marks.mean()),
            float(depths.mean()) * self.packet_bytes,
            float(depths.min()) * self.packet_bytes,
            float(depths.max()) * self.packet_bytes,
        )
