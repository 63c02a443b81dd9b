"""What Swift's sender runs with (hostagent/include/swift.h).

    swift_parameters(400 * 10**9).in_fabric(base_rtt_ns=13_000, hops=5, packet_bytes=4096)

They belong to a fabric; the time scale turns them into those of a slowed-down run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from workloads.slow_motion import ParameterError, slowed

MAX_RATE_BPS = 1 << 42
"""What the algorithm's integers hold."""

ONE_Q16 = 1 << 16
WINDOW_MAX_Q16 = 1 << 34
NS_PER_S = 10**9

AI, BETA, MAX_MDF = 1.0, 0.8, 0.5
"""Google's own defaults (isekai's rate update engine for Falcon), as csg-htsim has them, too."""

FS_MIN, FS_MAX = 0.1, 256.0
"""Windows, in packets, between which flow scaling goes from its range to nothing: Google's."""

FS_TRIPS = 4
"""Flow scaling adds at most so many base delays: Google's 100 us with a base delay of 25 us."""

WINDOW_MIN = 0.01
"""The smallest window, in packets: Google's."""

HOP_PACKETS = 2
"""Packets of the sender's line that may wait at each hop. Ours: Google's 1 us a hop, with 25 us of
base delay, is a round trip of queues where five hops are 5 us apart."""

LEAST_PART = 4000
"""The least rate is this part of the line: so many sources share a port of its rate."""


@dataclass(frozen=True)
class SwiftParameters:
    """What senders have; rates in bits/s, times in ns, as they run; windows in packets.

    `base_rtt_ns` is the fabric's longest round trip without queues, `hops` how many switches it
    passes, `packet_bytes` a packet's payload: 0 as long as no fabric is known; `hop_scale_ns` what
    each hop adds to the target and `fs_range_ns` what flow scaling adds at most, None as long as
    these follow from the fabric; `own_base`: a queue pair's base is the shortest round trip that it
    has seen, else the fabric's longest.
    """

    line_rate_bps: int
    min_rate_bps: int
    base_rtt_ns: int = 0
    hops: int = 0
    packet_bytes: int = 0
    hop_scale_ns: int | None = None
    fs_range_ns: int | None = None
    fs_min: float = FS_MIN
    fs_max: float = FS_MAX
    ai: float = AI
    beta: float = BETA
    max_mdf: float = MAX_MDF
    window_min: float = WINDOW_MIN
    own_base: bool = True

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    @property
    def hops_ns(self) -> int:
        """What may wait at all hops together."""
        return self.hops * (self.hop_scale_ns or 0)

    def in_fabric(self, base_rtt_ns: int, hops: int, packet_bytes: int) -> SwiftParameters:
        """Return them with what follows from a fabric, where nothing was said."""
        trip = self.base_rtt_ns or base_rtt_ns
        packet = self.packet_bytes or packet_bytes
        scale, most = self.hop_scale_ns, self.fs_range_ns
        if scale is None:
            scale = -(-HOP_PACKETS * packet * 8 * NS_PER_S // self.line_rate_bps)
        return replace(
            self,
            base_rtt_ns=trip,
            hops=self.hops or hops,
            packet_bytes=packet,
            hop_scale_ns=scale,
            fs_range_ns=FS_TRIPS * trip if most is None else most,
        )

    def fields(self) -> dict[str, int]:
        """Return the fields of the C structure.

        The first window is what the line carries in a base round trip, the largest twice what it
        carries at the longest target.
        """
        most_ns = self.fs_range_ns or 0
        alpha = most_ns / (1 / sqrt(self.fs_min) - 1 / sqrt(self.fs_max))
        first = self._carries_q16(self.base_rtt_ns)
        least = max(round(self.window_min * ONE_Q16), 1)
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "base_rtt_ns": self.base_rtt_ns,
            "hops_ns": self.hops_ns,
            "fs_alpha_ns": round(alpha),
            "fs_offset_ns": round(alpha / sqrt(self.fs_max)),
            "fs_range_ns": most_ns,
            "first_q16": max(first, least),
            "most_q16": max(
                2 * self._carries_q16(self.base_rtt_ns + self.hops_ns + most_ns), least, first
            ),
            "least_q16": least,
            "packet_bytes": self.packet_bytes,
            "ai_q16": round(self.ai * ONE_Q16),
            "beta_q16": round(self.beta * ONE_Q16),
            "max_mdf_q16": round(self.max_mdf * ONE_Q16),
            "own_base": int(self.own_base),
        }

    def _carries_q16(self, ns: int) -> int:
        """Return how many packets, in 1/65536, the line carries in a time, at least one."""
        carried = self.line_rate_bps * ns * ONE_Q16 // (8 * NS_PER_S * max(self.packet_bytes, 1))
        return min(max(carried, ONE_Q16), WINDOW_MAX_Q16 // 2)

    def with_time_scale(self, scale: int) -> SwiftParameters:
        """Return the same algorithm slowed down by `scale`. Raises ParameterError."""
        told = replace(self, hop_scale_ns=self.hop_scale_ns or 0, fs_range_ns=self.fs_range_ns or 0)
        slow: SwiftParameters = slowed(told, scale)
        return slow


def swift_parameters(line_rate_bps: int) -> SwiftParameters:
    """Return what senders run with whose interface has that rate, before a fabric is known.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    if not 0 < line_rate_bps <= MAX_RATE_BPS:
        raise ParameterError(
            f"a line of {line_rate_bps} bits/s: Swift's integers hold up to {MAX_RATE_BPS}"
        )
    return SwiftParameters(line_rate_bps, max(line_rate_bps // LEAST_PART, 1))
