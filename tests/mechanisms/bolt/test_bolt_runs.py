"""Bolt in virtual time, from the run file to what flows got; and where no switch answers.

eight hosts --100 Gb/s, 1 us--> s1 --100 Gb/s, 1 us--> h1
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from workloads.loader import read_run

LINE = 100 * 10**9 * 4096 / (4178 + 8)  # payload's part of a link
INCAST = """
topology:
  generator: single
  hosts: 9
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, CLASS}
    rest: {queue: 0}
until: 1ms
sample: 1us
transport: {congestion_control: CONTROL, mtu: 4096B, EXTRA}
traffic:
  - incast: {to: h1, senders: 8, TRAFFIC}
"""


@cache
def program_of(defined: tuple[str, ...]) -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=defined))


class Played:
    """A run that has ended: what each flow got, what waited, what the switch's counter says."""

    def __init__(self, scale: int = 1, **given: str) -> None:
        run = read_run(text(**given))
        assert run.until_ps is not None
        seconds = run.until_ps / 10**12
        program = program_of(defines(run.topology))
        simulation = Simulation(run, program, time_scale=scale, until_ps=run.until_ps * scale)
        outcome = simulation.run()
        flows: Any = np.asarray(outcome.end.flow_stats)
        self.goodput = flows["received_bytes"] * 8 / seconds
        self.jain = self.goodput.sum() ** 2 / (len(flows) * (self.goodput**2).sum())
        ports = [port for switch in outcome.end.switches.values() for port in switch.ports.values()]
        longest = max(ports, key=lambda port: port["wait_ps"])
        self.mean_wait_ps = longest["wait_ps"] / longest["waited"] / scale
        engine = simulation.fabric.engine
        slots = [
            engine.lib.sim_flow_slot(engine.pointer, flow).bolt.window_q16 for flow in range(8)
        ]
        self.windows = [int(each) / 65536 for each in slots]


def text(
    control: str = "bolt",
    extra: str = "",
    of_class: str = "bolt: true",
    traffic: str = "persistent: true",
) -> str:
    values = {"CLASS": of_class, "CONTROL": control, "EXTRA": extra, "TRAFFIC": traffic}
    found = INCAST
    for name, value in values.items():
        found = found.replace(name, value)
    return found


@pytest.fixture(scope="module")
def plain() -> Played:
    return Played()


def test_flows_share_a_link_that_is_full_with_a_queue_of_a_few_packets(plain: Played) -> None:
    assert plain.goodput.sum() > 0.93 * LINE  # the first millisecond, from the first packets on
    assert plain.jain > 0.97
    marks = Played(control="dcqcn", of_class="ecn: hpcc-dcqcn")
    assert plain.mean_wait_ps < marks.mean_wait_ps / 3


def test_steps_of_whole_packets_hold_a_longer_queue(plain: Played) -> None:
    """Another rule gives another result: as published."""
    whole = Played(extra="bolt_overrides: {steps: whole, ai: 1}")
    assert whole.mean_wait_ps > 2 * plain.mean_wait_ps


def test_in_slow_motion_it_is_the_same(plain: Played) -> None:
    slow = Played(scale=10)
    assert slow.goodput.sum() == pytest.approx(plain.goodput.sum(), rel=0.03)
    assert slow.mean_wait_ps == pytest.approx(plain.mean_wait_ps, rel=0.3)


def test_where_no_switch_answers_windows_only_grow(plain: Played) -> None:
    alone = Played(of_class="ecn: hpcc-dcqcn")
    assert min(alone.windows) > max(plain.windows)
    assert alone.mean_wait_ps > 5 * plain.mean_wait_ps
