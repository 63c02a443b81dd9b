"""The operator's choices for a fabric, in fabric time and bytes. The defaults are the plainest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from topologies.congestion import EcnMarking
from topologies.model import CNP_DSCP, Topology


@dataclass(frozen=True)
class FabricPolicy:
    """What to install beside routes.

    `ecn`: when packets are marked, by class of service; none means no marking.
    `packet_bytes`: a packet's size where a target counts queues in packets. `class_of_dscp`: the
    queue for a DSCP; classes beyond the target's are served by its highest one.
    """

    ecn: Mapping[int, EcnMarking] = field(default_factory=dict)
    packet_bytes: int = 1500
    class_of_dscp: Mapping[int, int] = field(default_factory=lambda: {CNP_DSCP: 7})

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Return what a topology's class map says, or the defaults where it has none."""
        if not topology.classes:
            return cls()
        queues = {each: each.queue or 0 for each in topology.classes}
        return cls(
            ecn={queue: each.ecn for each, queue in queues.items() if each.ecn is not None},
            class_of_dscp={dscp: queue for each, queue in queues.items() for dscp in each.dscps},
        )
