"""How queues send fast CNPs, and what a source does with them."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.slow_motion import ParameterError, slowed

US = 1000

MAX_RATE_BPS = 1 << 42
"""What the source's integers hold (hostagent/include/fast_cnp.h)."""

VALIDITY_UNIT_NS = 256
"""What a notification's validity counts in, in fabric time: 2^0 to 2^15 of them, 8.4 ms."""


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

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def fields(self) -> dict[str, int]:
        """Return the fields of `struct fast_cnp_params` (hostagent/include/fast_cnp.h)."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "rate_ai": self.rate_ai_bps,
            "rate_hai": self.rate_hai_bps,
            "increase_timer_ns": self.increase_timer_ns,
            "validity_unit_ns": self.validity_unit_ns,
            "quiet": self.quiet,
        }

    def with_time_scale(self, scale: int) -> FastCnpParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        return slowed(self, scale)


def fast_cnp_parameters(line_rate_bps: int, time_scale: int = 1) -> FastCnpParameters:
    """Return how a source whose interface has `line_rate_bps` in the fabric takes fast CNPs.

    Increases are shares of the line, so that they serve any rate: 1/256 a step, later 1/32.
    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
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
