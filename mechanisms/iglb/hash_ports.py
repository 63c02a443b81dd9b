"""Source ports that make the fabric's own hash send flows along wanted paths: no entry is needed.

    flow --> leaf: hash mod 8 = 3? --> spine: hash mod 4 = 1? --> ...      the first port that
             49152: no   49153: yes            49153: no                  passes all of them

Every switch hashes with a multiplier of its own (`ecmp_hash`), so a port passes k switches that
choose among n_1, ... n_k ports with a chance of one in n_1 * ... * n_k. RoCE has 16,384 source
ports: some pass unless there are thousands of paths. Flows of the same two interfaces get different
ports.

This holds while links are as they were when ports were chosen: a group that loses a port spreads
all its flows differently, until ports are chosen again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.ecmp_hash import EcmpHash, Hops
from workloads.dag import FIRST_UDP_PORT, UDP_PORTS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_PORT = -1
PORT_NUMBERS = 1 << 16
_AT_ONCE = 1 << 20  # candidates that are looked at together
_ROW = 64  # of one kind of flow


@dataclass(frozen=True, eq=False)
class HashPorts:
    """`udp_port[i]`: of flow i, NO_PORT where none leads along its path.

    `leads[i]`: whether its port does. `kept[i]`: whether it is the one that it had. `tries`: how
    many candidates were looked at for flows that needed another.
    """

    udp_port: Ints
    leads: Bools
    kept: Bools
    tries: int

    @property
    def missing(self) -> Ints:
        """The flows that have no port."""
        return np.flatnonzero(self.udp_port == NO_PORT)


def choose_ports(
    fabric: EcmpHash,
    source: Ints,
    target: Ints,
    arcs: Ints,
    udp_port: Ints,
    fixed: Bools | None = None,
) -> HashPorts:
    """Return a source port for each of n flows that sends it along its path.

    `source`, `target`: places in `topology.interfaces()`; `arcs`: n x hops, as in `Plan`;
    `udp_port`: ports that flows have, which those keep that they serve. Flows of no arcs cross one
    switch, which any port does. `fixed`: flows that keep their port wherever it leads: those of
    queue pairs that are open.
    """
    search = _Search(fabric, source, target, arcs)
    pair = source * (int(target.max(initial=0)) + 1) + target
    held = np.zeros(len(source), dtype=np.bool_) if fixed is None else fixed
    serves = search.right(np.arange(len(source)), udp_port)
    # Of several flows with one port, the one that can't leave it has it; else the first.
    order = np.argsort(~held, kind="stable")
    claims = np.where(serves | held, pair * PORT_NUMBERS + udp_port, -1 - np.arange(len(source)))
    kept = np.empty(len(source), dtype=np.bool_)
    kept[order] = _first_of_each(claims[order])
    kept = (kept & serves) | held
    found = np.where(kept, udp_port, NO_PORT)
    flows = np.flatnonzero(~kept)
    tries = search.fill(found, pair, _kinds(pair, arcs), flows, udp_port) if len(flows) else 0
    return HashPorts(found, (serves & kept) | (~kept & (found != NO_PORT)), kept, tries)


class _Search:
    """Looks for the ports of flows, by the choices that they meet."""

    def __init__(self, fabric: EcmpHash, source: Ints, target: Ints, arcs: Ints) -> None:
        self._steps: list[tuple[Ints, Hops]] = []
        self._possible = np.ones(len(source), dtype=np.bool_)
        for column in arcs.T:
            flows = np.flatnonzero(column >= 0)
            hops = fabric.hops(source[flows], target[flows], column[flows])
            self._possible[flows[hops.place < 0]] = False
            chooses = np.flatnonzero(hops.size > 1)
            if len(chooses):
                row = np.full(len(source), -1, dtype=np.int64)
                row[flows[chooses]] = np.arange(len(chooses))
                self._steps.append((row, hops[chooses]))

    def right(self, flows: Ints, udp_port: Ints) -> Bools:
        """Say which flows a port sends along their paths, for one port each."""
        found = self._possible[flows] & _is_roce(udp_port)
        for row, hops in self._steps:
            meets = np.flatnonzero(found & (row[flows] >= 0))
            found[meets] = hops[row[flows[meets]]].right(udp_port[meets])
        return found

    def fill(self, found: Ints, pair: Ints, kind: Ints, flows: Ints, first: Ints) -> int:
        """Write ports into `found` of `flows`, which have none; return how many were looked at.

        Flows of one kind have the same ends (`pair`) and the same path, and flows of the same ends
        but of different paths have no port in common. So each kind takes the first ports that lead
        along its path, but those that others of its pair have already. It begins at the first
        flow's `first`.
        """
        had = found != NO_PORT
        taken = np.unique(pair[had] * PORT_NUMBERS + found[had])
        flows = flows[np.argsort(kind[flows], kind="stable")]
        kinds, begin, needs = np.unique(kind[flows], return_index=True, return_counts=True)
        sample = flows[begin]
        start = np.where(_is_roce(first[sample]), first[sample] - FIRST_UDP_PORT, 0)
        got = np.zeros(len(kinds), dtype=np.int64)
        tries, offset = 0, 0
        live = np.flatnonzero(self._possible[sample])
        while len(live) and offset < UDP_PORTS:
            width = min(_ROW, UDP_PORTS - offset)
            rows = max(1, _AT_ONCE // width)
            for part in np.split(live, range(rows, len(live), rows)):
                which, port = self._look(sample[part], start[part] + offset, width)
                which = part[which]
                free = ~np.isin(pair[sample[which]] * PORT_NUMBERS + port, taken)
                which, port = which[free], port[free]
                place = got[which] + _rank(which)
                fits = place < needs[which]
                found[flows[begin[which[fits]] + place[fits]]] = port[fits]
                got += np.bincount(which[fits], minlength=len(kinds))
            tries += len(live) * width
            offset += width
            live = live[got[live] < needs[live]]
        return tries

    def _look(self, flows: Ints, start: Ints, width: int) -> tuple[Ints, Ints]:
        """Return the ports that lead along flows' paths, of `width` ports from `start`.

        As places in `flows`, ascending, and ports.
        """
        ports = FIRST_UDP_PORT + (start[:, None] + np.arange(width)) % UDP_PORTS
        good = np.ones(ports.shape, dtype=np.bool_)
        for row, hops in self._steps[:1]:  # the whole block: what passes is few
            meets = np.flatnonzero(row[flows] >= 0)
            good[meets] = hops[row[flows[meets]]].right(ports[meets])
        which, column = np.nonzero(good)
        left = ports[which, column]
        for row, hops in self._steps[1:]:
            of = row[flows[which]]
            passed = of < 0
            meets = np.flatnonzero(~passed)
            passed[meets] = hops[of[meets]].right(left[meets])
            which, left = which[passed], left[passed]
        return which, left


def _is_roce(udp_port: Ints) -> Bools:
    """Say which ports are in RoCEv2's range for sources."""
    return (udp_port >= FIRST_UDP_PORT) & (udp_port < FIRST_UDP_PORT + UDP_PORTS)


def _kinds(pair: Ints, arcs: Ints) -> Ints:
    """Return a number for each flow: equal for flows of the same ends and path."""
    kind = np.unique(pair, return_inverse=True)[1]
    most = int(arcs.max(initial=0)) + 2
    for column in arcs.T:
        kind = np.unique(kind * most + column + 1, return_inverse=True)[1]
    return kind.astype(np.int64)


def _first_of_each(values: Ints) -> Bools:
    """Say where each value comes for the first time."""
    found = np.zeros(len(values), dtype=np.bool_)
    found[np.unique(values, return_index=True)[1]] = True
    return found


def _rank(ascending: Ints) -> Ints:
    """Return how many equal values are before each of ascending ones."""
    begins = np.diff(ascending, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ascending)), 0))
    return np.arange(len(ascending)) - first
