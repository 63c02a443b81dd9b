"""What queueing theory expects of a port that many hosts send to at random times.

n links of the port's own rate feed it; packets have one size. In the time of one packet each link
brings one with probability load / n, so the number that arrives is binomial. For n without bound
this is M/D/1. (Karol, Hluchyj, Morgan: Input versus output queueing on a space-division packet
switch, IEEE Transactions on Communications, 1987.)
"""

from __future__ import annotations

from math import comb

from .control_plane import Marking

DEEPEST = 400
"""Longer queues are left out of the sums; at 95 % load they come up with probability 1e-17."""


def mean_queue(load: float, links: int) -> float:
    """Return how many packets wait on average: (n - 1) / n of M/D/1's load^2 / (2 (1 - load))."""
    return (links - 1) / links * load * load / (2 * (1 - load))


def depths(load: float, links: int) -> list[float]:
    """Return the probability that a packet leaves 0, 1, 2, ... behind when it leaves the queue."""
    p = load / links
    arrive = [comb(links, k) * p**k * (1 - p) ** (links - k) for k in range(links + 1)]
    # States of the chain at the ends of transmissions: left[j] packets are there.
    left = [1 - load]
    for j in range(DEEPEST):
        coming = left[0] * (arrive[j] if j <= links else 0.0)
        coming += sum(left[i] * arrive[j - i + 1] for i in range(max(1, j + 1 - links), j + 1))
        left.append(max(0.0, (left[j] - coming) / arrive[0]))
    return [left[0] + left[1], *left[2:]]


def marked_share(load: float, links: int, marking: Marking) -> float:
    """Return the share of packets that get marked."""
    return sum(each * marking.probability(depth) for depth, each in enumerate(depths(load, links)))
