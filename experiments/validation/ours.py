"""A case in Weft's simulator, with the settings of the other one as far as both have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.validation.cases import BUFFER, PAYLOAD, Case
from experiments.validation.ns3 import Control
from experiments.validation.slowdown import Decile, Numbers, deciles, one_way_ps
from mechanisms.switch_programs import choose
from simulator.fabric import target_facts
from simulator.result_model import Stop
from simulator.runner import Progress, Simulation
from topologies.document import Document
from workloads.hpcc import read_hpcc
from workloads.loader import run_of
from workloads.paths import wire_bytes

ALPHA = "1/2"
"""Their switches give a 400 Gb/s port 1/2 of what is free, a 100 Gb/s port 1/8; ours have one."""
RETH = 16


class NotDoneError(Exception):
    """A run of ours ended with flows that are not done: a queue pair has failed."""


@dataclass(frozen=True)
class Result:
    """What a run of ours gave. `repeated`: packets sent again; `pauses`: XOFF frames."""

    seed: int
    deciles: list[Decile]
    cpu_s: float
    hops: int
    pauses: int
    repeated: int
    last_ms: float


def run_file(case: Case, control: Control) -> dict[str, Any]:
    """Return the run file, with the flows in it."""
    roce = {"dscp": 26, "queue": 3, "lossless": True, **control.roce}
    classes = {"cnp": {"dscp": 48, "queue": 6}, "roce": roce, "rest": {"queue": 0}}
    classes = {name: each for name, each in classes.items() if name not in control.without}
    file = f"{case.name}.txt"
    flows = read_hpcc(case.flow_file(), file)
    return {
        "description": f"{case.name} under {control.name}",
        "topology": case.fabric.topology(classes),
        "sample": "100us",
        "buffer": {"shared": BUFFER, "alpha": ALPHA, "headroom": "formula", **control.buffer},
        "transport": {"mtu": f"{PAYLOAD}B", "ack_every": 1, **control.transport},
        "traffic": [{"matrix": {"hpcc": file, "imported": {file: flows}}}],
    }


def simulate(
    case: Case,
    control: Control,
    seed: int = 1,
    tell: Callable[[Progress], None] | None = None,
) -> Result:
    """Run a case. `seed`: of the paths, and not of the flows, which are the case's.

    Raises TopologyError, CompileError and what else a run can fail with; NotDoneError;
    KeyboardInterrupt as it comes, since half a case compares with nothing.
    """
    document = Document(f"<{case.name}>", run_file(case, control), {})
    run = run_of(document, case.name, Path())
    programs = choose(run.topology, target_facts(run.topology)).programs
    simulation = Simulation(run, programs.program, seed=seed, programs=programs)
    outcome = simulation.run(None, tell)
    if outcome.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    times = outcome.end.message_times
    flows = case.connections()
    done = np.array(times["done"], dtype=np.int64)
    starts = np.array([start for *_, start in flows], dtype=np.int64)
    if len(done) != len(flows) or (done < starts).any():
        undone = int((done < starts).sum())
        raise NotDoneError(f"{case.name}, seed {seed}: {undone} of {len(flows)} flows are not done")
    sizes = np.array([size for _, _, size, _ in flows], dtype=np.int64)
    ideal = one_way_ps(case.fabric, flows, _wire(sizes))
    stats = outcome.end.transport_stats
    repeated = 0 if stats is None else int(stats["repeated_packets"].sum())
    return Result(
        seed,
        deciles(sizes, done - starts, ideal),
        round(outcome.cpu_s, 1),
        int(outcome.end.totals["hops"]),
        sum(
            _sent(ports)
            for switch in outcome.end.switches.values()
            for ports in switch.pfc.values()
        ),
        repeated,
        round(float(done.max()) / 1e9, 3),
    )


def _wire(sizes: Numbers) -> Numbers:
    found: Numbers = wire_bytes(sizes, np.full(len(sizes), PAYLOAD)) + RETH
    return found


def _sent(port: Mapping[str, int | Sequence[int]]) -> int:
    """Return the XOFF frames that a port has sent, of all classes."""
    sent = port["xoff_sent"]
    return sent if isinstance(sent, int) else sum(sent)
