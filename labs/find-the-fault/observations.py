"""What whoever looks for a fault may look at, and nothing of what the fault is.

Ports are named as everywhere: "s9:2" is port 2 of switch s9, "h1" a host. Counts are those since
the run began, one for each of `times_us`; the first one is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from observe.flow_trace import FlowTrace

Series = Sequence[int]


@dataclass(frozen=True)
class Port:
    """A switch's port: packets, over time.

    `received` and `sent`: by the switch's own counter, heartbeats included; what the link loses was
    sent. `dropped`: for want of room. `marked`: with ECN's mark on leaving. `pauses`: sent to the
    other end, of all classes.
    """

    received: Series
    sent: Series
    dropped: Series
    marked: Series
    pauses: Series


@dataclass(frozen=True)
class FlowEnds:
    """A flow as its two hosts see it: packets sent, and of these received, at the end."""

    source: str
    target: str
    udp_port: int
    dscp: int
    sent: int
    received: int


Ask = Callable[[str, str, int, int, int], FlowTrace]


@dataclass(frozen=True)
class Observations:
    """All instruments.

    `links`: each direction of each link between switches, as (port that sends, port that receives).
    `hosts`: by port of a switch, the host behind it. `ports`: counters of every port.
    `heartbeats`: by port, what DPFR counts (docs/dpfr.md), over time: `gaps`, `lossy`, `degraded`,
    `went_down`, `came_up`, `lost_carrier` and so on. `queues`: by port and queue the most bytes
    that ever waited there, what was sent at once included: with 0 nothing ever went there.
    `flows`: what applications see.
    """

    times_us: Sequence[int]
    links: Sequence[tuple[str, str]]
    hosts: Mapping[str, str]
    ports: Mapping[str, Port]
    heartbeats: Mapping[str, Mapping[str, Series]]
    queues: Mapping[str, Mapping[int, int]]
    flows: Sequence[FlowEnds]
    _ask: Ask = field(repr=False)

    def path(
        self, source: str, target: str, udp_port: int, dscp: int = 26, count: int = 4
    ) -> FlowTrace:
        """Trace `count` probes of a flow, now, at the end of the run: `weft path` for this fabric.

        `hops` say by which port probes came to a switch, by which port and out of which queue they
        left; `vanished` where some did not go on.
        """
        return self._ask(source, target, udp_port, dscp, count)
