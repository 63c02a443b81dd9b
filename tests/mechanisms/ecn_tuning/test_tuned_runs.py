"""In virtual time: thresholds follow the load, and stand when nobody is there to change them.

h2, h3 = long flows, h4 .. h27 = 64 kB each at once ==> s1 ==> h1
"""

from __future__ import annotations

from functools import cache

import pytest

from compiler import compile_p4
from controller.entries import ActionCall, TableEntry, decode
from controller.program import CompiledProgram
from mechanisms.ecn_tuning.entries import THRESHOLD_TABLE
from mechanisms.ecn_tuning.learner import EcnTuner
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.controller_link import ControlPlane
from simulator.runner import Simulation
from softswitch.p4runtime.protos import p4r
from workloads.loader import read_run
from workloads.model import RunFile

MS = 10**9
SENDERS = ", ".join(f"h{n}" for n in range(4, 28))
RUN = f"""
topology:
  generator: single
  time_scale: 1
  hosts: 27
  link: {{rate: 100Gbps, delay: 5us, queue: 1MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, ecn: hpcc-dcqcn, ecn_tuning: {{memory: 8ms}}}}
    rest: {{queue: 0}}
controller: {{delay: 100us}}
transport: {{congestion_control: dcqcn, ack_class: cnp, timeout: 1ms}}
until: 16ms
traffic:
  - message: {{from: [h2, h3], to: h1, bytes: 200MB}}
  - incast: {{to: h1, from: [{SENDERS}], bytes: 64kB, rounds: 3, every: 500us, start: 2ms}}
"""


@cache
def run_file() -> RunFile:
    return read_run(RUN)


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines(run_file().topology)))


def tuner(simulation: Simulation) -> EcnTuner:
    found = simulation.control.loop.learners["ecn_tuning"]
    assert isinstance(found, EcnTuner)
    return found


def low(simulation: Simulation, port: int = 1) -> int:
    """Return the lower threshold that the switch holds for a port, in cells of 256 bytes."""
    info = simulation.control.program.p4info
    asked = p4r.Entity(table_entry=p4r.TableEntry(table_id=info.tables[THRESHOLD_TABLE].id))
    held = [decode(each, info) for each in simulation.fabric.switches["s1"].device.read([asked])]
    for entry in held:
        if isinstance(entry, TableEntry) and dict(entry.match)["port"].value == port:  # type: ignore[union-attr]
            assert isinstance(entry.action, ActionCall)
            return dict(entry.action.arguments)["low"]
    return 0


def looked_at(monkeypatch: pytest.MonkeyPatch, simulation: Simulation) -> list[tuple[int, int]]:
    """Return a list that fills with (ps, lower threshold) whenever reports are heard."""
    seen: list[tuple[int, int]] = []
    heard = ControlPlane._heard

    def look(self: ControlPlane, messages: object) -> None:
        heard(self, messages)  # type: ignore[arg-type]
        seen.append((simulation.fabric.engine.now, low(simulation)))

    monkeypatch.setattr(ControlPlane, "_heard", look)
    return seen


def test_thresholds_follow_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two flows, then 24 more whose burst of 1.5 MB the 1 MB don't hold, then two again.

    At the start these two meet at line rate, so that at first there is less than all room.
    """
    simulation = Simulation(run_file(), program(), seed=1)
    seen = looked_at(monkeypatch, simulation)
    outcome = simulation.run()

    def between(start_ms: float, end_ms: float) -> set[int]:
        return {found for at, found in seen if start_ms * MS <= at < end_ms * MS}

    wait = 2 * 258_000 // 256  # two round trips of 100 Gb/s
    crowd = between(2.5, 10)
    assert crowd and max(crowd) <= 258_000 / 24**0.5 / 256 * 1.1
    assert 2 * max(crowd) < min(between(1, 2)) <= wait
    assert all(abs(found - wait) <= wait / 8 for found in between(14, 16))
    assert outcome.end.totals["ecn_reports"] > 100
    assert 2 <= outcome.end.totals["ecn_thresholds"] < 30


def test_the_last_thresholds_stand_when_the_controller_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It hears nothing from 5 ms on, so the burst's thresholds are there at the end."""
    simulation = Simulation(run_file(), program(), seed=1)
    seen = looked_at(monkeypatch, simulation)
    watched = ControlPlane._heard

    def deaf(self: ControlPlane, messages: object) -> None:
        if simulation.fabric.engine.now < 5 * MS:
            watched(self, messages)  # type: ignore[arg-type]

    monkeypatch.setattr(ControlPlane, "_heard", deaf)
    simulation.run()
    assert seen[-1][0] < 5 * MS
    assert low(simulation) == seen[-1][1] > 0
    known = tuner(simulation).known["s1", 1, 3]
    assert known.found is not None and known.found.min_bytes // 256 == low(simulation)


def test_the_same_seed_has_the_same_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in range(2):
        simulation = Simulation(run_file(), program(), seed=2, until_ps=6 * MS)
        with monkeypatch.context() as patch:
            seen = looked_at(patch, simulation)
            simulation.run()
        found.append(seen)
    assert found[0] == found[1] != []
