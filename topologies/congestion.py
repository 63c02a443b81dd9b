"""Published parameter sets of DCQCN, and the thresholds at which switches mark for them.

    parameters("hpcc-dcqcn", line_rate_bps=400 * 10**9, time_scale=10_000)
    thresholds("hpcc-dcqcn", rate_bps=400 * 10**9)

A set belongs to link rates in the fabric; the time scale turns it into that of a slowed-down run
here and nowhere else: rates are divided by it, times multiplied, bytes stay (DESIGN §2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

GBPS = 10**9
MBPS = 10**6
US = 1000
KB = 1000
GAIN_ONE = 1 << 16
CERTAIN = 1 << 32
"""A probability of 1, in EcnThresholds."""

MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold (hostagent/include/dcqcn.h)."""


AnyParameters = TypeVar("AnyParameters", "DcqcnParameters", "FastCnpParameters")


class CongestionError(ValueError):
    """A parameter set that is not there, or a rate that no set serves; the message says which."""


def _slower(rate_bps: int, scale: int) -> int:
    """To the nearest bit/s, so that small rates are not off to one side; at least one."""
    return max((rate_bps + scale // 2) // scale, 1)


def _slowed(parameters: AnyParameters, scale: int) -> AnyParameters:
    """Return the same with rates (`..._bps`) and times (`..._ns`) of a run that is so slow."""
    if scale < 1:
        raise CongestionError(f"a time scale of {scale}: it has to be a positive integer")
    changed: dict[str, Any] = {}
    for name in (each.name for each in fields(parameters)):
        value = getattr(parameters, name)
        if name.endswith("_bps"):
            changed[name] = _slower(value, scale)
        elif name.endswith("_ns"):
            changed[name] = value * scale
    return replace(parameters, **changed)


@dataclass(frozen=True)
class DcqcnParameters:
    """Everything that DCQCN's two ends are told; rates in bits/s, times in ns, as they run.

    `gain_q16` is g in 1/65536; `byte_counter` in bytes, 0 for increases by time alone;
    `cut_interval_ns`: CNPs nearer than that to the last cut do not cut again; `cnp_interval_ns` is
    the receiver's: at most one CNP a queue pair in that time.
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
    fast_recovery: int
    gain_q16: int
    cnp_interval_ns: int

    def with_time_scale(self, scale: int) -> DcqcnParameters:
        """Return the same algorithm slowed down by `scale`. Raises CongestionError."""
        return _slowed(self, scale)


@dataclass(frozen=True)
class FastCnpParameters:
    """What a source does with fast CNPs (hostagent/include/fast_cnp.h); bits/s and ns, as they run.

    After a notification's time the rate grows by `rate_ai_bps` a step, and by `rate_hai_bps` after
    `quiet` of them; a step takes as long as the notification stood, at least `increase_timer_ns`.
    A notification's validity counts in `validity_unit_ns`.
    """

    line_rate_bps: int
    min_rate_bps: int
    rate_ai_bps: int
    rate_hai_bps: int
    increase_timer_ns: int
    validity_unit_ns: int
    quiet: int

    def with_time_scale(self, scale: int) -> FastCnpParameters:
        """Return the same algorithm slowed down by `scale`. Raises CongestionError."""
        return _slowed(self, scale)


VALIDITY_UNIT_NS = 256
"""What a notification's validity counts in, in fabric time: 2^0 to 2^15 of them, 8.4 ms."""


@dataclass(frozen=True)
class EcnThresholds:
    """Nothing is marked up to `min_bytes`; from there to `max_bytes` linearly up to `probability`.

    Above `max_bytes` everything is. `probability` counts in 1/2^32 (CERTAIN).
    """

    min_bytes: int
    max_bytes: int
    probability: int


EcnMarking = EcnThresholds | str
"""How a class marks: thresholds in bytes, or the name of a parameter set (for the port's rate)."""


@dataclass(frozen=True)
class FastCnp:
    """How a class's queues send fast CNPs; what is None the controller computes from the loops.

    `low_bytes`: sources are told above it; `high_bytes`: the queue has to drain above it;
    `share_ppm`: of a port's rate that its CNPs may take; `gateway`: borders answer for the ports at
    the far end of their long links.
    """

    low_bytes: int | None = None
    high_bytes: int | None = None
    share_ppm: int = 10_000
    gateway: bool = False


def step(size_bytes: int) -> EcnThresholds:
    """Return thresholds that mark everything above `size_bytes` and nothing below."""
    return EcnThresholds(size_bytes, size_bytes, CERTAIN)


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
        fast_recovery=5,
        gain_q16=GAIN_ONE // 256,
        cnp_interval_ns=50 * US,
    )


def _hpcc(
    alpha_us: int, cut_us: int, increase_us: int
) -> Callable[[str, str, int], DcqcnParameters]:
    """That model's receiver echoes every mark; its sender cuts at most once in `cut_us`.

    Two CNPs in an alpha period tell alpha as much as more would, and cost less.
    """

    def parameters(name: str, source: str, line: int) -> DcqcnParameters:
        return DcqcnParameters(
            name,
            source,
            line_rate_bps=line,
            min_rate_bps=max(line // 100, 1),  # published: 1 Gb/s, of 100
            rate_ai_bps=max(5 * MBPS * line // (25 * GBPS), 1),
            rate_hai_bps=max(50 * MBPS * line // (25 * GBPS), 1),
            alpha_timer_ns=alpha_us * US,
            increase_timer_ns=increase_us * US,
            byte_counter=0,
            cut_interval_ns=cut_us * US,
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
        raise CongestionError(f"there is no parameter set {name!r}: choose {', '.join(SETS)}")
    return found


def parameters(name: str, line_rate_bps: int, time_scale: int = 1) -> DcqcnParameters:
    """Return a set for senders whose interface has `line_rate_bps` in the fabric.

    Raises CongestionError: no such set, or a rate beyond the algorithm's numbers.
    """
    found = _named(name)
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise CongestionError(
            f"a line of {line_rate_bps} bits/s: DCQCN's integers hold up to {MAX_RATE_BPS}"
        )
    return found.parameters(name, found.source, line_rate_bps).with_time_scale(time_scale)


def fast_cnp_parameters(line_rate_bps: int, time_scale: int = 1) -> FastCnpParameters:
    """Return how a source whose interface has `line_rate_bps` in the fabric takes fast CNPs.

    Increases are shares of the line, so that they serve any rate: 1/256 a step, later 1/32.
    Raises CongestionError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise CongestionError(
            f"a line of {line_rate_bps} bits/s: the source's integers hold up to {MAX_RATE_BPS}"
        )
    return FastCnpParameters(
        line_rate_bps=line_rate_bps,
        min_rate_bps=max(line_rate_bps // 400, 1),
        rate_ai_bps=max(line_rate_bps // 256, 1),
        rate_hai_bps=max(line_rate_bps // 32, 1),
        increase_timer_ns=5 * US,
        validity_unit_ns=VALIDITY_UNIT_NS,
        quiet=5,
    ).with_time_scale(time_scale)


def thresholds(name: str, rate_bps: int) -> EcnThresholds:
    """Return where the queue of a port of `rate_bps` (in the fabric) marks for a set.

    Raises CongestionError if there is no such set.
    """
    return _named(name).thresholds(rate_bps)


def at_rate(marking: EcnMarking, rate_bps: int) -> EcnThresholds:
    """Return the thresholds of a port of `rate_bps` (in the fabric). Raises CongestionError."""
    return thresholds(marking, rate_bps) if isinstance(marking, str) else marking
