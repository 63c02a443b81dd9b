"""Host programs in a lab's run: beside flows and alone, in real time and in the simulator.

h1 h2 h3 - s1
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from controller.program import CompiledProgram
from emulation import run_state
from emulation.programs import HostProgramError
from experiments import live, live_beside
from experiments.live_flows import live_flows
from experiments.live_model import LiveSettings
from tests.experiments.test_live import Teller
from workloads.loader import read_run
from workloads.model import RunFile
from workloads.plan import plan

PROGRAMS = Path(__file__).parents[1] / "hostagent"
MESSAGES = 5
RUN = f"""\
topology:
  switches: [s1]
  hosts: [h1, h2, h3]
  link: {{rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}}
  links:
    - {{a: h1, b: s1:1}}
    - {{a: h2, b: s1:2}}
    - {{a: h3, b: s1:3}}
  classes:
    roce: {{dscp: 26, queue: 3}}
until: 500us
programs:
  - {{program: "stop_and_wait.py:Sender", hosts: h1, settings: {{to: h3, messages: {MESSAGES}}}}}
  - {{program: "stop_and_wait.py:Taker", hosts: h3}}
"""
FLOWS = """\
transport: {congestion_control: none, retransmission: selective-repeat}
traffic:
  - message: {from: h2, to: h3, bytes: 500kB}
"""
SETTINGS = LiveSettings(time_scale=10_000, ports=(("s1", 3),))


def run_of(more: str = "") -> RunFile:
    return read_run(RUN + more, directory=PROGRAMS)


def test_programs_alone_are_a_run(whole_fabric: CompiledProgram) -> None:
    run = run_of()
    assert live_flows(run, plan(run)) == ()
    seen = live_beside.simulate(run, whole_fabric, SETTINGS)
    assert (seen.flows, seen.goodput_bps()) == ((), 0)
    assert [(each["host"], each["counters"]) for each in seen.programs] == [
        ("h1", {"answered": MESSAGES}),
        ("h3", {"taken": MESSAGES}),
    ]


@pytest.mark.root
def test_programs_run_beside_flows(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    teller = Teller()
    seen = live.play(run_of(FLOWS), whole_fabric, SETTINGS, teller)
    beside = live_beside.simulate(run_of(FLOWS), whole_fabric, SETTINGS)
    places = [[(each["program"], each["host"]) for each in run.programs] for run in (seen, beside)]
    assert places[0] == places[1]
    for run in (seen, beside):
        sender, taker = (each["counters"] for each in run.programs)
        assert (sender["answered"], taker["taken"]) == (MESSAGES, MESSAGES)
        (flow,) = run.flows
        assert flow.done_ps is not None
    assert teller.run
    assert teller.left() == []


def killed() -> None:
    """Kill the process that runs the programs of h1."""
    holder = run_state.holder()
    assert holder is not None
    state = run_state.read_record(Path(os.environ[run_state.RUN_ROOT_VARIABLE]) / holder[0])
    assert state is not None
    for each in state.processes:
        if each.role == "programs of h1" and each.is_alive():
            os.kill(each.pid, signal.SIGKILL)


@pytest.mark.root
def test_a_program_that_dies_ends_the_run_and_leaves_nothing_behind(
    roots: None, whole_fabric: CompiledProgram
) -> None:
    teller = Teller(killed)
    with pytest.raises(HostProgramError):
        live.play(run_of(), whole_fabric, SETTINGS, teller)
    assert teller.left() == []
    assert run_state.holder() is None
