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


def record_of(run: Run, topology: str = "leafspine") -> FabricRecord:
    return FabricRecord(run.name, "softswitch", topologies.load(topology), {"s1": "127.0.0.1:9559"})


@pytest.mark.parametrize("topology", topologies.available())
def test_it_reads_what_was_saved(run: Run, topology: str) -> None:
    saved = record_of(run, topology)
    saved.save()
    assert fabric_record.running() == saved
    assert fabric_record.running_run() == run.name


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
    "text", ["", "[]", "{}", '{"format": 0, "fabric": {}}', '{"format": 1, "fabric": {"run": 3}}']
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
