"""The least time in which a run's messages can be carried, however they are split over paths.

All messages count as sent at once. Bytes are those of links: headers, preamble, FCS and gap of
every packet (`paths`). Host links carry what their host sends or receives, whatever the paths; in
between stands `topologies.concurrent_flow`.

To the time that links are busy comes the least latency around the busiest: before the first bit of
a link that binds, a packet has passed the links before it, and behind its last bit one still passes
those behind it, propagation, switches and the smallest packet's own time each. Of links that bind
together, one that is too far away to have carried anything by then counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topologies.capacities import Directions, directions
from topologies.concurrent_flow import (
    Demands,
    Floats,
    Ints,
    Network,
    TooLargeError,
    UnreachableError,
    solve,
)
from topologies.flow_certificate import Certificate, check
from topologies.model import Topology
from workloads.model import RunFile, Traffic
from workloads.paths import packet_bytes, wire_bytes

PS_PER_S = 10**12
TAKEN = (
    "taken are messages that all start at once: a permutation, an incast, a matrix, a collective"
)


class BoundError(Exception):
    """A run that has no such bound; it says why, and what is taken."""


@dataclass(frozen=True)
class Bound:
    """`lower_ps` <= any simulation's time. `upper_s`, `lower_s`: of the links' busy time alone.

    `binding`: directions of links with their part in the proof, largest first. `rate_bps`: the best
    that the slowest flow can have when all last equally long, in payload. `cut`: too large for the
    program, so that `upper_s` is unknown and `lower_s` is the leaves' cut.
    """

    lower_ps: float
    lower_s: float
    upper_s: float
    latency_ps: float
    rate_bps: float
    binding: tuple[tuple[str, float], ...]
    flows: int
    equal: bool
    waits: bool
    cut: bool

    @property
    def gap(self) -> float:
        """How far apart the bounds are, relative to the upper."""
        return (self.upper_s - self.lower_s) / self.upper_s if self.upper_s else 0.0


def bound(run: RunFile, traffic: Traffic) -> Bound:
    """Return the bound of all of a run's messages. Raises BoundError."""
    _refuse(traffic)
    rows = traffic.messages.messages
    rows = rows[rows["bytes"] > 0]
    if not len(rows):
        raise BoundError(f"{run.file}: no message has bytes; {TAKEN}")
    flows = traffic.carriers()[rows["flow"]]
    size, payload = rows["bytes"].astype(np.int64), flows["payload"].astype(np.int64)
    wire: Floats = (wire_bytes(size, payload) * 8.0).astype(np.float64)
    last = np.where(size % payload > 0, packet_bytes(size % payload), packet_bytes(payload))
    arcs = directions(traffic.topology)
    hosts = _HostLinks(arcs, traffic.topology, run.clocks.ppb if run.clocks else 0)
    tx, rx = hosts.of(flows["src"], flows["src_port"]), hosts.of(flows["dst"], flows["dst_port"])
    load = np.zeros(len(arcs.tail))
    np.add.at(load, tx, wire)
    np.add.at(load, rx ^ 1, wire)
    dead = np.flatnonzero((load > 0) & (arcs.rate_bps == 0))
    if len(dead):
        raise BoundError(f"{run.file}: {arcs.says(int(dead[0]))} is down, and messages need it")
    busy = np.divide(load, hosts.rate_bps, out=np.zeros_like(load), where=load > 0)
    proof = _between(run, arcs, arcs.head[tx], arcs.head[rx], wire)
    latency = _Latency(arcs, traffic.topology, tx, rx ^ 1, 8.0 * float(last.min()))
    upper = max(float(busy.max()), proof.upper)
    found = _fabric(proof, latency)
    for arc in np.flatnonzero(busy >= busy.max() * (1 - 1e-12)).tolist():
        found.append((float(busy[arc]), latency.of(arc), [(arcs.says(arc), 1.0)]))
    lower = max(time for time, _, _ in found)
    best = max(found, key=lambda each: each[0] * PS_PER_S + each[1])
    binding = [part for time, _, parts in found if time >= lower * (1 - 1e-9) for part in parts]
    paced = flows["rate_bps"].astype(np.float64)
    own = np.divide(wire, paced, out=np.zeros_like(wire), where=paced > 0).max()
    of_flow = np.bincount(rows["flow"], size * 8.0)
    least_ps = max(best[0] * PS_PER_S + best[1], own * PS_PER_S)
    return Bound(
        least_ps,
        lower,
        upper,
        best[1],
        float(of_flow[of_flow > 0].min()) / max(upper, own),
        tuple(sorted(binding, key=lambda part: -part[1])),
        int((of_flow > 0).sum()),
        bool(np.ptp(of_flow[of_flow > 0]) == 0),
        bool((traffic.messages.messages["waits"] > 0).any()),
        bool(np.isnan(proof.upper)),
    )


def _refuse(traffic: Traffic) -> None:
    """Raise BoundError where messages have no common start or no end."""
    rows = traffic.messages.messages
    why = ""
    if len(traffic.streams) or traffic.script:
        why = "streams and scripts are no messages"
    elif any(span.algorithm == "persistent incast" for span in traffic.spans):
        why = "a persistent incast has no end"
    elif traffic.due is not None:
        why = "it has too many messages to keep"
    elif traffic.orders:
        why = "switches add its messages up on their way"
    elif len(rows) and (rows["start_ps"] != rows["start_ps"][0]).any():
        why = "its messages start at different times"
    elif (traffic.flows["interfaces"] > 0).any():
        why = "its flows use all interfaces of a host"
    if why:
        raise BoundError(f"{why}, so no bound holds; {TAKEN}")


@dataclass(frozen=True)
class _Between:
    certificate: Certificate | None
    arcs: Ints
    upper: float
    all: Directions


def _between(run: RunFile, arcs: Directions, source: Ints, target: Ints, wire: Floats) -> _Between:
    """Return the least time of the links between switches, with its proof."""
    inside = np.flatnonzero(
        (arcs.tail < arcs.switches) & (arcs.head < arcs.switches) & (arcs.rate_bps > 0)
    )
    far = source != target
    if not far.any():
        return _Between(None, inside, 0.0, arcs)
    network = Network(arcs.switches, arcs.tail[inside], arcs.head[inside], arcs.rate_bps[inside])
    targets, row = np.unique(target[far], return_inverse=True)
    amount = np.zeros((len(targets), arcs.switches))
    np.add.at(amount, (row, source[far]), wire[far])
    demands = Demands(targets, amount)
    try:
        proof = check(network, demands, solve(network, demands))
    except UnreachableError as error:
        a, b = arcs.names[error.source], arcs.names[error.target]
        raise BoundError(
            f"{run.file}: no path leads from {a} to {b}, and messages need one"
        ) from None
    except TooLargeError:
        return _Between(_cut(network, demands), inside, float("nan"), arcs)
    return _Between(proof, inside, proof.upper, arcs)


def _cut(network: Network, demands: Demands) -> Certificate:
    """Return the leaves' cut bound: what leaves or enters a switch over its links' rates."""
    leaving, entering = demands.amount.sum(axis=0), np.zeros(network.nodes)
    entering[demands.targets] = demands.amount.sum(axis=1)
    best = Certificate(float("nan"), 0.0, np.zeros(len(network.tail)), 0.0)
    for load, end in ((leaving, network.tail), (entering, network.head)):
        rate = np.bincount(end, network.capacity, minlength=network.nodes)
        time = np.divide(load, rate, out=np.zeros_like(load), where=load > 0)
        node = int(time.argmax())
        if time[node] > best.lower:
            weight = np.where(end == node, network.capacity / rate[node], 0.0)
            best = Certificate(float("nan"), float(time[node]), weight, 0.0)
    return best


def _fabric(
    proof: _Between, latency: _Latency
) -> list[tuple[float, float, list[tuple[str, float]]]]:
    if proof.certificate is None:
        return []
    weight = proof.certificate.weight
    on = np.flatnonzero(weight > 1e-9)
    around = np.array([latency.of(int(proof.arcs[i])) for i in on])
    busy_ps = proof.certificate.lower * PS_PER_S
    parts = [(proof.all.says(int(proof.arcs[i])), float(weight[i])) for i in on]
    done_ps = soonest(busy_ps, weight[on], around)
    return [(proof.certificate.lower, done_ps - busy_ps, parts)]


def soonest(busy: float, weight: Floats, latency: Floats) -> float:
    """Return the least t for which `weight` x max(0, t - `latency`) sums up to `busy`.

    Links that bind have carried nothing until their latency is over. Weights sum up to 1. That sum
    is the largest over any choice of links, so t is the least over them: the nearest few.
    """
    near = np.argsort(latency, kind="stable")
    near = near[np.isfinite(latency[near])]
    if not len(near):
        return busy
    share = np.cumsum(weight[near])
    return float(((busy + np.cumsum(weight[near] * latency[near])) / share).min())


class _HostLinks:
    """The directions out of hosts' interfaces; clocks may make what hosts send a little faster."""

    def __init__(self, arcs: Directions, topology: Topology, ppb: int) -> None:
        self.place: dict[tuple[int, int], int] = {}
        number = {host.name: i for i, host in enumerate(topology.hosts)}
        self.rate_bps = arcs.rate_bps.copy()
        for i, link in enumerate(topology.links):
            for arc, end in ((2 * i, link.a), (2 * i + 1, link.b)):
                if end.node in number:
                    self.place[number[end.node], end.port] = arc
                    self.rate_bps[arc] *= 1 + ppb / 1e9

    def of(self, host: Ints, port: Ints) -> Ints:
        """Return the direction out of each interface."""
        pairs = zip(host.tolist(), port.tolist(), strict=True)
        return np.array([self.place[pair] for pair in pairs], dtype=np.int64)


class _Latency:
    """The least time before a direction's first bit and behind its last, in ps."""

    def __init__(
        self, arcs: Directions, topology: Topology, tx: Ints, rx: Ints, least_bits: float
    ) -> None:
        self.arcs = arcs
        own = np.array([switch.latency_ps for switch in topology.switches], dtype=np.float64)
        self.own = np.append(own, np.zeros(len(arcs.names) - arcs.switches))
        alive = arcs.rate_bps > 0
        self.hop = np.full(len(alive), np.inf)
        # 1e-4: a card's clock may be so much faster.
        time = least_bits * PS_PER_S / arcs.rate_bps[alive] * (1 - 1e-4)
        self.hop[alive] = arcs.delay_ps[alive] + time
        inside = np.flatnonzero((arcs.tail < arcs.switches) & (arcs.head < arcs.switches) & alive)
        tail, head = arcs.tail[inside], arcs.head[inside]
        self.before = np.full(len(self.own), np.inf)
        self.before[arcs.tail[tx]] = 0.0
        np.minimum.at(self.before, arcs.head[tx], self.hop[tx] + self.own[arcs.head[tx]])
        _relax(self.before, tail, head, self.hop[inside] + self.own[head])
        self.behind = np.full(len(self.own), np.inf)
        self.behind[arcs.head[rx]] = 0.0
        np.minimum.at(self.behind, arcs.tail[rx], self.hop[rx] + self.own[arcs.tail[rx]])
        _relax(self.behind, head, tail, self.hop[inside] + self.own[tail])

    def of(self, arc: int) -> float:
        """Return both of a direction together, with its own delay."""
        before, behind = self.before[self.arcs.tail[arc]], self.behind[self.arcs.head[arc]]
        return float(before + self.arcs.delay_ps[arc] + behind)


def _relax(time: Floats, origin: Ints, to: Ints, step: Floats) -> None:
    while True:
        before = time.copy()
        np.minimum.at(time, to, time[origin] + step)
        if (time == before).all():
            return
