"""The operator's choices for a fabric, in fabric time and bytes. The defaults are the plainest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from topologies.model import CNP_DSCP, Topology


@dataclass(frozen=True)
class FabricPolicy:
    """What to install beside routes.

    `settings`: of mechanisms, for classes, by the key in the topology's file and by class
    of service. `off`: names of mechanisms that stand still, though switches hold what they need.
    `options`: of single mechanisms beyond the topology, by their names.
    `packet_bytes`: a packet's size where a target counts queues in packets. `class_of_dscp`: the
    queue for a DSCP; classes beyond the target's are served by its highest one. `stock_nics`: hosts
    whose cards know plain CNPs only.
    """

    settings: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    packet_bytes: int = 1500
    class_of_dscp: Mapping[int, int] = field(default_factory=lambda: {CNP_DSCP: 7})
    stock_nics: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)

    def setting(self, key: str) -> Mapping[int, Any]:
        """Return a setting's values by class of service; empty where no class has it."""
        return self.settings.get(key, {})

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Return what a topology's class map says, or the defaults where it has none."""
        if not topology.classes:
            return cls(stock_nics=topology.stock_nics)
        queues = {each: each.queue or 0 for each in topology.classes}
        settings: dict[str, dict[int, Any]] = {}
        for each, queue in queues.items():
            for key, value in each.settings:
                settings.setdefault(key, {})[queue] = value
        return cls(
            settings,
            class_of_dscp={dscp: queue for each, queue in queues.items() for dscp in each.dscps},
            stock_nics=topology.stock_nics,
        )
