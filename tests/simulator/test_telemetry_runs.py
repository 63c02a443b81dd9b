"""Telemetry beside everything else of the fabric: hosts that listen, switches that also send CNPs.

h1, h2 -- s1 ====== s2 -- h3, h4, h5      100 Gb/s and 500 ns each

The fabric's program with all its mechanisms and one of the tests that writes 12 bytes a hop; each
flow's sender has fast CNPs and `listener`, an algorithm of the tests (algorithms_for_tests).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from hostagent.algorithms import Parameters, pack
from simulator.core import binding
from simulator.core.own_algorithm import engine_in_place
from simulator.runner import Simulation
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER
from tests.p4src import hop_records
from tests.simulator.test_fast_cnp_runs import (
    RECEIVER,
    SENT,
    TO_BOTH,
    TRUNK,
    TWO_QUEUES,
    Played,
)
from workloads.loader import read_run

UNTIL = 400_000_000  # ps


class Listened(Played):
    """A run of that program."""

    def __init__(self, text: str, program: CompiledProgram) -> None:
        self.simulation = Simulation(read_run(text), program, time_scale=1, until_ps=UNTIL)
        outcome = self.simulation.run()
        self.stats: Any = outcome.end.transport_stats
        self.switches = outcome.end.switches


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CompiledProgram]:
    def with_listener(ffi: Any, parameters: Parameters | None) -> Any:
        return pack(ffi, {**parameters, "listener": LISTENER} if parameters else None)

    monkeypatch.setattr(binding, "pack", with_listener)
    source = hop_records.source(tmp_path)
    program = CompiledProgram.of(compile_p4(source, defines=["WITH_HOP_RECORDS"]))
    with engine_in_place(more_algorithms.built()):
        yield program


def test_switches_write_and_send_fast_cnps_of_the_same_packets(program: CompiledProgram) -> None:
    """A CNP is made of a copy of a packet that collects; it has no shim, and its ICRC is right."""
    played = Listened(TWO_QUEUES, program)
    trunk, receiver = played.outcomes(TRUNK), played.outcomes(RECEIVER)
    assert trunk[SENT] > 0 and receiver[SENT] > 0
    told = int(played.stats["notified"].sum())
    assert 0 <= trunk[SENT] + receiver[SENT] - told <= 6, "all but those on their way are heard"
    assert played.stats["repeated_packets"].sum() == 0
    engine = played.simulation.engine
    hops = []
    for flow in range(3):
        state = engine.lib.sim_flow_slot(engine.pointer, flow).listener
        assert state.told == state.timed == state.events > 20
        hops.append(int(state.last_hops))
    assert hops[TO_BOTH] == max(hops) == 2 and sorted(hops) == [1, 2, 2]
