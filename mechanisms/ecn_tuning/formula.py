"""When a queue marks, by what comes for it: a formula of its number of flows and its bursts.

    thresholds(Measured(flows=66, rise_bytes=2_400_000), rate_bps, feedback_ps, wait_ps, room_bytes)

With C the port's rate, T the feedback delay (a round trip without queues: so long nobody who is
marked can have slowed down), B the room that the queue has, N the flows that send, R by how much
the queue grows at most while no sender slows down, and W how long a packet may wait where marking
begins, the ramp begins at K and ends at 4 K:

    K = B - R                      what stands when the next burst comes and the burst have to fit
    but at least C T / sqrt(N)     or the line runs dry when N flows slow down
    and at most C W                or packets wait longer than they may

The first line is the bound of Wu, Ju, Lu, Guo, Xiong, Zhang (Tuning ECN for Data Center Networks,
CoNEXT 2012), who compute R for TCP's windows; here it is measured, at line-rate senders and without
a model of them. The second is that of Appenzeller, Keslassy, McKeown (Sizing Router Buffers,
SIGCOMM 2004). The third is a choice: two round trips unless the file says otherwise. The ramp
(1 : 4, 20 %) is that of HPCC's settings (SIGCOMM 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log

from topologies.ecn import CERTAIN, EcnThresholds

RATIO = 4
"""The upper threshold over the lower one."""

PROBABILITY = CERTAIN // 5
"""At the upper threshold."""

CELLS = 256
"""By which a switch counts flows (TUNING_CELLS of p4src/modules/ecn_tuning.p4)."""

PS_PER_S = 10**12


@dataclass(frozen=True)
class Measured:
    """What came for a queue: `flows` that sent, and by how many bytes it would have grown most."""

    flows: int
    rise_bytes: int

    def and_of(self, other: Measured) -> Measured:
        """Return the most of both."""
        return Measured(max(self.flows, other.flows), max(self.rise_bytes, other.rise_bytes))


def flows_of(cells: int) -> int:
    """Return how many flows so many of the cells are of: some share one.

    Linear counting (Whang, Vander-Zanden, Taylor, ACM TODS 1990): n = -m ln(empty / m).
    """
    empty = max(1, CELLS - cells)
    return round(-CELLS * log(empty / CELLS))


def bytes_in(rate_bps: int, time_ps: int) -> int:
    """Return what a line carries in a time."""
    return rate_bps * time_ps // (8 * PS_PER_S)


def thresholds(
    measured: Measured, rate_bps: int, feedback_ps: int, wait_ps: int, room_bytes: int
) -> EcnThresholds:
    """Return when the queue is to mark. `rate_bps` and times are the fabric's."""
    loop = bytes_in(rate_bps, feedback_ps)
    least = isqrt(loop * loop // max(1, measured.flows))
    low = max(min(room_bytes - measured.rise_bytes, bytes_in(rate_bps, wait_ps)), least)
    return EcnThresholds(low, RATIO * low, PROBABILITY)
