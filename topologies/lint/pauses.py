"""Faults of pauses: routes on which lossless queues can wait for each other in a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topologies.lint.findings import Remark, Severity
from topologies.loader import Source
from topologies.model import Endpoint, Topology
from topologies.pause_cycles import PauseCycles


def pause_faults(source: Source) -> Iterator[Remark]:
    """Yield a cycle that traffic between all hosts makes in each lossless class."""
    topology = source.topology
    lossless = [each for each in topology.classes if each.lossless]
    if not lossless or not is_planned(topology):
        return
    cycle = PauseCycles(topology).of_all()
    if cycle:
        message = f"{cycle_text(cycle)}: traffic between all hosts can deadlock"
        right = "lint a run file to check its own traffic; a tree or a Clos has no such cycle"
        for each in lossless:
            path = ("classes", each.name)
            yield Remark(Severity.WARNING, path, f"class {each.name}", message, right)


def is_planned(topology: Topology) -> bool:
    """Say whether the fabric's controller makes all routes, so that they are known."""
    named = any(topology.own.program_of(each.name) is not None for each in topology.switches)
    return not named and topology.own.controller != "none"


def cycle_text(cycle: Sequence[Endpoint]) -> str:
    """Return a cycle of queues in words."""
    ports = " -> ".join(str(each) for each in (*cycle, cycle[0]))
    return f"cyclic buffer dependency {ports}"
