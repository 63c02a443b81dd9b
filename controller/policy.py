"""The operator's choices for a fabric, in fabric time and bytes. The defaults are the plainest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from topologies.congestion import EcnMarking, FastCnp
from topologies.model import CNP_DSCP, Topology


@dataclass(frozen=True)
class Sampling:
    """How the connections of stock NICs are sampled, in fabric picoseconds.

    A flow's first `reports` packets that are reported are `interval_ps` apart, others `later_ps`.
    What wasn't seen for `age_ps` is forgotten. `window_packets`: how many packets a queue pair may
    have in flight, None for what the topology's longest loop and queues hold.
    """

    interval_ps: int = 100_000_000
    later_ps: int = 4_000_000_000
    reports: int = 64
    age_ps: int = 1_000_000_000_000
    window_packets: int | None = None


@dataclass(frozen=True)
class FabricPolicy:
    """What to install beside routes.

    `ecn`: when packets are marked, by class of service; none means no marking.
    `packet_bytes`: a packet's size where a target counts queues in packets. `class_of_dscp`: the
    queue for a DSCP; classes beyond the target's are served by its highest one. `fast_cnp`: how
    sources are told of long queues, by class of service; none means not at all. `fast_cnp_runs`:
    False has switches hold all that they need for that, and stand still. `stock_nics`: hosts
    whose cards know plain CNPs only; `sampling`: how their connections are watched.
    """

    ecn: Mapping[int, EcnMarking] = field(default_factory=dict)
    packet_bytes: int = 1500
    class_of_dscp: Mapping[int, int] = field(default_factory=lambda: {CNP_DSCP: 7})
    fast_cnp: Mapping[int, FastCnp] = field(default_factory=dict)
    fast_cnp_runs: bool = True
    stock_nics: frozenset[str] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Return what a topology's class map says, or the defaults where it has none."""
        if not topology.classes:
            return cls(stock_nics=topology.stock_nics)
        queues = {each: each.queue or 0 for each in topology.classes}
        return cls(
            ecn={queue: each.ecn for each, queue in queues.items() if each.ecn is not None},
            class_of_dscp={dscp: queue for each, queue in queues.items() for dscp in each.dscps},
            fast_cnp={
                queue: each.fast_cnp for each, queue in queues.items() if each.fast_cnp is not None
            },
            stock_nics=topology.stock_nics,
        )
