"""When a plane that was lost may be used again, and by how much of its line."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""As the other algorithms of a slot have it."""

LEAST_SHARE = 400
"""A plane's least rate is its line's by this: far below where a ramp begins, at 1/16."""


@dataclass(frozen=True)
class DualPlaneParameters:
    """What `struct dual_plane_params` has (hostagent/include/dual_plane.h); as they run.

    A plane is held down for `hold_ns`, twice as long as the last time, at most `hold_most_ns`, if
    it was lost before it had stood for `stable_ns`. It is up after `answers` in a row, and carries
    1/16 of its line for `ramp_ns`, then 1/4 for as long.
    """

    line_rate_bps: int
    min_rate_bps: int
    hold_ns: int
    hold_most_ns: int
    stable_ns: int
    ramp_ns: int
    answers: int

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def fields(self) -> dict[str, int]:
        """Return the fields of the C structure."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "hold_ns": self.hold_ns,
            "hold_most_ns": self.hold_most_ns,
            "stable_ns": self.stable_ns,
            "ramp_ns": self.ramp_ns,
            "answers": self.answers,
        }

    def with_time_scale(self, scale: int) -> DualPlaneParameters:
        """Return the same slowed down by `scale`. Raises ParameterError."""
        return slowed(self, scale)


def least_rate_bps(line_rate_bps: int) -> int:
    """Return the least rate of a plane with that line. Raises ParameterError: beyond integers."""
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: the sender's integers hold up to {MAX_RATE_BPS}"
        )
    return max(line_rate_bps // LEAST_SHARE, 1)
