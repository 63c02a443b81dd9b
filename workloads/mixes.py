"""Messages of random pairs at Poisson times, with sizes from a published distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topologies.model import Interface, Topology
from workloads.dag import Numbers
from workloads.paths import mtu_payload, wire_bytes
from workloads.randomness import Random
from workloads.schema import MixEntry
from workloads.several import links_of

_PS = 10**12


@dataclass(frozen=True)
class Arrivals:
    """Messages in order of time; `pairs` are places in the list of hosts."""

    at_ps: Numbers
    sizes: Numbers
    pairs: list[tuple[int, int]]


def mix_arrivals(
    topology: Topology,
    hosts: Sequence[Interface],
    entry: MixEntry,
    random: Random,
    *,
    hot: Sequence[int] = (),
    whole: bool = False,
) -> Arrivals:
    """Draw the messages of a mix.

    `entry.load` is the share of all hosts' links that the messages fill on average, headers
    counted: one arrives every (mean wire bytes x 8) / (load x sum of the hosts' rates). `hot`: the
    places of the hotspot's hosts. `whole`: their links are all that the hosts have, not these
    interfaces'.
    """
    sizes = entry.distribution()
    assert sizes is not None  # the run file was checked
    links = links_of(topology, hosts, whole=whole)
    payload = entry.payload or mtu_payload(min(link.mtu_bytes for link in links))
    even = sizes.evenly
    mean_wire_sum = int(wire_bytes(even, np.full(len(even), payload)).sum())
    rate_sum = sum(link.rate_bps for link in links)
    mean_ps = max(1, (mean_wire_sum * 8 * _PS << 32) // (len(even) * rate_sum * entry.load))
    at_ps = _times(random, mean_ps, entry.start, entry.stop)
    count = len(at_ps)
    found = sizes.quantile(random.words(count) >> np.uint64(32))
    sources = [random.below(len(hosts)) for _ in range(count)]
    others = [random.below(len(hosts) - 1) for _ in range(count)]
    pairs = [(a, b + (b >= a)) for a, b in zip(sources, others, strict=True)]
    if hot:
        share = entry.hotspot.share if entry.hotspot is not None else 0
        pairs = [_heated(pair, hot, share, random) for pair in pairs]
    return Arrivals(at_ps, found, pairs)


def _heated(
    pair: tuple[int, int], hot: Sequence[int], share: int, random: Random
) -> tuple[int, int]:
    """Return who sends to whom, with a chance of `share` (of 2^32) to one of the hot hosts.

    A hot host that would send to itself keeps the target that it has.
    """
    if random.below(1 << 32) >= share:
        return pair
    target = hot[random.below(len(hot))]
    return pair if target == pair[0] else (pair[0], target)


def _times(random: Random, mean_ps: int, start_ps: int, stop_ps: int) -> Numbers:
    """Return Poisson arrivals from start (included) to stop (not)."""
    batch = int((stop_ps - start_ps) // mean_ps) + 64
    found = [np.empty(0, dtype=np.int64)]
    last = start_ps
    while last < stop_ps:
        times = last + np.cumsum(random.exponential(mean_ps, batch))
        found.append(times)
        last = int(times[-1])
    times = np.concatenate(found)
    return times[times < stop_ps]
