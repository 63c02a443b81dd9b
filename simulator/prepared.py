"""A fabric that is set up, at virtual time 0: what runs that differ in what comes after share.

    prepared = PreparedFabric(run, program)
    Simulation(run, program, seed=2, prepared=prepared)      # in a forked process, or once

Switches with their program, buffers and entries take most of the time before a run begins. They
follow from the topology, the program, the buffer, how far clocks may be off and the controller's
delay, and not from the seed, traffic, transport, receivers, events, `until` or `sample`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller.program import CompiledProgram
from controller.steering import SwitchPrograms
from mechanisms.switch_programs import around
from simulator.buffers import apply_buffer
from simulator.controller_link import ControlPlane
from simulator.fabric import Fabric, target_facts
from topologies.model import Topology
from workloads.model import BufferSettings, CardClocks, RunFile


@dataclass(frozen=True)
class SetUp:
    """What decides how a fabric is set up: two runs with equal ones may share it."""

    topology: Topology  # at the time scale of the run, without events
    program: str  # SHA-256
    buffer: BufferSettings | None
    clocks: CardClocks | None  # headroom follows from them, not from what the seed makes of them
    controller_delay_ps: int

    @classmethod
    def of(cls, run: RunFile, program: CompiledProgram, time_scale: int = 1) -> SetUp:
        """Return that of a run."""
        topology = replace(run.topology.with_time_scale(time_scale), events=())
        return cls(topology, program.sha256, run.buffer, run.clocks, run.controller_delay_ps)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leave out the collector of cycles, which would look through millions of entries in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class PreparedFabric:
    """The network and controller of one run, installed. `adopted` once, by a `Simulation`."""

    def __init__(
        self,
        run: RunFile,
        program: CompiledProgram,
        *,
        seed: int = 1,
        time_scale: int = 1,
        notice: Callable[[str], None] = lambda text: None,
        programs: SwitchPrograms | None = None,
    ) -> None:
        """`notice` gets what is being made.

        `programs`: what switches run beside `program`, if that is known already; else the topology
        says it. Raises PipelineError, WriteFailed, and what `mechanisms.switch_programs` does.
        """
        self.set_up = SetUp.of(run, program, time_scale)
        if programs is None:
            programs = around(run.topology, target_facts(run.topology), program)
        with _no_collection():
            self._install(run, program, seed, time_scale, notice, programs)

    def _install(
        self,
        run: RunFile,
        program: CompiledProgram,
        seed: int,
        time_scale: int,
        notice: Callable[[str], None],
        programs: SwitchPrograms,
    ) -> None:
        topology = run.topology.with_time_scale(time_scale)
        notice(f"{len(topology.switches)} switches")
        self.fabric = Fabric(topology, programs.program, seed=seed, others=programs.others)
        if run.buffer is not None:
            apply_buffer(self.fabric, run.buffer, run.clocks)
        notice("entries")
        self._agenda: list[tuple[int, Callable[[], None]]] = []
        self._adopted = False
        self.control = ControlPlane(
            self.fabric,
            programs.program,
            others=programs.others,
            own=programs.own,
            at=lambda time_ps, action: self._agenda.append((time_ps, action)),
            delay_ps=run.controller_delay_ps * topology.time_scale,
        )
        self.installed = self.control.bring_up()

    def adopt(
        self,
        run: RunFile,
        program: CompiledProgram,
        *,
        seed: int,
        time_scale: int,
        at: Callable[[int, Callable[[], None]], None],
        dead: set[str],
    ) -> None:
        """Become the network of a run: with its events, its seed, and its way to do things later.

        Raises ValueError for a run of another set-up, and where a run has had it already.
        """
        if self._adopted or SetUp.of(run, program, time_scale) != self.set_up:
            had = "another run has had it" if self._adopted else "the run's is another"
            raise ValueError(f"this fabric is not prepared for {run.name}: {had}")
        self._adopted = True
        self.fabric.topology = run.topology.with_time_scale(time_scale)
        self.fabric.seed(seed)
        self.control.at, self.control.dead = at, dead
        for time_ps, action in self._agenda:
            at(time_ps, action)
