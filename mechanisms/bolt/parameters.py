"""What Bolt's sender runs with (hostagent/include/bolt.h).

    bolt_parameters(400 * 10**9).in_fabric(base_rtt_ns=13_000, packet_bytes=4096)

They belong to a fabric; the time scale turns them into those of a slowed-down run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold."""

ONE_Q16 = 1 << 16
WINDOW_MAX_Q16 = 1 << 34
NS_PER_S = 10**9

AI = 0.125
"""What a round trip adds, in packets. Ours: with the authors' whole packet sixteen flows of a line
hold a queue of two round trips: each has less than a packet of the line."""

MAX_MDF = 0.5
"""The authors' ns-3 program: MaxMd."""

WINDOW_MIN = 0.01
"""The smallest window, in packets. Ours: so many senders share a line."""

WINDOW_MOST = 2.0
"""The largest window, in what the line carries in a base round trip. Ours: the authors' is a number
of packets."""

LEAST_PART = 4000
"""The least rate is this part of the line: so many sources share a port of its rate."""


@dataclass(frozen=True)
class BoltParameters:
    """What senders have; rates in bits/s, times in ns, as they run; windows in packets.

    `base_rtt_ns` is the fabric's longest round trip without queues, `packet_bytes` a packet's
    payload: 0 as long as no fabric is known; `window_most` the largest window in what the line
    carries in a base round trip; `time_scale`: ns here for one of the fabric.
    """

    line_rate_bps: int
    min_rate_bps: int
    base_rtt_ns: int = 0
    packet_bytes: int = 0
    ai: float = AI
    max_mdf: float = MAX_MDF
    window_min: float = WINDOW_MIN
    window_most: float = WINDOW_MOST
    whole_steps: bool = False
    time_scale: int = 1

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def in_fabric(self, base_rtt_ns: int, packet_bytes: int) -> BoltParameters:
        """Return them with what follows from a fabric, where nothing was said."""
        trip, packet = self.base_rtt_ns or base_rtt_ns, self.packet_bytes or packet_bytes
        return replace(self, base_rtt_ns=trip, packet_bytes=packet)

    def fields(self) -> dict[str, int]:
        """Return the fields of the C structure.

        The first window is what the line carries in a base round trip.
        """
        first = self._carries_q16(self.base_rtt_ns)
        least = max(round(self.window_min * ONE_Q16), 1)
        most = min(max(round(self.window_most * first), first, least), WINDOW_MAX_Q16)
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "base_rtt_ns": self.base_rtt_ns,
            "first_q16": first,
            "most_q16": most,
            "least_q16": least,
            "packet_bytes": self.packet_bytes,
            "ai_q16": round(self.ai * ONE_Q16),
            "max_mdf_q16": round(self.max_mdf * ONE_Q16),
            "time_scale": self.time_scale,
            "whole_steps": int(self.whole_steps),
        }

    def _carries_q16(self, ns: int) -> int:
        """Return how many packets, in 1/65536, the line carries in a time, at least one."""
        carried = self.line_rate_bps * ns * ONE_Q16 // (8 * NS_PER_S * max(self.packet_bytes, 1))
        return min(max(carried, ONE_Q16), WINDOW_MAX_Q16)

    def with_time_scale(self, scale: int) -> BoltParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        slow: BoltParameters = slowed(self, scale)
        return replace(slow, time_scale=self.time_scale * scale)


def bolt_parameters(line_rate_bps: int) -> BoltParameters:
    """Return what senders run with whose interface has that rate, before a fabric is known.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: Bolt's integers hold up to {MAX_RATE_BPS}"
        )
    return BoltParameters(line_rate_bps, max(line_rate_bps // LEAST_PART, 1))
