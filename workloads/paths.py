"""What an empty fabric does to a message: the formula behind every ideal time.

A packet of p payload bytes, filled up to a multiple of 4, takes p + 82 byte times of a link:
preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4 and gap 12. Links store and forward,
switches take no time. With t_k the time of a full packet on link k of the path, the last of n full
packets has left link k at

    F_k = t_1 + ... + t_k + (n - 1) x max(t_1, ..., t_k)

and a shorter one behind them at L_k = max(L_{k-1}, F_k) + its own time there; the links' delays
come on top. A flow's own rate spaces its packets as a link in front of the others would. Paths are
the shortest in links; of several the one that is soonest through. Times are whole picoseconds, each
packet's rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.graph import SwitchGraph
from topologies.model import Interface, Link, Role, Topology
from workloads.check import ROCE_HEADERS

OVERHEAD = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
MIN_PAYLOAD, MAX_PAYLOAD = 256, 4096
_PS = 10**12

Times = npt.NDArray[np.int64]


def packet_bytes(payload: Times) -> Times:
    """Return what packets with so much payload take on a wire, in byte times."""
    return payload + -payload % 4 + OVERHEAD


def wire_bytes(size: Times, payload: Times) -> Times:
    """Return what messages take on a wire, in byte times."""
    packets, last = np.divmod(size, payload)
    found: Times = packets * packet_bytes(payload) + np.where(last > 0, packet_bytes(last), 0)
    return found


def busy_ps(size: Times, payload: Times, rate_bps: Times) -> Times:
    """Return how long messages keep an interface busy."""
    packets, last = np.divmod(size, payload)
    full = packets * wire_ps(packet_bytes(payload), rate_bps)
    found: Times = full + np.where(last > 0, wire_ps(packet_bytes(last), rate_bps), 0)
    return found


def wire_ps(wire: Times, rate_bps: Times) -> Times:
    """Return how long so many byte times last, in picoseconds, rounded up."""
    seconds, rest = wire * 8 // rate_bps, wire * 8 % rate_bps
    # rest < rate_bps <= 10^13: times 10^12 it would pass 2^63, so in two steps of 10^6.
    high, rest = rest * 10**6 // rate_bps, rest * 10**6 % rate_bps
    low = -(-rest * 10**6 // rate_bps)
    found: Times = seconds * _PS + high * 10**6 + low
    return found


def mtu_payload(mtu: int) -> int:
    """Return the payload that fits an MTU: the largest power of two, 256 to 4096."""
    payload = MAX_PAYLOAD
    while payload > MIN_PAYLOAD and payload + ROCE_HEADERS > mtu:
        payload //= 2
    return payload


class Way(NamedTuple):
    """A path between two switches: its links' rates, the sum of delays; whether it meets a top.

    `delay_ps`: of its links, and the latencies of all its switches. The top is a core, or a spine
    where the fabric has no cores.
    """

    rates: tuple[int, ...]
    delay_ps: int
    top: bool


@dataclass(frozen=True)
class PathTable:
    """The paths of pairs: `delay_ps` and `top` by pair; `links[kind[i]]` are pair i's rates."""

    kind: npt.NDArray[np.int64]
    links: tuple[tuple[int, ...], ...]
    delay_ps: Times
    top: npt.NDArray[np.bool_]

    def through_ps(self, pair: Times, size: Times, payload: Times, rate_bps: Times) -> Times:
        """Return ideal times but for the delays: pair, bytes, payload and rate limit of each.

        A rate limit of 0 is none.
        """
        packets, last = np.divmod(size, payload)
        full, short = packet_bytes(payload), packet_bytes(last)
        found = np.zeros(len(pair), dtype=np.int64)
        limited = rate_bps > 0
        limit = np.where(limited, rate_bps, 1)
        paced = np.where(limited, wire_ps(full, limit), 0)
        for number, links in enumerate(self.links):
            of = np.flatnonzero(self.kind[pair] == number)
            found[of] = _through(links, packets[of], full[of], last[of], short[of], paced[of])
        return found


def _through(
    links: tuple[int, ...],
    packets: Times,
    full: Times,
    last: Times,
    short: Times,
    paced: Times,
) -> Times:
    """Return when the last packet of messages has left the last link: see above."""
    through = np.zeros(len(packets), dtype=np.int64)  # the first full packet
    slowest = paced
    end = packets * paced  # when the short one begins
    for rate in links:
        rates = np.full(len(packets), rate, dtype=np.int64)
        time = wire_ps(full, rates)
        through = through + time
        slowest = np.maximum(slowest, time)
        of_full = np.where(packets > 0, through + (packets - 1) * slowest, 0)
        end = np.where(last > 0, np.maximum(end, of_full) + wire_ps(short, rates), of_full)
    return end


_last: tuple[Topology, dict[str, dict[str, Way]]] | None = None


class Paths:
    """Paths in one topology; what was computed is kept, and also for the next `Paths` of it."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        roles = {switch.role for switch in topology.switches}
        self.top = Role.CORE if Role.CORE in roles else Role.SPINE
        global _last
        if _last is None or _last[0] is not topology:
            _last = (topology, {})
        self._from = _last[1]

    def between(self, interfaces: Sequence[Interface], source: Times, target: Times) -> PathTable:
        """Return the paths of pairs, given as places in a list of interfaces.

        Raises KeyError where none leads.
        """
        numbers: dict[str, int] = {}
        at = np.array([numbers.setdefault(i.switch, len(numbers)) for i in interfaces])
        names = list(numbers)
        hosts = [self._host_link(interface) for interface in interfaces]
        host_links = {link: i for i, link in enumerate(dict.fromkeys(hosts))}
        link = np.array([host_links[one] for one in hosts], dtype=np.int64)
        shape = (len(names), len(names), len(host_links), len(host_links))
        keys = (
            np.ravel_multi_index((at[source], at[target], link[source], link[target]), shape)
            if len(source)
            else np.empty(0, dtype=np.int64)
        )
        distinct, place = np.unique(keys, return_inverse=True)
        kinds: dict[tuple[int, ...], int] = {}
        rows = np.empty((len(distinct), 3), dtype=np.int64)
        known = list(host_links)
        for i, key in enumerate(distinct):
            here, there, up, down = (int(part) for part in np.unravel_index(key, shape))
            (up_bps, up_ps), (down_bps, down_ps) = known[up], known[down]
            way = self.way(names[here], names[there])
            kind = kinds.setdefault((up_bps, *way.rates, down_bps), len(kinds))
            rows[i] = kind, up_ps + way.delay_ps + down_ps, way.top
        rows = rows[place]
        return PathTable(rows[:, 0], tuple(kinds), rows[:, 1], rows[:, 2] != 0)

    def way(self, source: str, target: str) -> Way:
        """Return the best path between two switches. Raises KeyError."""
        if source not in self._from:
            self._from[source] = self._search(source)
        return self._from[source][target]

    def _host_link(self, end: Interface) -> tuple[int, int]:
        link = self.topology.link_at(end.host, end.number)
        return link.rate_bps, link.delay_ps

    @cached_property
    def _graph(self) -> SwitchGraph:
        return SwitchGraph(self.topology)

    @cached_property
    def _is_top(self) -> tuple[bool, ...]:
        return tuple(switch.role is self.top for switch in self.topology.switches)

    @cached_property
    def _latency_ps(self) -> tuple[int, ...]:
        return tuple(switch.latency_ps for switch in self.topology.switches)

    @cached_property
    def _step_ps(self) -> list[list[int]]:
        """How much longer a full packet takes with one more link, by switch and neighbour."""
        full = (MAX_PAYLOAD + OVERHEAD) * 8 * _PS
        return [
            [
                link.delay_ps + self._latency_ps[there] + full // link.rate_bps
                for _, there, link in each
            ]
            for each in self._graph.neighbours
        ]

    def _search(self, source: str) -> dict[str, Way]:
        """Return the path to every switch on which a full packet arrives first."""

        def longer(way: Way, there: int, link: Link) -> Way:
            delay_ps = way.delay_ps + link.delay_ps + self._latency_ps[there]
            return Way((*way.rates, link.rate_bps), delay_ps, way.top or self._is_top[there])

        here = self._graph.index[source]
        start = Way((), self._latency_ps[here], self._is_top[here])
        return self._graph.best_ways(source, start, longer, self._step_ps)
