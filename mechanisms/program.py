"""The P4 program of a fabric: p4src/fabric.p4, built with what a topology uses."""

from __future__ import annotations

from pathlib import Path

from mechanisms.registry import defines
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


def _is_fabric(source: Path) -> bool:
    return source.name == FABRIC.name and source.with_name("mechanisms.p4").is_file()
