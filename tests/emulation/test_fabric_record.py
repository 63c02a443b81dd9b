"""What a run tells other commands of its fabric."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import topologies
from emulation import fabric_record, run_state
from emulation.errors import StateError
from emulation.fabric_record import FabricRecord, NoRunError
from emulation.run_state import Run

TOLD = """\
generator: single
time_scale: 1
hosts: 2
link: {rate: 400Gbps, delay: 500ns, queue: 9MB}
classes:
  a: {dscp: 1, queue: 1, ecn: 100kB}
  b: {dscp: 2, queue: 2, ecn: {min: 400kB, max: 1600kB, probability: 20%}}
  c: {dscp: 3, queue: 3, ecn: hpcc-dcqcn, fast_cnp: true}
  d: {dscp: 4, queue: 4, fast_cnp: {target: 200kB, share: 2%, gateway: true}}
  rest: {queue: 0}
"""


def record_of(run: Run, topology: str = "leafspine") -> FabricRecord:
    return FabricRecord(run.name, "softswitch", topologies.load(topology), {"s1": "127.0.0.1:9559"})


@pytest.mark.parametrize("topology", topologies.available())
def test_it_reads_what_was_saved(run: Run, topology: str) -> None:
    saved = record_of(run, topology)
    saved.save()
    assert fabric_record.running() == saved
    assert fabric_record.running_run() == run.name


def test_it_reads_what_mechanisms_are_told_of_classes(run: Run) -> None:
    """Every way to write them: a step, a ramp, a set's name, all defaults, single numbers."""
    topology = topologies.loads(TOLD)
    assert len([key for each in topology.classes for key, _ in each.settings]) == 5
    FabricRecord(run.name, "softswitch", topology, {"s1": "127.0.0.1:9559"}).save()
    assert fabric_record.running().topology == topology


def test_no_run(roots: Path) -> None:
    with pytest.raises(NoRunError, match="no run is up") as caught:
        fabric_record.running()
    assert "make run-topo CLI=1" in caught.value.remedy


def test_a_run_that_is_still_starting(run: Run) -> None:
    with pytest.raises(NoRunError, match=f"run {run.name} is still starting"):
        fabric_record.running()


def test_a_run_whose_runner_crashed_is_none(run: Run) -> None:
    record_of(run).save()
    lock = run_state.run_root() / "lock"
    text = lock.read_text()
    lock.write_text(json.dumps({**json.loads(text), "start_ticks": 1}))  # another process's id
    with pytest.raises(NoRunError, match="no run is up"):
        fabric_record.running()
    lock.write_text(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0, "fabric": {}}', '{"format": 2, "fabric": {"run": 3}}']
)
def test_a_record_that_is_none(run: Run, text: str) -> None:
    (run.directory / "fabric.json").write_text(text)
    with pytest.raises(StateError, match="not a record of a fabric"):
        fabric_record.running()


def test_it_goes_with_the_run(run: Run) -> None:
    record_of(run).save()
    shutil.rmtree(run.directory)
    with pytest.raises(NoRunError):
        fabric_record.running()
    run.directory.mkdir()
