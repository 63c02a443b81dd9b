"""The directions of a topology's links as arrays: who sends, who receives, at which rate, how late.

Rates hold what events say: the best rate that a direction ever has, from time 0 on. What is slow
or down from time 0 on and stays so counts as such; what becomes so later counts as whole, so that a
bound by these rates stays a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topologies.event_model import Do, Event
from topologies.model import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Directions:
    """Both directions of every link, 2 i and 2 i + 1 of link i: a to b, and b to a.

    `tail`, `head`: nodes, switches first in the topology's order, then hosts. `rate_bps`: 0 is
    down. `delay_ps`: of the link alone.
    """

    tail: Ints
    head: Ints
    rate_bps: Floats
    delay_ps: Floats
    names: tuple[str, ...]
    switches: int

    def says(self, arc: int) -> str:
        """Return a direction as people read it: s1->s9."""
        return f"{self.names[self.tail[arc]]}->{self.names[self.head[arc]]}"


def directions(topology: Topology) -> Directions:
    """Return the directions of a topology's links, with what its events make of their rates."""
    switches = tuple(each.name for each in topology.switches)
    names = (*switches, *(each.name for each in topology.hosts))
    index = {name: i for i, name in enumerate(names)}
    ends = [(index[link.a.node], index[link.b.node]) for link in topology.links]
    a, b = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    delay = np.array([link.delay_ps for link in topology.links], dtype=np.float64)
    return Directions(
        np.stack([a, b], axis=1).ravel(),
        np.stack([b, a], axis=1).ravel(),
        _best_rates(topology),
        np.repeat(delay, 2),
        names,
        len(topology.switches),
    )


def _best_rates(topology: Topology) -> Floats:
    rate = np.repeat([float(link.rate_bps) for link in topology.links], 2)
    as_file, up = rate.copy(), np.ones(len(rate), dtype=bool)
    best: Floats | None = None
    for event in topology.events:
        if event.at_ps > 0 and best is None:
            best = rate * up
        for arc in _arcs(topology, event):
            match event.do:
                case Do.DOWN | Do.KILL:
                    up[arc] = False
                case Do.UP | Do.REVIVE:
                    up[arc] = True
                case Do.CLEAR:
                    rate[arc] = as_file[arc]
                case Do.SET:
                    rate[arc] = dict(event.settings).get("rate_bps", rate[arc])
        if best is not None:
            best = np.maximum(best, rate * up)
    return rate * up if best is None else best


def _arcs(topology: Topology, event: Event) -> Iterator[int]:
    """Yield the directions that an event is about."""
    for number in event.links:
        link = topology.links[number]
        for arc, head in ((2 * number, link.b.node), (2 * number + 1, link.a.node)):
            if not event.towards or event.towards == head:
                yield arc
