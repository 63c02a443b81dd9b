"""What is found once for a topology, and kept as long as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import ReferenceType, ref

from topologies.model import Topology

T = TypeVar("T")


def kept(find: Callable[[Topology], T]) -> Callable[[Topology], T]:
    """Decorate a function of a topology whose result depends on nothing else.

    By identity: a topology's hash is as large as it is. What it raises is not kept.
    """
    found: dict[int, tuple[ReferenceType[Topology], T]] = {}

    @wraps(find)
    def wrapper(topology: Topology) -> T:
        key = id(topology)
        if key not in found:
            value = find(topology)
            of = found  # at the end of the process, names go before topologies
            found[key] = (ref(topology, lambda _: of.pop(key, None)), value)
        return found[key][1]

    return wrapper
