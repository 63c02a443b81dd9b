"""What ENCC's sender runs with (hostagent/include/encc.h).

    encc_parameters(line_rate_bps=400 * 10**9, base_rtt_ns=13_000).with_time_scale(10_000)

They belong to a fabric; the time scale turns them into those of a slowed-down run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold."""

ONE_Q16 = 1 << 16

ETA = 0.95
"""The load that is aimed at: eta of HPCC's paper."""

INCREASE_PART = 115
"""A round trip adds this part of the line at the line's rate, and less to who is slower: two flows
that begin with 10 and 90 % are within 2 % of fairness after 350 round trips (docs/encc.md)."""

LEAST_PART = 4000
"""The least rate is this part of the line: so many sources share a port of its rate."""


@dataclass(frozen=True)
class EnccParameters:
    """The fields of `struct encc_params`; rates in bits/s, times in ns, as they run.

    `base_rtt_ns` is the fabric's longest round trip without queues, 0 as long as no fabric is
    known; `eta_q16` the load that is aimed at, in 1/65536; `max_stage` how many round trips in a
    row may only add; `time_scale`: ns here for one of the fabric; `by_root`: the
    increase grows with the root of the rate, else it is the same at any; `queue_free_bytes` may
    wait at a hop and count as none.
    """

    line_rate_bps: int
    min_rate_bps: int
    rate_ai_bps: int
    base_rtt_ns: int
    eta_q16: int
    max_stage: int
    time_scale: int = 1
    by_root: bool = True
    queue_free_bytes: int = 8192

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def fields(self) -> dict[str, int]:
        """Return the fields of the C structure."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "rate_ai": self.rate_ai_bps,
            "base_rtt_ns": self.base_rtt_ns,
            "eta_q16": self.eta_q16,
            "max_stage": self.max_stage,
            "time_scale": self.time_scale,
            "by_root": int(self.by_root),
            "queue_free": self.queue_free_bytes,
        }

    def with_time_scale(self, scale: int) -> EnccParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        slow: EnccParameters = slowed(self, scale)
        return replace(slow, time_scale=self.time_scale * scale)


def encc_parameters(line_rate_bps: int, base_rtt_ns: int = 0) -> EnccParameters:
    """Return what senders run with whose interface has that rate in the fabric.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: ENCC's integers hold up to {MAX_RATE_BPS}"
        )
    return EnccParameters(
        line_rate_bps=line_rate_bps,
        min_rate_bps=max(line_rate_bps // LEAST_PART, 1),
        rate_ai_bps=max(line_rate_bps // INCREASE_PART, 1),
        base_rtt_ns=base_rtt_ns,
        eta_q16=round(ETA * ONE_Q16),
        max_stage=0,
    )
