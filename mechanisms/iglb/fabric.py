"""The fabric as the planner sees it: arrays, made from a topology or given.

Arcs are the directions of links in the numbers of `topologies.capacities.directions`: 2 l and
2 l + 1 are the two of link l. Nodes are switches first, then hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from topologies.capacities import directions
from topologies.model import Link, Topology
from workloads.paths import mtu_payload

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fabric:
    """`tail[arc]`, `head[arc]`: nodes; `rate[arc]`: bits a second, 0 where the arc is down.

    Of each interface of a host: `leaf`, its switch; `out`, the arc from it to there; `payload`,
    bytes of payload in a full packet. `names`: of nodes; without them people read numbers.
    """

    switches: int
    tail: Ints
    head: Ints
    rate: Floats
    leaf: Ints
    out: Ints
    payload: Ints
    names: tuple[str, ...] = ()
    links: Mapping[Link, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, topology: Topology) -> Fabric:
        """Return a topology's fabric, with what its events make of rates from time 0 on."""
        arcs = directions(topology)
        out = {}
        for number, link in enumerate(topology.links):
            out[link.a] = 2 * number
            out[link.b] = 2 * number + 1
        ends = [each.end for each in topology.interfaces()]
        of_interface = np.array([out[end] for end in ends], dtype=np.int64)
        payload = [mtu_payload(topology.links[arc // 2].mtu_bytes) for arc in of_interface]
        return cls(
            arcs.switches,
            arcs.tail,
            arcs.head,
            arcs.rate_bps,
            arcs.head[of_interface],
            of_interface,
            np.array(payload, dtype=np.int64),
            arcs.names,
            {link: number for number, link in enumerate(topology.links)},
        )

    def without(self, links: Ints) -> Fabric:
        """Return the fabric with these links down, by number; nothing else is another."""
        rate = self.rate.copy()
        rate[2 * links] = rate[2 * links + 1] = 0.0
        return replace(self, rate=rate)

    @cached_property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Which arcs are between switches."""
        inside: npt.NDArray[np.bool_] = (self.tail < self.switches) & (self.head < self.switches)
        return inside

    @cached_property
    def cost(self) -> Floats:
        """Seconds that a bit takes on each arc; 0 where it is down."""
        return np.divide(1.0, self.rate, out=np.zeros_like(self.rate), where=self.rate > 0)

    def says(self, arc: int) -> str:
        """Return an arc as people read it: s1->s9."""
        tail, head = int(self.tail[arc]), int(self.head[arc])
        return f"{self.names[tail]}->{self.names[head]}" if self.names else f"{tail}->{head}"


def sums(place: Ints, amount: Floats, count: int) -> Floats:
    """Return the sums of amounts by place, `count` of them."""
    return np.bincount(place, amount, minlength=count).astype(np.float64)
