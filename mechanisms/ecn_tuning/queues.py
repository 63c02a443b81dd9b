"""The queues of a fabric whose thresholds are found, and what of each the formula has to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.ecn_tuning.settings import INTERVALS, KEY, MEMORY, WAITS, EcnTuning
from mechanisms.round_trips import longest_round_trip_ps
from topologies.model import Switch, Topology


@dataclass(frozen=True)
class TunedQueue:
    """A queue: a port and a class of service. `number`: among those of its switch, as in P4.

    Times in fabric picoseconds, as in `EcnTuning`.
    """

    port: int
    class_of_service: int
    number: int
    rate_bps: int
    room_bytes: int
    feedback_ps: int
    wait_ps: int
    interval_ps: int
    memory_ps: int


def tuned(policy: FabricPolicy, facts: TargetFacts) -> Mapping[int, EcnTuning]:
    """Return how queues are measured, by class of service; classes that the target has alone."""
    found: Mapping[int, EcnTuning] = policy.setting(KEY)
    return {queue: found[queue] for queue in sorted(found) if queue < facts.priorities}


def queues_of(
    topology: Topology, switch: Switch, policy: FabricPolicy, facts: TargetFacts
) -> Iterator[TunedQueue]:
    """Yield the queues of a switch that are measured, in the order of their numbers."""
    number = 0
    for port in topology.ports_of(switch.name):
        for class_of_service, setting in tuned(policy, facts).items():
            feedback = setting.feedback_ps or longest_round_trip_ps(topology)
            interval = setting.interval_ps or INTERVALS * feedback
            yield TunedQueue(
                port.number,
                class_of_service,
                number,
                port.link.rate_bps,
                setting.room_bytes or port.link.queue_bytes,
                feedback,
                setting.wait_ps or WAITS * feedback,
                interval,
                setting.memory_ps or MEMORY * interval,
            )
            number += 1
