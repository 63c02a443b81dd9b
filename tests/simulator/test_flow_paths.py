"""Where flows go, and who is blocked by congestion that is none of theirs.

    h1, h2, h3 - s1 ==400 Gb/s== s2 - h5, h6        all others 100 Gb/s

h1 and h2 send to h5, h3 to h6, all lossless: h5's port is congested, s2 pauses s1's uplink, and
h3's packets wait in it although h6 is idle.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from controller.program import CompiledProgram
from simulator.flow_paths import FlowPaths
from simulator.runner import Simulation
from softswitch.program_cache import Job, compile_program
from workloads.loader import read_run

RUN = """\
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h5, h6]
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s1:2}
    - {a: h3, b: s1:3}
    - {a: h5, b: s2:5}
    - {a: h6, b: s2:6}
    - {a: s1:9, b: s2:9, rate: 400Gbps}
  classes:
    roce: {dscp: 26, queue: 3, lossless: true}
    rest: {queue: 0}
until: 2ms
buffer: {shared: 1MB, alpha: 1/8, headroom: formula}
traffic:
  - message: {from: h1, to: h5, bytes: 100MB}
  - message: {from: h2, to: h5, bytes: 100MB}
  - message: {from: h3, to: h6, bytes: 100MB}
"""


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    found = compile_program(Job(Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"))
    return CompiledProgram.of(found)


def test_a_flow_behind_others_congestion_is_a_victim(
    tmp_path: Path, program: CompiledProgram
) -> None:
    simulation = Simulation(read_run(RUN), program)
    _until_it_is_blocked(simulation)
    summary = simulation.run(tmp_path / "out").summary
    assert summary["drops"]["packets"] == 0
    blocked = pq.read_table(tmp_path / "out" / "blocked.parquet").to_pylist()
    uplink = next(row for row in blocked if (row["node"], row["port"]) == ("s1", 9))
    assert (uplink["class"], uplink["roots"], uplink["deadlocked"]) == (3, "s2:5/3", False)
    victims = pq.read_table(tmp_path / "out" / "victims.parquet").to_pylist()
    assert [(row["src"], row["dst"], row["node"], row["port"]) for row in victims] == [
        ("h3", "h6", "s1", 9)
    ]
    assert summary["blocking"] == {
        "blocked_queues": len(blocked),
        "victim_flows": 1,
        "deadlocks": [],
    }


def _until_it_is_blocked(simulation: Simulation) -> None:
    """Run until h3's packets wait in a paused uplink, and let that be the end: pauses are short."""
    engine, core = simulation.engine, simulation.fabric.switches["s1"].device.core
    while not any(
        row.paused and (row.ingress_port, row.egress_port) == (3, 9) for row in core.waiting()
    ):
        engine.run(engine.now + 100_000)
        assert engine.now < 2_000_000_000, "the uplink was never paused"
    simulation.until_ps = engine.now


def test_paths_are_those_of_the_controllers_entries(program: CompiledProgram) -> None:
    simulation = Simulation(read_run(RUN), program)
    paths = FlowPaths(simulation.fabric.topology, program, simulation.control.model.installed)
    found = paths.of(simulation.traffic, [0, 2])
    assert found == {0: (("s1", 9), ("s2", 5)), 2: (("s1", 9), ("s2", 6))}
    nothing = dict.fromkeys(simulation.fabric.switches, ())
    assert FlowPaths(simulation.fabric.topology, program, nothing).of(simulation.traffic, [0]) == {
        0: ()
    }
    paths.close()
