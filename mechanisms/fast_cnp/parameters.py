"""How queues send fast CNPs, and what a source does with them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""What the source's integers hold (hostagent/include/fast_cnp.h)."""

VALIDITY_UNIT_NS = 256
"""What a notification's validity counts in, in fabric time: 2^0 to 2^15 of them, 8.4 ms."""

RATE_UNIT_BPS = 1 << 16
"""What its rate counts in (protocols/notification.py, which needs scapy)."""

SHARE_PPM = 25_000

LEAST_PART = 4096
"""The least rate that anybody is held to is this part of a line."""


@dataclass(frozen=True)
class FastCnp:
    """How a class's queues send fast CNPs; what is None the controller computes from the loops.

    `target_bytes`: what a queue is to hold; `share_ppm`: of a port's rate that its CNPs may take,
    enough for one a full packet; `gateway`: borders answer for the ports at the far end of their
    long links.
    """

    target_bytes: int | None = None
    share_ppm: int = SHARE_PPM
    gateway: bool = False


@dataclass(frozen=True)
class FastCnpParameters:
    """What a source does with fast CNPs (hostagent/include/fast_cnp.h); bits/s and ns, as they run.

    A notification's validity counts in `validity_unit_ns`, its rate in `rate_unit_q16` / 2^16
    bits/s.
    """

    line_rate_bps: int
    min_rate_bps: int
    validity_unit_ns: int
    rate_unit_q16: int

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def fields(self) -> dict[str, int]:
        """Return the fields of `struct fast_cnp_params` (hostagent/include/fast_cnp.h)."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "validity_unit_ns": self.validity_unit_ns,
            "rate_unit_q16": self.rate_unit_q16,
        }

    def with_time_scale(self, scale: int) -> FastCnpParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        slow: FastCnpParameters = slowed(self, scale)
        return replace(slow, rate_unit_q16=max(self.rate_unit_q16 // scale, 1))


def fast_cnp_parameters(line_rate_bps: int, time_scale: int = 1) -> FastCnpParameters:
    """Return how a source whose interface has `line_rate_bps` in the fabric takes fast CNPs.

    The least rate is a share of the line: so many sources share a port of its rate.
    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: the source's integers hold up to {MAX_RATE_BPS}"
        )
    return FastCnpParameters(
        line_rate_bps=line_rate_bps,
        min_rate_bps=max(line_rate_bps // LEAST_PART, 1),
        validity_unit_ns=VALIDITY_UNIT_NS,
        rate_unit_q16=RATE_UNIT_BPS << 16,
    ).with_time_scale(time_scale)
