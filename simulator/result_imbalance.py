"""How evenly a switch loads its uplinks, window by window: imbalance.parquet.

Uplinks are a switch's links to switches of its own tier or a higher one, which lead away from its
hosts; a switch with one alone has none to compare. Imbalance is (most - least) / mean of what they
carried in a window, as CONGA measures it (Alizadeh et al., SIGCOMM 2014, section 5.2.3): 0 is even,
and of n uplinks n is all on one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulator.result_model import Records
from simulator.result_statistics import ratios, spread
from simulator.result_tables import Column, Kind, TableWriter, integers
from topologies.model import Link, Topology
from topologies.oversubscription import HEIGHT

Integers = npt.NDArray[np.int64]


def uplinks(topology: Topology, links: Sequence[Link]) -> dict[str, tuple[int, ...]]:
    """Return the directions that lead up from each switch, by port: 2 * link + 0 from a, 1 from b.

    Switches with fewer than two are left out.
    """
    out = {
        end: 2 * number + place
        for number, link in enumerate(links)
        for place, end in enumerate((link.a, link.b))
    }
    found = {}
    for switch in topology.switches:
        height = HEIGHT[switch.role]
        up = tuple(
            out[port.link.other(port.peer)]
            for port in topology.ports_of(switch.name)
            if topology.is_switch(port.peer.node)
            and HEIGHT[topology.switch(port.peer.node).role] >= height
        )
        if len(up) > 1:
            found[switch.name] = up
    return found


class Imbalance:
    """Writes a row for each switch and window in which its uplinks carried something.

    It is made of link samples: a window is a whole number of them. Holds one window, and a number
    a row.
    """

    def __init__(
        self,
        path: Path,
        topology: Topology,
        links: Sequence[Link],
        window_ps: int,
        about: Mapping[str, str],
    ) -> None:
        groups = uplinks(topology, links)
        self._window_ps = window_ps
        self._lanes = np.array([lane for up in groups.values() for lane in up], np.int64)
        self._counts = np.array([len(up) for up in groups.values()], np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._bytes = np.zeros(2 * len(links), np.int64)
        self._window = 0
        self._found: list[Integers] = []
        self._writer = TableWriter(
            path,
            (
                *integers("start_ps"),
                Column("node", Kind.NAME, tuple(groups)),
                *integers("links", "min_bytes", "max_bytes", "mean_bytes", "imbalance_ppm"),
            ),
            about,
        )

    @property
    def rows(self) -> int:
        """How many there are."""
        return self._writer.rows

    def add(self, samples: Records) -> None:
        """Add samples of links, sim_link_sample, in order of time."""
        window = (samples["at"].astype(np.int64) - 1) // self._window_ps
        lane = 2 * samples["link"].astype(np.int64) + samples["direction"]
        size = samples["bytes"].astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(window)) + 1).tolist(), len(window)]
        for first, behind in pairwise(edges):
            if window[first] != self._window:
                self._over()
                self._window = int(window[first])
            np.add.at(self._bytes, lane[first:behind], size[first:behind])

    def _over(self) -> None:
        """Write the window that was, and begin another."""
        if not len(self._lanes):
            return
        size = self._bytes[self._lanes]
        total = np.add.reduceat(size, self._starts)
        busy = np.flatnonzero(total)
        least = np.minimum.reduceat(size, self._starts)[busy]
        most = np.maximum.reduceat(size, self._starts)[busy]
        links, total = self._counts[busy], total[busy]
        imbalance = ratios((most - least) * links, total)
        self._bytes[:] = 0
        self._found.append(imbalance)
        self._writer.append(
            {
                "start_ps": np.full(len(busy), self._window * self._window_ps),
                "node": busy,
                "links": links,
                "min_bytes": least,
                "max_bytes": most,
                "mean_bytes": total // links,
                "imbalance_ppm": imbalance,
            }
        )

    def close(self) -> None:
        """Write the last window and the file's end."""
        self._over()
        self._writer.close()

    def spread(self) -> dict[str, int]:
        """Return count, mean, p50, p90, p99 and max of all rows' imbalance, in millionths."""
        return spread(np.concatenate(self._found) if self._found else np.zeros(0, np.int64))
