"""What a run in real time is asked to do and what was seen of it, in fabric time and bytes.

Times are picoseconds of the fabric since the run's start: real ones divided by the time scale. All
of them come from one clock: the kernel's monotonic one, which switches, hosts and eBPF share. A run
in the simulator can be looked at in the same way (`experiments.live_beside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.live_planes import PlaneSeen

MOST_STALLED = 0.01

Series = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LiveSettings:
    """How a run file runs in real time.

    `ports`: switch ports whose queue is watched, as (switch, port): that of the first flow's class.
    `above_bytes`: when they first hold more than that is noted exactly. `seed` None: the file's.
    `jitter_ps`: each flow starts later than the file says by up to that, chosen by the seed.
    `time_scale`: what the whole run is slowed down by. `sample_ps`: between two looks in the
    simulator, as often as in real time by default. `compared`: each message is
    one WRITE of random bytes, by the seed, and what arrived is compared with them.
    """

    time_scale: int
    ports: tuple[tuple[str, int], ...] = ()
    seed: int | None = None
    jitter_ps: int = 0
    above_bytes: int = 0
    sample_ps: int = 200_000
    compared: bool = False


@dataclass(frozen=True)
class PortSeries:
    """A switch port's queue over time: `depth_bytes[i]` waited there at `at_ps[i]`.

    `peak_bytes`: the most that it held, and `above_ps`: when it first held more than the settings'
    `above_bytes` (None: never); both are the switch's own, not of looks, and of one class.
    `marked_packets`: sent with CE by its program, None where that has no such counter. `drops`: by
    reason. `sent_bytes`: on the wire, in the whole run.
    """

    switch: str
    port: int
    at_ps: Series
    depth_bytes: Series
    peak_bytes: int
    above_ps: int | None
    marked_packets: int | None = None
    drops: Mapping[str, int] = field(default_factory=dict)
    sent_bytes: int = 0

    @property
    def name(self) -> str:
        """As topologies write it: s1:5."""
        return f"{self.switch}:{self.port}"

    @property
    def resolution_ps(self) -> int:
        """The time between two looks that 95 % of them keep; what happens within is not seen."""
        return _gap(self.at_ps)

    def rises_above(self, depth_bytes: int, from_ps: int = 0) -> int | None:
        """Return when the queue first came to be deeper than that, None if it never did.

        Taken as a straight line between the look before and the one after.
        """
        above = np.flatnonzero((self.at_ps >= from_ps) & (self.depth_bytes > depth_bytes))
        return None if not len(above) else self._crossing(int(above[0]), depth_bytes)

    def falls_below(self, depth_bytes: int, from_ps: int) -> int | None:
        """Return when the queue, from `from_ps` on, is first no deeper than that; None if never."""
        below = np.flatnonzero((self.at_ps >= from_ps) & (self.depth_bytes <= depth_bytes))
        return None if not len(below) else self._crossing(int(below[0]), depth_bytes)

    def peak_between(self, from_ps: int, to_ps: int) -> int:
        """Return the deepest that was seen in a part of the run, 0 without a sample."""
        within = (self.at_ps >= from_ps) & (self.at_ps < to_ps)
        return int(self.depth_bytes[within].max(initial=0))

    def _crossing(self, index: int, depth_bytes: int) -> int:
        if index == 0:
            return int(self.at_ps[0])
        (at_0, at_1), (depth_0, depth_1) = (
            (int(series[index - 1]), int(series[index]))
            for series in (self.at_ps, self.depth_bytes)
        )
        if min(depth_0, depth_1) > depth_bytes or max(depth_0, depth_1) < depth_bytes:
            return at_1  # nothing was crossed: it was so when one began to look
        if depth_0 == depth_1:
            return at_1
        return at_0 + (at_1 - at_0) * (depth_bytes - depth_0) // (depth_1 - depth_0)


@dataclass(frozen=True)
class FlowSeries:
    """A flow over time, and what its two ends counted.

    `acked_bytes`: what the source had acknowledged when (empty in the simulator, which does not
    report it); `delivered_bytes`: what the target had received in order. `rate_bps`: what
    congestion control let the source send (the fabric's rates; empty without). `start_ps`: when its
    first message was handed over; `done_ps`: when its last one was complete, None if it never was:
    at the source, in the simulator at the target, which is half a round trip before.
    `first_cut_ps`: when congestion control first lowered the rate, None if it never did.
    `source_counts`, `target_counts`: rnic_qp_stats. `wrong_bytes`: of its last message, as it
    arrived; None where they were not compared. `planes`: by interface, where those are planes.
    """

    source: str
    target: str
    start_ps: int
    acked_at_ps: Series
    acked_bytes: Series
    delivered_at_ps: Series
    delivered_bytes: Series
    rate_at_ps: Series
    rate_bps: Series
    done_ps: int | None = None
    first_cut_ps: int | None = None
    source_counts: Mapping[str, int] = field(default_factory=dict)
    target_counts: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    wrong_bytes: int | None = None
    planes: tuple[PlaneSeen, ...] = ()

    @property
    def name(self) -> str:
        """As results write it: h1->h5."""
        return f"{self.source}->{self.target}"

    def delivered_between(self, from_ps: int, to_ps: int) -> int:
        """Return the bytes received in a part of the run; between two looks a straight line."""
        if not len(self.delivered_at_ps):
            return 0
        at = np.interp([from_ps, to_ps], self.delivered_at_ps, self.delivered_bytes)
        return round(float(at[1] - at[0]))


@dataclass(frozen=True)
class LiveRun:
    """One run, until its sources were stopped at `until_ps`. `drops`: by switch or host, and why.

    `stalled_ps`: how long in all the machine stood still for more than endpoints make up for, so
    that something else than congestion control held senders up; `attempts`: how often the run was
    repeated because of that. `programs`: what each of the run file's counted, as summary.json has
    it. `modes`: how frames come to each host's endpoint, af_xdp or af_packet; none in the
    simulator.
    """

    name: str
    runtime: str
    time_scale: int
    seed: int
    until_ps: int
    ports: tuple[PortSeries, ...]
    flows: tuple[FlowSeries, ...]
    drops: Mapping[str, Mapping[str, int]]
    stalled_ps: int = 0
    attempts: int = 1
    programs: Sequence[Mapping[str, Any]] = ()
    modes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_steady(self) -> bool:
        """Whether the machine kept up: stood still for at most `MOST_STALLED` of the run."""
        return self.stalled_ps <= MOST_STALLED * self.until_ps

    def port(self, switch: str, port: int) -> PortSeries:
        """Return a watched port. Raises KeyError."""
        for each in self.ports:
            if (each.switch, each.port) == (switch, port):
                return each
        raise KeyError(f"{switch}:{port} was not watched")

    def goodput_bps(self, from_ps: int = 0, to_ps: int | None = None) -> float:
        """Return the payload bits a second of all flows together, in a part of the run."""
        end = self.until_ps if to_ps is None else to_ps
        received = sum(flow.delivered_between(from_ps, end) for flow in self.flows)
        return 8 * received * 10**12 / max(1, end - from_ps)

    @property
    def first_cut_ps(self) -> int | None:
        """When the first of the sources was slowed down; None if none was."""
        cuts = [flow.first_cut_ps for flow in self.flows if flow.first_cut_ps is not None]
        return min(cuts, default=None)

    def reaction_ps(self, switch: str, port: int) -> int | None:
        """Return the time from the queue's first `above_bytes` to the first source's first cut.

        None: one of them did not happen. Raises KeyError.
        """
        above_ps, cut_ps = self.port(switch, port).above_ps, self.first_cut_ps
        return None if above_ps is None or cut_ps is None else cut_ps - above_ps

    def count(self, name: str, *, at_target: bool = False) -> int:
        """Return a counter of rnic_qp_stats over all flows, at their sources or their targets."""
        ends = (flow.target_counts if at_target else flow.source_counts for flow in self.flows)
        return sum(counts.get(name, 0) for counts in ends)


def _gap(at_ps: Series) -> int:
    if len(at_ps) < 2:
        return 0
    return int(np.quantile(np.diff(at_ps), 0.95))
