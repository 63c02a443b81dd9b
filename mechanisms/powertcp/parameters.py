"""What PowerTCP's sender runs with (hostagent/include/powertcp.h).

    powertcp_parameters(line_rate_bps=400 * 10**9, base_rtt_ns=13_000).with_time_scale(10_000)

They belong to a fabric; the time scale turns them into those of a slowed-down run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold."""

ONE_Q16 = 1 << 16

ETA = 0.95
"""The power that is aimed at: the authors' program; the paper's rule has 1."""

GAMMA = 0.9
"""How much of the rate is the new one: the paper, section 3.3, and the authors' program."""

INCREASE_PART = 167
"""The increase is this part of the line: the authors' program, 150 Mb/s for hosts of 25 Gb/s."""

LEAST_PART = 4000
"""The least rate is this part of the line: so many sources share a port of its rate."""


@dataclass(frozen=True)
class PowerTcpParameters:
    """The fields of `struct powertcp_params`; rates in bits/s, times in ns, as they run.

    `base_rtt_ns` is the fabric's longest round trip without queues, 0 as long as no fabric is
    known; `eta_q16` the power that is aimed at, in 1/65536; `gamma_q16` how much of the rate is
    the new one, in 1/65536; `time_scale`: ns here for one of the fabric.
    """

    line_rate_bps: int
    min_rate_bps: int
    rate_ai_bps: int
    base_rtt_ns: int
    eta_q16: int
    gamma_q16: int
    time_scale: int = 1

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
            "gamma_q16": self.gamma_q16,
            "time_scale": self.time_scale,
        }

    def with_time_scale(self, scale: int) -> PowerTcpParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        slow: PowerTcpParameters = slowed(self, scale)
        return replace(slow, time_scale=self.time_scale * scale)


def powertcp_parameters(line_rate_bps: int, base_rtt_ns: int = 0) -> PowerTcpParameters:
    """Return what senders run with whose interface has that rate in the fabric.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: PowerTCP's integers hold up to {MAX_RATE_BPS}"
        )
    return PowerTcpParameters(
        line_rate_bps=line_rate_bps,
        min_rate_bps=max(line_rate_bps // LEAST_PART, 1),
        rate_ai_bps=max(line_rate_bps // INCREASE_PART, 1),
        base_rtt_ns=base_rtt_ns,
        eta_q16=round(ETA * ONE_Q16),
        gamma_q16=round(GAMMA * ONE_Q16),
    )
