"""Who waits for whom when queues are paused: head-of-line blocking, and deadlock.

Every switch says how much of what came in at a port waits in which queue of which port
(`ws_waiting`). A queue that is paused waits for the ingress port at the far end of its link, and
so for the queues in which that port's packets of the same class wait:

    s1:3 class 3 (paused) --link--> s2:1 --waits in--> s2:4 class 3 (paused) --link--> s3:2 ...

- Followed to their ends these arrows lead to the roots: queues that are not paused, or that a host
  pauses. A paused queue is a victim of the roots that it leads to, and so are the flows in it whose
  own path has none of these roots: head-of-line blocking.
- A deadlock is a cycle of paused queues that nothing can open: all that waits behind each of them
  waits for queues of the same kind. Found as the greatest fixed point, so that a cycle with a way
  out (packets that still drain at one of its switches) is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rustworkx as rx

from simulator.result_model import Records
from topologies.model import Topology


@dataclass(frozen=True, order=True)
class Queue:
    """A queue of a switch's port."""

    node: str
    port: int
    queue: int

    def __str__(self) -> str:
        return f"{self.node}:{self.port}/{self.queue}"


@dataclass(frozen=True)
class Waiting:
    """What came in at `ingress` of a switch and waits in `queue`."""

    queue: Queue
    ingress: int
    packets: int
    bytes: int
    paused: bool


@dataclass(frozen=True)
class Blocked:
    """A paused queue with something in it, and the queues at which the waiting ends."""

    queue: Queue
    packets: int
    bytes: int
    roots: tuple[Queue, ...]
    deadlocked: bool


@dataclass(frozen=True)
class Blocking:
    """All paused queues that hold packets, the deadlocks, and flows blocked by congestion
    elsewhere.

    `deadlocks`: cycles, each from its smallest queue on. `victims`: (flow, paused queue on its path
    whose roots are all elsewhere).
    """

    blocked: tuple[Blocked, ...] = ()
    deadlocks: tuple[tuple[Queue, ...], ...] = ()
    victims: tuple[tuple[int, Queue], ...] = ()


def waiting_rows(node: str, rows: Records | Sequence[Any]) -> list[Waiting]:
    """Return a switch's `ws_waiting` rows: an array with their names, or objects with them."""
    names = ("ingress_port", "egress_port", "queue", "packets", "bytes", "paused")
    found = []
    for row in rows:
        named = getattr(getattr(row, "dtype", None), "names", None)
        values = [int(row[name] if named else getattr(row, name)) for name in names]
        ingress, egress, queue, packets, size, paused = values
        found.append(Waiting(Queue(node, egress, queue), ingress, packets, size, bool(paused)))
    return found


def analyse(
    topology: Topology,
    waiting: Iterable[Waiting],
    paths: Mapping[int, Sequence[tuple[str, int]]] | None = None,
    class_of_flow: Mapping[int, int] | None = None,
) -> Blocking:
    """Return which flows and queues are blocked by which at one moment.

    `paths`: the switch ports that a flow leaves through, in order; `class_of_flow`: its queue (a
    flow that is not there is in queue 0). Without paths there are no victims to name.
    """
    rows = sorted(
        (row for row in waiting if row.packets > 0), key=lambda row: (row.queue, row.ingress)
    )
    behind: dict[tuple[str, int, int], list[Queue]] = {}  # node, ingress, class -> queues
    packets: dict[Queue, int] = {}
    size: dict[Queue, int] = {}
    paused: set[Queue] = set()
    for row in rows:
        key = (row.queue.node, row.ingress, row.queue.queue)
        behind.setdefault(key, []).append(row.queue)
        packets[row.queue] = packets.get(row.queue, 0) + row.packets
        size[row.queue] = size.get(row.queue, 0) + row.bytes
        if row.paused:
            paused.add(row.queue)
    ahead = {queue: _ahead(topology, queue, behind) for queue in sorted(paused)}
    stuck = _stuck(ahead)
    roots = _roots(ahead, paused)
    blocked = tuple(
        Blocked(queue, packets[queue], size[queue], roots[queue], queue in stuck)
        for queue in sorted(paused)
    )
    return Blocking(
        blocked, _cycles(ahead, stuck), tuple(_victims(blocked, paths or {}, class_of_flow or {}))
    )


def _ahead(
    topology: Topology, queue: Queue, behind: Mapping[tuple[str, int, int], list[Queue]]
) -> tuple[Queue, ...]:
    """Return the queues that a paused queue waits for; none where a host is at the far end."""
    peer = topology.peer(queue.node, queue.port)
    if not topology.is_switch(peer.node):
        return ()
    return tuple(sorted(set(behind.get((peer.node, peer.port, queue.queue), ()))))


def _stuck(ahead: Mapping[Queue, tuple[Queue, ...]]) -> set[Queue]:
    """Return the paused queues that nothing can open: the greatest fixed point."""
    stuck = {queue for queue, queues in ahead.items() if queues}
    while True:
        free = {queue for queue in stuck if not stuck.issuperset(ahead[queue])}
        if not free:
            return stuck
        stuck -= free


def _cycles(
    ahead: Mapping[Queue, tuple[Queue, ...]], stuck: set[Queue]
) -> tuple[tuple[Queue, ...], ...]:
    """Return one shortest cycle of each knot of stuck queues."""
    queues = sorted(stuck)
    number = {queue: i for i, queue in enumerate(queues)}
    graph: rx.PyDiGraph[Queue, None] = rx.PyDiGraph()
    graph.add_nodes_from(queues)
    graph.add_edges_from_no_data(
        [(number[queue], number[other]) for queue in queues for other in ahead[queue]]
    )
    found = []
    for knot in rx.strongly_connected_components(graph):
        first = min(knot)
        if len(knot) == 1 and not graph.has_edge(first, first):
            continue  # waits for a deadlock, is none
        found.append(_way_back(ahead, queues[first]))
    return tuple(sorted(found))


def _way_back(ahead: Mapping[Queue, tuple[Queue, ...]], first: Queue) -> tuple[Queue, ...]:
    """Return the shortest cycle through a queue of a knot; of equally short ones the smallest."""
    ways: deque[tuple[Queue, ...]] = deque([(first,)])
    seen = {first}
    while first not in ahead[ways[0][-1]]:
        way = ways.popleft()
        fresh = [other for other in ahead[way[-1]] if other not in seen]
        seen.update(fresh)
        ways.extend((*way, other) for other in fresh)
    return ways[0]


def _roots(
    ahead: Mapping[Queue, tuple[Queue, ...]], paused: set[Queue]
) -> dict[Queue, tuple[Queue, ...]]:
    """Return for each paused queue the ends of its waiting: not paused, or paused by a host.

    A queue whose far end has let everything go (XON is on its way) is a root of its own.
    """
    ends: dict[Queue, tuple[Queue, ...]] = {}
    for queue in ahead:
        seen, todo, found = {queue}, [queue], set()
        while todo:
            here = todo.pop()
            if here not in paused or not ahead[here]:
                found.add(here)
                continue
            fresh = [other for other in ahead[here] if other not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        ends[queue] = tuple(sorted(found))
    return ends


def _victims(
    blocked: Sequence[Blocked],
    paths: Mapping[int, Sequence[tuple[str, int]]],
    class_of_flow: Mapping[int, int],
) -> Iterable[tuple[int, Queue]]:
    by_queue = {each.queue: each for each in blocked}
    for flow in sorted(paths):
        queue = class_of_flow.get(flow, 0)
        path = [Queue(node, port, queue) for node, port in paths[flow]]
        for here in path:
            each = by_queue.get(here)
            if each is not None and each.roots and not set(each.roots) & set(path):
                yield flow, here
