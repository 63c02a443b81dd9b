"""Routes and pauses drawn for the grading, and what is true of them.

Truth is computed from what was drawn and by other means than the starter asks for: cycles with
rustworkx, deadlocks by who can reach a queue that drains.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from random import Random

import rustworkx as rx

Waits = dict[str, list[str]]
Route = list[str]
MOST_CLASSES = 8


def ring(count: int, hops: int) -> list[Route]:
    """Return routes on a ring of switches, each from one host to that `hops` switches on."""
    return [
        [*(f"s{(n + h) % count + 1}:2" for h in range(hops)), f"s{(n + hops) % count + 1}:1"]
        for n in range(count)
    ]


def clos(random: Random, leaves: int, spines: int, count: int) -> list[Route]:
    """Return routes of a leaf-spine fabric, up and down: none of them makes a cycle."""
    found = []
    for _ in range(count):
        a, b = random.sample(range(1, leaves + 1), 2)
        spine = random.randrange(1, spines + 1)
        found.append([f"s{a}:{spine}", f"s{leaves + spine}:{b}", f"s{b}:{spines + 1}"])
    return found


def detour(random: Random) -> list[Route]:
    """Return routes of a leaf-spine fabric, two of which go down and up again round dead links.

    Tagger's case (CoNEXT 2017): either alone has no cycle, both together have one.
    """
    low, high = sorted(random.sample(range(1, 5), 2))
    one = [f"s{low}:1", f"s5:{high}", f"s{high}:2", f"s6:{low}", f"s{low}:3"]
    two = [f"s{high}:2", f"s6:{low}", f"s{low}:1", f"s5:{high}", f"s{high}:3"]
    return [*clos(random, 4, 2, 12), one, two]


def wandering(random: Random, count: int) -> list[Route]:
    """Return random routes over a mesh of eight switches, no queue twice in a route."""
    found = []
    for _ in range(count):
        stops = random.sample(range(1, 9), random.randrange(2, 6))
        hops = [f"s{a}:{b}" for a, b in itertools.pairwise(stops)]
        found.append([*hops, f"s{stops[-1]}:9"])
    return found


def waits_of(routes: Iterable[Sequence[str]]) -> set[tuple[str, str]]:
    """Return which queue can wait for which."""
    return {pair for route in routes for pair in itertools.pairwise(route)}


def has_cycle(waits: Iterable[tuple[str, str]]) -> bool:
    """Say whether dependencies have a cycle."""
    return not rx.is_directed_acyclic_graph(_graph(waits)[0])


def is_cycle(queues: object, waits: set[tuple[str, str]]) -> bool:
    """Say whether an answer is a cycle of these dependencies, each queue once."""
    if not isinstance(queues, list | tuple) or not all(isinstance(each, str) for each in queues):
        return False
    if not queues or len(set(queues)) != len(queues):
        return False
    return all(pair in waits for pair in zip(queues, [*queues[1:], queues[0]], strict=True))


def first_fit(routes: Sequence[Route]) -> int:
    """Return how many classes first fit takes."""
    taken: list[set[tuple[str, str]]] = []
    for route in routes:
        adds = waits_of([route])
        for waits in taken:
            if not has_cycle(waits | adds):
                waits |= adds
                break
        else:
            taken.append(adds)
    return len(taken)


def paused(random: Random, count: int) -> Waits:
    """Return pauses as a run might record them: cycles, ways out of some, and what hangs on both.

    Queues q0 to q(count - 1) are paused, d0 to d3 drain.
    """
    names = [f"s{n}:{random.randrange(1, 5)}" for n in range(1, count + 1)]
    draining = [f"s{n}:{random.randrange(1, 5)}" for n in range(count + 1, count + 5)]
    found: Waits = {}
    start = 0
    while start < count:
        knot = names[start : start + random.randrange(2, 6)]
        start += len(knot)
        for here, there in zip(knot, [*knot[1:], knot[0]], strict=True):
            found[here] = [there] if random.random() < 0.85 or len(knot) == 1 else []
            found[here] += random.sample(names, random.choice((0, 0, 1)))
            if random.random() < 0.1:
                found[here].append(random.choice(draining))
    return {
        queue: sorted({other for other in others if other != queue})
        for queue, others in found.items()
    }


def stuck(waits: Waits) -> set[str]:
    """Return the queues that can reach none that drains and no host."""
    graph, index = _graph((a, b) for a, others in waits.items() for b in others)
    for name in waits:
        if name not in index:
            index[name] = graph.add_node(name)
    free: set[int] = set()
    for name, number in index.items():
        if not waits.get(name):  # drains, or a host is at its far end
            free |= {number, *rx.ancestors(graph, number)}
    return {name for name in waits if index[name] not in free}


def _graph(
    waits: Iterable[tuple[str, str]],
) -> tuple[rx.PyDiGraph[str, None], dict[str, int]]:
    pairs = list(waits)
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    index = {name: graph.add_node(name) for name in sorted({q for pair in pairs for q in pair})}
    graph.add_edges_from_no_data([(index[a], index[b]) for a, b in pairs])
    return graph, index
