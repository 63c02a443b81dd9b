"""Options of commands that run a program of the user's: `--p4` and `--entries`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from observe.errors import UsageError
from topologies.model import Topology
from topologies.own_program import entry_files


def with_own(topology: Topology, program: Path | None, entries: Path | None) -> Topology:
    """Return a topology whose switches run `program` and get the entries of a folder.

    None leaves what the topology says. Raises UsageError.
    """
    own = topology.own
    if program is not None:
        if not program.is_file():
            raise UsageError(f"--p4 {program}: no such file")
        own = own.with_program(program.absolute())
    if entries is not None:
        try:
            names = [each.name for each in topology.switches]
            own = own.with_entries(entry_files(entries.absolute(), names))
        except ValueError as error:
            raise UsageError(f"--entries {error}") from None
    return topology if own == topology.own else replace(topology, own=own)
