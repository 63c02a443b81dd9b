"""The P4 program of a fabric: p4src/fabric.p4, built with what a topology uses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mechanisms.registry import defines, sizes
from softswitch.program_cache import Job
from topologies.model import Topology

FABRIC = Path(__file__).resolve().parent.parent / "p4src" / "fabric.p4"


def job(topology: Topology, source: Path | None = None) -> Job:
    """Return how to compile what the switches of a topology run.

    `source`: another program than `FABRIC`, which is compiled as it is, unless it is a copy of
    that: of the same name, with a list of mechanisms beside it.
    """
    if source is None or _is_fabric(source.resolve()):
        return Job(source or FABRIC, defines=defines(topology))
    return Job(source)


def job_of_all(topologies: Iterable[Topology], source: Path) -> Job:
    """Return how to compile what switches of several topologies run: everything, with room enough.

    Another program than p4src/fabric.p4 is compiled as it is.
    """
    return Job(source, defines=sizes(topologies) if _is_fabric(source.resolve()) else ())


def _is_fabric(source: Path) -> bool:
    return source.name == FABRIC.name and source.with_name("mechanisms.p4").is_file()
