"""What switches hold so that queues mark: thresholds of each port and class."""

from __future__ import annotations

from collections.abc import Iterator

from controller.entries import ActionCall, Entry, Exact, TableEntry, call, match
from controller.parts import View
from topologies.ecn import EcnThresholds

TABLE = "ecn_threshold"
MAX_SLOPE = (1 << 32) - 1  # of a bit<32>: the probability that a unit of depth adds


def ecn_entries(view: View) -> Iterator[Entry]:
    """Yield the thresholds of one switch's queues, in the target's unit of depth."""
    for port in view.topology.ports_of(view.switch.name):
        for class_of_service, marking in sorted(view.policy.setting("ecn").items()):
            if class_of_service >= view.facts.priorities:
                continue
            key = {"port": Exact(port.number), "class": Exact(class_of_service)}
            mark = _marking(view, marking.at(port.link.rate_bps))
            yield TableEntry(TABLE, match(**key), mark)


def _marking(view: View, thresholds: EcnThresholds) -> ActionCall:
    """Return the action that marks so, in the target's unit of depth."""
    packet = view.policy.packet_bytes
    low = view.facts.depth(thresholds.min_bytes, packet)
    high = view.facts.depth(thresholds.max_bytes, packet)
    if low >= high:
        return call("mark_above", threshold=low)
    slope = thresholds.probability // (high - low)  # at `high` at most the probability
    return call("mark_between", low=low, high=high, slope=min(max(slope, 1), MAX_SLOPE))
