"""Published parameter sets of DCQCN, and the thresholds at which switches mark for them.

    parameters("hpcc-dcqcn", line_rate_bps=400 * 10**9, time_scale=10_000)
    thresholds("hpcc-dcqcn", rate_bps=400 * 10**9)

A set belongs to link rates in the fabric; the time scale turns it into that of a slowed-down run
here and nowhere else: rates are divided by it, times multiplied, bytes stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from topologies.ecn import CERTAIN, EcnThresholds
from workloads.slow_motion import ParameterError, slowed

GBPS = 10**9
MBPS = 10**6
US = 1000
KB = 1000
GAIN_ONE = 1 << 16
MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold (hostagent/include/dcqcn.h)."""


@dataclass(frozen=True)
class DcqcnParameters:
    """All parameters of DCQCN's two ends; rates in bits/s, times in ns, as they run.

    `gain_q16` is g in 1/65536; `byte_counter` in bytes, 0 for increases by time alone;
    `cut_interval_ns`: CNPs nearer than that to the last cut do not cut again; `cnp_interval_ns` is
    the receiver's: at most one CNP a queue pair in that time. `clamp_target_rate`: every cut sets
    the target rate to the current one; without it only a cut after an increase does, so that cuts
    in a row leave the target from before the first of them. sources.py says whose each number is.
    """

    name: str
    source: str
    line_rate_bps: int
    min_rate_bps: int
    rate_ai_bps: int
    rate_hai_bps: int
    alpha_timer_ns: int
    increase_timer_ns: int
    byte_counter: int
    cut_interval_ns: int
    clamp_target_rate: bool
    fast_recovery: int
    gain_q16: int
    cnp_interval_ns: int

    @property
    def receiver_cnp_interval_ns(self) -> int:
        """How often the receiver answers marks with a CNP at most."""
        return self.cnp_interval_ns

    def fields(self) -> dict[str, int]:
        """Return the fields of `struct dcqcn_params` (hostagent/include/dcqcn.h)."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "rate_ai": self.rate_ai_bps,
            "rate_hai": self.rate_hai_bps,
            "alpha_timer_ns": self.alpha_timer_ns,
            "increase_timer_ns": self.increase_timer_ns,
            "byte_counter": self.byte_counter,
            "cut_interval_ns": self.cut_interval_ns,
            "fast_recovery": self.fast_recovery,
            "gain_q16": self.gain_q16,
            "clamp_target_rate": int(self.clamp_target_rate),
        }

    def with_time_scale(self, scale: int) -> DcqcnParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        return slowed(self, scale)


@dataclass(frozen=True)
class _Set:
    source: str
    parameters: Callable[[str, str, int], DcqcnParameters]
    thresholds: Callable[[int], EcnThresholds]


def _ns3_rdma(name: str, source: str, line: int) -> DcqcnParameters:
    return DcqcnParameters(
        name,
        source,
        line_rate_bps=line,
        min_rate_bps=min(100 * MBPS, line),
        rate_ai_bps=40 * MBPS,
        rate_hai_bps=200 * MBPS,
        alpha_timer_ns=55 * US,
        increase_timer_ns=60 * US,
        byte_counter=300_000_000,
        cut_interval_ns=0,
        clamp_target_rate=True,
        fast_recovery=5,
        gain_q16=GAIN_ONE // 256,
        cnp_interval_ns=50 * US,
    )


def _hpcc(
    alpha_us: int, cut_us: int, increase_us: int
) -> Callable[[str, str, int], DcqcnParameters]:
    """Return the constructor of that model's parameter sets.

    Its receiver echoes every mark; its sender cuts at most once in `cut_us`. Two CNPs in an alpha
    period have the same effect on alpha
    as more would, and cost less.
    """

    def parameters(name: str, source: str, line: int) -> DcqcnParameters:
        return DcqcnParameters(
            name,
            source,
            line_rate_bps=line,
            min_rate_bps=min(GBPS, max(line // 100, 1)),
            rate_ai_bps=max(5 * MBPS * line // (25 * GBPS), 1),
            rate_hai_bps=max(50 * MBPS * line // (25 * GBPS), 1),
            alpha_timer_ns=alpha_us * US,
            increase_timer_ns=increase_us * US,
            byte_counter=0,
            cut_interval_ns=cut_us * US,
            clamp_target_rate=False,
            fast_recovery=1,
            gain_q16=GAIN_ONE // 256,
            cnp_interval_ns=alpha_us * US // 2,
        )

    return parameters


def _ns3_rdma_thresholds(_rate: int) -> EcnThresholds:
    return EcnThresholds(40 * KB, 1000 * KB, CERTAIN)


def _hpcc_thresholds(rate: int) -> EcnThresholds:
    kilobytes = KB * rate // (25 * GBPS)
    return EcnThresholds(100 * kilobytes, 400 * kilobytes, CERTAIN // 5)


_SETS = {
    "ns3-rdma": _Set(
        "bobzhuyb/ns3-rdma, mix/config.txt (for links of 40 Gb/s)",
        _ns3_rdma,
        _ns3_rdma_thresholds,
    ),
    "hpcc-dcqcn-paper": _Set(
        "alibaba-edu/High-Precision-Congestion-Control, run.py, dcqcn_paper",
        _hpcc(50, 50, 55),
        _hpcc_thresholds,
    ),
    "hpcc-dcqcn": _Set(
        "alibaba-edu/High-Precision-Congestion-Control, run.py, dcqcn (scaled with bandwidth)",
        _hpcc(1, 4, 300),
        _hpcc_thresholds,
    ),
}

SETS = tuple(_SETS)
"""The names of the parameter sets."""

BANDWIDTH_SCALED = "hpcc-dcqcn"
"""The set that holds at any link rate, and the default."""


def _named(name: str) -> _Set:
    found = _SETS.get(name)
    if found is None:
        raise ParameterError(f"there is no parameter set {name!r}: choose {', '.join(SETS)}")
    return found


def parameters(name: str, line_rate_bps: int, time_scale: int = 1) -> DcqcnParameters:
    """Return a set for senders whose interface has `line_rate_bps` in the fabric.

    Raises ParameterError: no such set, or a rate beyond the algorithm's numbers.
    """
    found = _named(name)
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: DCQCN's integers hold up to {MAX_RATE_BPS}"
        )
    return found.parameters(name, found.source, line_rate_bps).with_time_scale(time_scale)


def thresholds(name: str, rate_bps: int) -> EcnThresholds:
    """Return where the queue of a port of `rate_bps` (in the fabric) marks for a set.

    Raises ParameterError if there is no such set.
    """
    return _named(name).thresholds(rate_bps)


@dataclass(frozen=True)
class MarkingOfSet:
    """A class marks as a parameter set's switches do, at whatever rate a port has."""

    set_name: str

    def at(self, rate_bps: int) -> EcnThresholds:
        """Return the thresholds of a port of `rate_bps` (in the fabric)."""
        return thresholds(self.set_name, rate_bps)
