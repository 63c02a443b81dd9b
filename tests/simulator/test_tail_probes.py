"""A message whose last packets are lost is whole some round trips later, not a time-out later.

h2 -- s1 -- h1: 100 Gb/s, messages of four packets one after the other; one in fifty of what comes
to h1 is lost, and the time-out is 4.2 ms. Algorithms with a window send the last packet once more
when nothing has been acknowledged for two round trips; without a window there is only the time-out.
"""

from __future__ import annotations

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from workloads.loader import read_run

RUN = """
topology:
  generator: single
  hosts: 2
  time_scale: 1
  link: {{rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, ecn: hpcc-dcqcn, path_telemetry: hops}}
    rest: {{queue: 0}}
until: 100ms
events: [{{at: 0us, link: h1-s1, towards: h1, loss: {loss}}}]
transport: {{congestion_control: {control}, retransmission: {repeat}}}
traffic: [message: {{from: h2, to: h1, bytes: 16kB, count: 400, gap: 20us}}]
"""


def times_us(control: str, repeat: str, loss: str = "2%") -> np.ndarray:
    run = read_run(RUN.format(control=control, repeat=repeat, loss=loss))
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(run.topology)))
    times = Simulation(run, program, seed=3).run().end.message_times
    assert (times["done"] >= 0).all()
    took: np.ndarray = (times["done"] - times["ready"]) / 1e6
    return took


@pytest.mark.parametrize("repeat", ["go-back-n", "selective-repeat"])
@pytest.mark.parametrize("control", ["encc", "swift"])
def test_lost_ends_come_after_some_round_trips(control: str, repeat: str) -> None:
    took = times_us(control, repeat)
    late = took > 1.5 * np.median(took)
    assert 10 <= late.sum() <= 60  # a fiftieth of 1,600 packets
    assert took.max() < 150


def test_without_a_window_there_is_the_time_out() -> None:
    took = times_us("dcqcn", "go-back-n")
    assert took.max() > 4200


def test_nothing_is_sent_again_where_nothing_is_lost() -> None:
    took = times_us("encc", "go-back-n", "0.0000001%")
    assert took.max() < 1.01 * np.median(took)
