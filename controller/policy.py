"""The operator's choices for a fabric, in fabric time and bytes. The defaults are the plainest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CNP_DSCP = 48


@dataclass(frozen=True)
class FabricPolicy:
    """What to install beside routes.

    `ecn_threshold_bytes`: mark when more is queued, by class of service; none means no marking.
    `packet_bytes`: a packet's size where a target counts queues in packets. `class_of_dscp`: the
    queue for a DSCP; classes beyond the target's are served by its highest one.
    """

    ecn_threshold_bytes: Mapping[int, int] = field(default_factory=dict)
    packet_bytes: int = 1500
    class_of_dscp: Mapping[int, int] = field(default_factory=lambda: {CNP_DSCP: 7})
