"""Deadlocks of paused queues: find them in routes, find them in pauses, and route without them.

A queue is named by the port that it sends from: "s1:2". A route is the list of queues that a
flow's packets wait in, in order: ["s1:2", "s2:2", "s3:1"]. A paused queue waits for room at the far
end of its link, and so for the queues that packets wait in there. Hosts always take what comes.
"""

from __future__ import annotations


def dependencies(routes: list[list[str]]) -> set[tuple[str, str]]:
    """Return each (queue, other) where `queue`, if it is paused, can wait for `other`.

    All routes are of one lossless class.
    """
    # TODO 1: which queues do packets wait in one after the other?
    return set()


def cycle(waits: set[tuple[str, str]]) -> list[str]:
    """Return the queues of one cycle of dependencies, each waiting for the next, the last for the
    first; an empty list if there is none.
    """
    # TODO 2: a fabric may have hundreds of dependencies and no cycle: follow each only once.
    return []


def deadlocked(waits: dict[str, list[str]]) -> set[str]:
    """Return the paused queues that nothing can open any more.

    `waits` was recorded at one moment of a run. Its keys are the paused queues. Of each it has the
    queues that packets wait in at the far end of its link: none where that is a host, which opens
    the queue sooner or later. A queue that is no key is not paused, so it drains.
    """
    # TODO 3: a paused queue that waits for one that drains, or for a host, can open again.
    return set()


def classes(routes: list[list[str]]) -> list[int]:
    """Return a lossless class for each route, from 0, so that no class can deadlock.

    Classes are scarce. Take no more than first fit does, which gives each route, in order, the
    lowest class in which it closes no cycle.
    """
    # TODO 4: what does a route add to the dependencies of a class?
    return [0 for _ in routes]
