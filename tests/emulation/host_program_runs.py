"""A fabric between namespaces for a run file's programs, and the run played until they are done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller import CompiledProgram
from emulation import run_state
from emulation.link_events import FabricCalls
from emulation.programs import HostPrograms
from emulation.session import Session
from emulation.switch_node import Target
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from topologies.events import calls
from workloads.model import RunFile

SCALE = 10_000
PATIENCE_S = 90.0


@contextmanager
def running(run: RunFile, root: Path) -> Iterator[Session]:
    """Bring a run's fabric up on softswitch, with its records beneath `root`."""
    program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        made = Session(run.topology.with_time_scale(SCALE), Target.SOFTSWITCH)
        try:
            made.claim()
            made.build_network()
            made.wait_for_switches()
            made.bring_up(program)
            yield made
        finally:
            made.close()


def play(session: Session, run: RunFile, calls_in_all: int) -> list[Any]:
    """Run all programs until they have counted so many `calls`; return what each counted."""
    fabric = FabricCalls(session)
    for call in calls(run.topology.with_time_scale(SCALE)):
        fabric.perform(call)
    with HostPrograms(session, run.programs, run.directory) as programs:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            done = [int(each["counters"].get("calls", 0)) for each in programs.counters()]
            if sum(done) == calls_in_all:
                break
            time.sleep(0.1)
        return list(programs.stop())
