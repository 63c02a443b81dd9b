"""A graph of named nodes, before it runs: what is reached, and where it can go round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Successors = Callable[[str], Iterable[str]]
"""The nodes that can follow one."""


def reachable(start: str | None, successors: Successors) -> set[str]:
    """Return all nodes that can be met from `start` on; none without a start."""
    seen: set[str] = set()
    todo = [] if start is None else [start]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += successors(name)
    return seen


def back_edges(start: str | None, successors: Successors) -> set[tuple[str, str]]:
    """Return the edges to a node that may already be on the way: every cycle has one of them."""
    edges: set[tuple[str, str]] = set()
    done: set[str] = set()
    path: set[str] = set()
    stack: list[tuple[str, list[str]]] = []

    def enter(name: str) -> None:
        path.add(name)
        stack.append((name, list(successors(name))))

    if start is not None:
        enter(start)
    while stack:
        name, following = stack[-1]
        if not following:
            path.discard(name)
            done.add(name)
            stack.pop()
            continue
        target = following.pop()
        if target in path:
            edges.add((name, target))
        elif target not in done:
            enter(target)
    return edges
