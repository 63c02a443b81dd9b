"""A fabric that was set up before: the same results as from one that was set up for the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from simulator.prepared import PreparedFabric
from simulator.runner import Simulation
from softswitch.jobs import Died, in_child
from tests.simulator.test_runner import program
from workloads.loader import read_run

RUN = """topology:
  generator: fat_tree
  k: 4
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}
    rest: {queue: 0}
buffer: {shared: 4MB, alpha: 1/8, headroom: formula}
until: 300us
sample: 20us
"""
FIRST = "traffic: [{incast: {to: h1, senders: 6, persistent: true}}]\n"
OTHERS = (
    "transport: {congestion_control: dcqcn}\n" + FIRST,
    "traffic: [{mix: {sizes: websearch, load: 40%, stop: 200us}}]\n",
    "traffic: [{poisson: {from: h1, to: h9, rate: 20Gbps}}]\n"
    "events: [{at: 50us, link: s1-s9, do: down}, {at: 0us, link: h1-s1, loss: 10%}]\n",
    "job: {ranks: 8, placement: random, phases: [{allreduce: {bytes: 1MB}}]}\n",
)


@pytest.mark.parametrize("seed", [1, 5])
def test_runs_on_a_copy_are_those_of_fresh_processes(seed: int, tmp_path: Path) -> None:
    """One fabric, many runs: other traffic, transports, events and seeds, in any order."""
    prepared = PreparedFabric(read_run(RUN + FIRST), program(), seed=77)
    for number, text in enumerate((*OTHERS, FIRST, *reversed(OTHERS))):
        run = read_run(RUN + text)
        fresh = Simulation(run, program(), seed=seed).run(tmp_path / f"fresh-{number}")

        def played(run=run, number=number):  # type: ignore[no-untyped-def]
            simulation = Simulation(run, program(), seed=seed, prepared=prepared)
            return simulation.run(tmp_path / f"copy-{number}").summary

        assert in_child(played) == fresh.summary  # with the hash of every file
        assert fresh.summary["flows"]["received_packets"] > 0


def test_a_fabric_is_for_its_set_up_and_for_one_run() -> None:
    prepared = PreparedFabric(read_run(RUN + FIRST), program())
    other = read_run(RUN.replace("shared: 4MB", "shared: 5MB") + FIRST)
    with pytest.raises(ValueError, match="the run's is another"):
        Simulation(other, program(), prepared=prepared)
    with pytest.raises(ValueError, match="the run's is another"):
        Simulation(read_run(RUN + FIRST), program(), time_scale=2, prepared=prepared)
    Simulation(read_run(RUN + FIRST), program(), prepared=prepared)
    with pytest.raises(ValueError, match="another run has had it"):
        Simulation(read_run(RUN + FIRST), program(), prepared=prepared)


def test_a_child_that_dies_is_told_from_one_that_fails() -> None:
    def fails() -> int:
        raise LookupError("nothing")

    assert in_child(lambda: 7) == 7
    with pytest.raises(LookupError, match="nothing"):
        in_child(fails)
    with pytest.raises(Died, match="was ended by SIGKILL") as died:
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert died.value.loss.code == -signal.SIGKILL
    with pytest.raises(Died, match="ended with code 3"):
        in_child(lambda: os._exit(3))
