"""When flows ran, so that goodput is over that time and not over a run that had ended long before.

A flow runs from its first packet sent to its last packet received; while something that it has to
send is not done, to the run's end. So a flow that stands still counts as running.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simulator.result_statistics import rate_bps, total

if TYPE_CHECKING:
    from simulator.result_model import RunEnd
    from workloads.model import Traffic

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FlowTimes:
    """By flow: payload that came, and from when to when it ran; -1 where nothing was sent."""

    received_bytes: Integers
    begins: Integers
    ends: Integers

    @classmethod
    def of(cls, traffic: Traffic, end: RunEnd) -> FlowTimes:
        """Read them off a run that has ended."""
        stats = end.flow_stats
        begins = np.asarray(stats["first_sent"]).astype(np.int64)
        last = np.asarray(stats["last_received"]).astype(np.int64)
        ends = np.where(_waits(traffic, end), end.now_ps, np.maximum(last, begins))
        received = np.asarray(stats["received_bytes"]).astype(np.int64)
        return cls(received, begins, np.where(begins >= 0, ends, -1))

    def span_ps(self) -> int:
        """Return for how long any flow ran: the first one's begin to the last one's end."""
        ran = self.begins >= 0
        return int(self.ends[ran].max() - self.begins[ran].min()) if ran.any() else 0

    def goodput_bps(self) -> int | None:
        """Return the payload of all over that time; None if there was none."""
        span = self.span_ps()
        return rate_bps(total(self.received_bytes), span) if span > 0 else None

    def each_bps(self) -> list[int]:
        """Return each flow's payload over its own time; 0 where nothing came."""
        times = (self.ends - self.begins).tolist()
        return [
            max(0, rate_bps(size, time))
            for size, time in zip(self.received_bytes.tolist(), times, strict=True)
        ]


def _waits(traffic: Traffic, end: RunEnd) -> npt.NDArray[np.bool_]:
    """Say of each flow whether it had something to send that was not done."""
    waits: npt.NDArray[np.bool_] = np.zeros(len(traffic.flows), np.bool_)
    messages, times = traffic.messages.messages, end.message_times
    undone = (messages["bytes"] > 0) & (times["ready"] >= 0) & (times["done"] < 0)
    waits[messages["flow"][undone]] = True
    waits[traffic.streams["flow"][_open(traffic.streams, end)]] = True
    if traffic.due is not None and end.due is not None:
        flows = end.due.flows
        count = traffic.due.messages(len(flows))
        waits |= (flows["first_ready"] >= 0) & (flows["done"].astype(np.int64) < count)
    shared: npt.NDArray[np.bool_] = waits[traffic.first_flows()]
    return shared


def _open(streams: Any, end: RunEnd) -> npt.NDArray[np.bool_]:
    """Say of each stream whether it had begun, and neither its time nor its packets were over."""
    sent = end.flow_stats["sent_packets"][streams["flow"]]
    left = (streams["packets"] == 0) | (sent < streams["packets"])
    now = end.now_ps
    open_: npt.NDArray[np.bool_] = (streams["start_ps"] <= now) & (streams["stop_ps"] > now) & left
    return open_
