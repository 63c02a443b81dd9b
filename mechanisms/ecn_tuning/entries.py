"""What switches hold to measure queues, and the entry by which one marks as was found."""

from __future__ import annotations

from collections.abc import Iterator

from controller.entries import DigestSetting, Entry, Exact, Match, TableEntry, call, match
from controller.parts import View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.ecn_tuning.formula import PS_PER_S
from mechanisms.ecn_tuning.queues import TunedQueue, queues_of
from topologies.ecn import EcnThresholds
from topologies.model import PS_PER_NS

NAME = "ecn_tuning"
QUEUE_TABLE = "tuned_queue"
THRESHOLD_TABLE = "tuned_threshold"
DIGEST = "tuning_report"

MOST_IN_A_LIST = 64
WAIT_PARTS = 10
"""Of an interval: a report is sent within one of them, or with others."""

MAX_SLOPE = (1 << 32) - 1  # of a bit<32>: the probability that a unit of depth adds


def entries(view: View) -> Iterator[Entry]:
    """Yield which queues are measured, and that their reports are sent."""
    queues = tuple(queues_of(view.topology, view.switch, view.policy, view.facts))
    if not queues:
        return
    shortest = min(each.interval_ps for each in queues)
    wait_ns = shortest * view.facts.time_scale // PS_PER_NS // WAIT_PARTS
    yield DigestSetting(DIGEST, wait_ns, MOST_IN_A_LIST)
    for each in queues:
        measure = call(
            "tune_queue",
            number=each.number,
            time_per_byte=_time_per_byte(each, view.facts),
            interval=view.facts.ticks(each.interval_ps),
        )
        yield TableEntry(QUEUE_TABLE, _key(each), measure)


def _time_per_byte(queue: TunedQueue, facts: TargetFacts) -> int:
    """Return a byte's time on the queue's line, in 1/65536 ticks."""
    slowed = 8 * PS_PER_S * facts.time_scale << 16
    unit = queue.rate_bps * facts.tick_ps
    return max(1, (slowed + unit // 2) // unit)


def threshold_entry(
    queue: TunedQueue, thresholds: EcnThresholds, facts: TargetFacts, policy: FabricPolicy
) -> TableEntry:
    """Return the entry by which a queue marks so, in the target's unit of depth."""
    low = facts.depth(thresholds.min_bytes, policy.packet_bytes)
    high = max(facts.depth(thresholds.max_bytes, policy.packet_bytes), low)
    slope = min(max(thresholds.probability // max(1, high - low), 1), MAX_SLOPE)
    mark = call("mark_tuned", low=low, high=high, slope=slope)
    return TableEntry(THRESHOLD_TABLE, _key(queue), mark)


def _key(queue: TunedQueue) -> Match:
    return match(port=Exact(queue.port), **{"class": Exact(queue.class_of_service)})
