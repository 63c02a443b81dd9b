"""The programs of a run file on a run's hosts: placed, started, and what they counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.policy import FabricPolicy
from hostagent.programs.loader import find, make
from hostagent.programs.program import Program
from simulator.fabric import Fabric
from topologies.model import Topology
from workloads.in_network import SUM, aggregation
from workloads.model import PlacedProgram, RunFile, Traffic

DSCPS = 64


@dataclass(frozen=True)
class RunningProgram:
    """A program on a host; `instance`: None for one in C."""

    number: int
    program: str
    host: str
    instance: Program | None


def host_addresses(topology: Topology) -> dict[str, int]:
    """Return every interface's address by its name: h1 for the first, h1:1 for the second."""
    return {str(each.end): int(each.address.ip) for each in topology.interfaces()}


def place_programs(
    fabric: Fabric, placed: Sequence[PlacedProgram], directory: Path
) -> tuple[RunningProgram, ...]:
    """Put an instance of each program on each of its hosts. Raises ProgramError."""
    topology, found = fabric.topology, []
    addresses = host_addresses(topology) if placed else {}
    for each in placed:
        kind = find(each.program, directory)
        for host in each.hosts:
            program = kind if isinstance(kind, str) else make(each.program, kind, each.settings)
            number = fabric.engine.programs.add(
                fabric.nodes[host],
                program,
                title=each.program,
                host=host,
                settings=each.settings if isinstance(kind, str) else None,
                addresses=addresses,
            )
            instance = None if isinstance(program, str) else program
            found.append(RunningProgram(number, each.program, host, instance))
    return tuple(found)


def place_workers(
    fabric: Fabric, run: RunFile, traffic: Traffic, seed: int
) -> tuple[RunningProgram, ...]:
    """Put programs on hosts that carry what switches sum or multicast, and give them messages.

    Raises ProgramError.
    """
    found: list[RunningProgram] = []
    numbers: dict[tuple[int, int], int] = {}
    largest: dict[int, int] = {}
    for message, group, _, what in traffic.orders:
        size = int(traffic.messages.messages["bytes"][message]) if what != SUM else 0
        largest[group] = max(largest.get(group, 0), size)
    for group, block_bytes in sorted(largest.items()):
        for rank, worker in enumerate(aggregation().workers(run.topology, group)):
            number = fabric.engine.programs.add(
                fabric.nodes[worker.host],
                worker.program,
                title=worker.program,
                host=worker.host,
                settings={**worker.settings, "seed": seed, "block_bytes": block_bytes},
            )
            numbers[group, rank] = number
            found.append(RunningProgram(number, worker.program, worker.host, None))
        for server in aggregation().servers(run.topology, group):
            number = fabric.engine.programs.add(
                fabric.nodes[server.host],
                server.program,
                title=server.program,
                host=server.host,
                settings=server.settings,
            )
            found.append(RunningProgram(number, server.program, server.host, None))
    for message, group, rank, what in traffic.orders:
        fabric.engine.programs.order(message, numbers[group, rank], what)
    return tuple(found)


def start_programs(fabric: Fabric, programs: Sequence[RunningProgram]) -> None:
    """Start them, if there are any. Raises ProgramError."""
    if not programs:
        return
    queues = FabricPolicy.of(fabric.topology).class_of_dscp
    fabric.engine.programs.start(
        time_scale=fabric.topology.time_scale,
        queue_of_dscp=[queues.get(dscp, 0) for dscp in range(DSCPS)],
    )


def program_ends(
    fabric: Fabric, programs: Sequence[RunningProgram]
) -> list[Mapping[str, str | Mapping[str, int]]]:
    """Return what each has counted, as summary.json has it."""
    return [
        {
            "program": each.program,
            "host": each.host,
            "counters": fabric.engine.programs.counters(each.number),
        }
        for each in programs
    ]
