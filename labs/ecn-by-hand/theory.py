"""What queueing theory expects of a port that many hosts send to at random times.

Packets of one size that come at Poisson times wait as in M/D/1. Here they wait twice: hosts send at
the port's own rate, so that two packets of one host that come close to each other wait in the host.
All waits together are those of one queue that everything comes to directly, since all servers take
the same time for a packet: what waits in hosts (M/D/1 at load / links each) is missing at the port.
"""

from __future__ import annotations

from math import exp, lgamma, log

from .control_plane import Marking

DEEPEST = 400
"""Longer queues are left out of the sums; at 90 % load they come up with probability 1e-36."""


def mean_queue(load: float, links: int) -> float:
    """Return how many packets wait at the port on average."""
    return _md1(load) - links * _md1(load / links)


def _md1(load: float) -> float:
    """Return M/D/1's mean number of packets that wait: load^2 / (2 (1 - load))."""
    return load * load / (2 * (1 - load))


def depths(load: float) -> list[float]:
    """Return the probability that a packet leaves 0, 1, 2, ... behind when it leaves the queue."""
    arrive = [exp(k * log(load) - load - lgamma(k + 1)) for k in range(DEEPEST + 2)]
    # The chain at the ends of transmissions: left[j] is the probability of j packets in the system.
    left = [1 - load]
    for j in range(DEEPEST):
        coming = left[0] * arrive[j]
        coming += sum(left[i] * arrive[j - i + 1] for i in range(1, j + 1))
        left.append(max(0.0, (left[j] - coming) / arrive[0]))
        if left[-1] < 1e-12:  # what follows is rounding
            break
    return [left[0] + left[1], *left[2:]]


def marked_share(load: float, marking: Marking) -> float:
    """Return the share of packets that get marked."""
    return sum(each * marking.probability(depth) for depth, each in enumerate(depths(load)))
