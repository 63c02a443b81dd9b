"""A ring of switches in virtual time, its flows in the classes that somebody chose."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.program import CompiledProgram
from experiments import loader
from experiments.api import Runtime
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.result_blocking import Waiting, analyse, waiting_rows
from simulator.runner import Simulation
from workloads.loader import read_run

from .cases import Waits

FOLDER = Path(__file__).parent
HALF_PS, UNTIL_PS = 300_000_000, 600_000_000
FIRST_QUEUE, FIRST_DSCP = 2, 10
PLAYED_CLASSES = 4
"""Queues 2 to 5; DSCPs 10 to 13."""


@dataclass(frozen=True)
class Played:
    """What came of it: packets that each flow got in the second half, and who waits for whom.

    `stuck`: the queues of which Weft's own analysis says that nothing opens them.
    """

    received: tuple[int, ...]
    waits: Waits
    stuck: set[str]


def mapping() -> dict[str, Any]:
    """Return the lab's run file."""
    lab = loader.load(FOLDER.name, FOLDER.parent)
    found: dict[str, Any] = deepcopy(dict(lab.variants(Runtime.SIMULATOR)[0].mapping))
    return found


def played(count: int, classes: Sequence[int], seed: int) -> Played:
    """Play a ring of `count` switches, flow n from host n to the one two switches on."""
    data = mapping()
    topology = data["topology"]
    numbers = range(1, count + 1)
    topology["switches"] = [f"s{n}" for n in numbers]
    topology["hosts"] = [f"h{n}" for n in numbers]
    topology["links"] = [{"a": f"h{n}", "b": f"s{n}:1"} for n in numbers] + [
        {"a": f"s{n}:2", "b": f"s{n % count + 1}:3"} for n in numbers
    ]
    lossless = {
        f"c{n}": {"dscp": FIRST_DSCP + n, "queue": FIRST_QUEUE + n, "lossless": True, "weight": 1}
        for n in range(PLAYED_CLASSES)
    }
    topology["classes"] = {"cnp": {"dscp": 48, "queue": 7}, **lossless, "rest": {"queue": 0}}
    data["traffic"] = [
        {"incast": {"to": f"h{(n + 2) % count + 1}", "from": [f"h{n + 1}"], "persistent": True,
                    "dscp": FIRST_DSCP + classes[n]}}
        for n in range(count)
    ]  # fmt: skip
    run = read_run(yaml.safe_dump(data))
    program = CompiledProgram.of(compile_for(run.topology)(FABRIC))
    simulation = Simulation(run, program, seed=seed)
    simulation.advance(HALF_PS)
    half = _received(simulation)
    simulation.advance(UNTIL_PS)
    gained = [after - before for before, after in zip(half, _received(simulation), strict=True)]
    rows = [
        row
        for name, switch in simulation.fabric.switches.items()
        for row in waiting_rows(name, switch.device.core.waiting())
    ]
    found = analyse(run.topology, rows)
    return Played(
        tuple(gained),
        _waits(simulation, rows),
        {str(each.queue) for each in found.blocked if each.deadlocked},
    )


def _received(simulation: Simulation) -> list[int]:
    stats = simulation.engine.flow_stats(0, len(simulation.traffic.flows))
    counts: list[int] = stats["received_packets"].tolist()
    return counts


def _waits(simulation: Simulation, rows: Sequence[Waiting]) -> Waits:
    """Return of each paused queue the queues that packets wait in at the far end of its link."""
    topology = simulation.fabric.topology
    found: Waits = {}
    for row in rows:
        if not row.paused or not row.packets:
            continue
        far = topology.peer(row.queue.node, row.queue.port)
        found[str(row.queue)] = sorted(
            {str(other.queue) for other in rows if other.packets
             and (other.queue.node, other.ingress) == (far.node, far.port)
             and other.queue.queue == row.queue.queue}
        )  # fmt: skip
    return found
