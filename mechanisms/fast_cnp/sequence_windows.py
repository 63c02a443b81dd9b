"""What a queue pair may have sent by a moment, from samples of its packet sequence numbers (PSN).

PSNs have 24 bits and wrap; the first one of a connection is arbitrary. Times are nanoseconds.

    samples      o        o     o           o
    PSN         10       57    61          90
    at       ----------------------^-----------
    window            [57 - w ... 90 + w]        w: what may be in flight, or sent again
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

PSN_SPACE = 1 << 24
_HALF = PSN_SPACE // 2
_OUTSTANDING_READS = 16
"""READ requests of one queue pair that may wait for their answers: what RNICs offer."""
_TURNS = 8
"""Intervals that a flow may wait for its turn where several share a cell of the register."""


def distance(later: int, earlier: int) -> int:
    """Return how far PSN `later` is ahead of `earlier`: -2^23 .. 2^23 - 1."""
    return (later - earlier + _HALF) % PSN_SPACE - _HALF


@dataclass(frozen=True)
class SamplingTimes:
    """How a switch samples and what may happen between two samples; in ns of the clock that runs.

    A flow that sends is reported once in `interval_ns` until it was reported `reports` times, and
    once in `later_ns` ever after. A report is heard within `jitter_ns` of any other of the same
    moment.
    `window_packets`: how many packets a queue pair has in flight at most. `packets_per_s`: how many
    its port can send. What wasn't seen for `age_ns` is forgotten.
    """

    interval_ns: int
    later_ns: int
    reports: int
    jitter_ns: int
    age_ns: int
    window_packets: int
    packets_per_s: int

    def reach(self, duration_ns: int) -> int:
        """Return how many packets a queue pair can send in that time, at most."""
        return max(duration_ns, 0) * self.packets_per_s // 1_000_000_000 + 1

    def quiet_ns(self, reports: int) -> int:
        """Return after how long a flow would have been reported again, had it gone on sending.

        `reports`: how often it was reported before, in a row.
        """
        due = self.later_ns
        if reports < self.reports:
            due = min(due, _TURNS * self.interval_ns)
        return due + self.jitter_ns

    @property
    def stale_ns(self) -> int:
        """A flow that was not reported for so long is no rival of one that is."""
        return 3 * self.later_ns + 2 * self.jitter_ns


class Continuity(enum.Enum):
    """How a sample goes on from the one before."""

    CONTINUES = "it may have come so far"
    GAP = "so much time has passed that it may be anywhere"
    BREAKS = "no queue pair gets there: a new connection"


@dataclass(frozen=True, slots=True)
class _Sample:
    at: int
    position: int  # PSN, counted on beyond 24 bits
    span: int  # PSNs that a READ request takes beside its own
    quiet_ns: int  # had it sent on, the next report would have come in that time


class SentWindow:
    """The recent samples of the requests to one queue pair."""

    __slots__ = ("_first", "_samples", "_span", "_times")

    def __init__(self, times: SamplingTimes, at: int, psn: int, span: int, reports: int) -> None:
        """Start with the first sample. `span`: PSNs that a READ asks for; `reports`: in a row."""
        self._times = times
        self._samples = deque([_Sample(at, psn, span, times.quiet_ns(reports))])
        self._span = span  # of the largest READ
        self._first: int | None = psn  # a new flow's first packet is reported

    @property
    def last_at(self) -> int:
        """When it was last seen."""
        return self._samples[-1].at

    def add(self, at: int, psn: int, span: int, reports: int) -> Continuity:
        """Take the next sample. After BREAKS nothing has changed."""
        times, last = self._times, self._samples[-1]
        quiet_ns = times.quiet_ns(reports)
        ahead = last.span + times.reach(at - last.at + times.jitter_ns) + times.window_packets
        behind = times.window_packets + self._unanswered(last.position)
        if ahead >= _HALF or behind >= _HALF:
            self._samples.clear()
            self._samples.append(_Sample(at, psn, span, quiet_ns))
            self._span = span
            self._first = None
            return Continuity.GAP
        moved = distance(psn, last.position)
        if not -behind <= moved <= ahead:
            return Continuity.BREAKS
        position = last.position + moved
        self._samples.append(_Sample(max(at, last.at), position, span, quiet_ns))
        self._span = max(self._span, span)
        oldest = at - 2 * (times.later_ns + 2 * times.jitter_ns)
        while len(self._samples) > 1 and self._samples[1].at < oldest:
            self._samples.popleft()
        return Continuity.CONTINUES

    def _unanswered(self, position: int) -> int:
        """Return the PSNs before `position` of READ requests that may still wait for their
        answers.
        """
        most = _OUTSTANDING_READS * self._span
        return most if self._first is None else min(most, max(position - self._first, 0))

    def settled_at(self, at: int) -> int:
        """Return from when on no sample can come any more that is from the moment `at`."""
        times, last = self._times, self._samples[-1]
        if last.at >= at + times.jitter_ns:
            return last.at
        soonest = at + 2 * times.jitter_ns
        if at > last.at + last.quiet_ns:
            return soonest  # it was idle: had it begun to send, that would have been reported
        return max(soonest, last.at + last.quiet_ns + times.jitter_ns)

    def may_have_sent(self, psn: int, at: int) -> bool | None:
        """Say whether `psn` was among what had been sent and not long been answered at `at`.

        None if the samples can't tell.
        """
        bounds = self._bounds(at)
        if bounds is None:
            return None
        low, high = bounds
        if high - low >= _HALF:
            return None
        return (psn - low) % PSN_SPACE <= high - low

    def _bounds(self, at: int) -> tuple[int, int] | None:
        times, samples = self._times, self._samples
        first = len(samples) - 1
        while first >= 0 and samples[first].at > at - times.jitter_ns:
            first -= 1
        if first < 0:
            return None  # nothing is known of the time before
        low, high = samples[first].position, samples[first].position + samples[first].span
        for i in range(first + 1, len(samples)):
            sample = samples[i]
            low = min(low, sample.position)
            high = max(high, sample.position + sample.span)
            if sample.at >= at + times.jitter_ns:
                break
        else:
            unseen = min(at + times.jitter_ns - samples[-1].at, samples[-1].quiet_ns)
            high += times.reach(unseen)
        low -= times.window_packets + self._unanswered(low)
        return low, high + times.window_packets
