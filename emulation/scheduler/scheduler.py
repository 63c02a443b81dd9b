"""Which jobs run on a fabric that is up, and what its controller planned for each.

    job file -> placed beside those that run -> declared to the controller -> ports, quality, times

One call at a time changes something; followers are notified after each change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from controller.blocking import BlockingController
from controller.jobs import DeclaredJob, JobsEnded, JobsSubmitted, PlannedJob, Scheduled
from emulation.errors import EmulationError
from emulation.scheduler.states import JobState, JobStates, state_of
from mechanisms.registry import mechanisms
from topologies.document import Document
from topologies.errors import did_you_mean
from topologies.model import Topology
from workloads.job_files import PlacedJob, placed_jobs

T = TypeVar("T")


class NobodyPlansError(EmulationError):
    """A fabric whose controller takes no jobs."""


class NoSuchJobError(EmulationError):
    """A job that does not run."""


@dataclass(frozen=True, eq=False)
class _Running:
    placed: PlacedJob
    took: Scheduled
    planned: PlannedJob | None = None


class Scheduler:
    """The jobs of one run. `address`: where a server takes them, host:port, if one does."""

    def __init__(self, topology: Topology, controller: Callable[[], BlockingController]) -> None:
        """Start without jobs; `controller` returns the fabric's present controller."""
        self.address = ""
        self._topology = topology
        self._controller = controller
        self._told: BlockingController | None = None  # who knows of the jobs
        self._running: dict[str, _Running] = {}
        self._revision = 0
        self._closed = False
        self._changed = threading.Condition(threading.RLock())

    def submit(
        self, document: Document, *, name: str = "", directory: Path = Path()
    ) -> tuple[JobState, ...]:
        """Start the jobs of a document, together; return what was planned for each.

        `name`: of its only job. Raises TopologyError (NameTakenError for a name that runs),
        NobodyPlansError, ControllerError.
        """
        with self._changed:
            controller = self._planning()
            running = [each.placed.entry for each in self._running.values()]
            placed = placed_jobs(self._topology, document, running, name=name, directory=directory)
            took = controller.schedule(JobsSubmitted(tuple(each.declared for each in placed)))
            for each in placed:
                self._running[each.name] = _Running(each, took)
            self._ask(controller, changed=True)
            return tuple(self._state(each.name) for each in placed)

    def end(self, names: Sequence[str]) -> tuple[JobState, ...]:
        """End jobs; return those that are left. Raises NoSuchJobError, with nothing changed."""
        with self._changed:
            for name in names:
                self._refuse_unknown(name)
            controller = self._planning()
            took = controller.schedule(JobsEnded(tuple(names)))
            for name in dict.fromkeys(names):
                del self._running[name]
            self._running = {k: replace(v, took=took) for k, v in self._running.items()}
            self._ask(controller, changed=True)
            return self.jobs().jobs

    def jobs(self) -> JobStates:
        """Return the jobs that run, in the order in which they came. Raises NobodyPlansError."""
        with self._changed:
            self._ask(self._planning())
            return JobStates(tuple(self._state(name) for name in self._running), self._revision)

    def follow(self, alive: Callable[[], bool] = lambda: True) -> Iterator[JobStates]:
        """Yield the jobs, and again after each change, until `close` or `alive` says no."""
        seen = -1
        while alive():
            with self._changed:
                if self._revision == seen:
                    self._changed.wait(_LOOK_S)
                if self._closed:
                    return
                found = self.jobs()
                if found.revision == seen:
                    continue
            seen = found.revision
            yield found

    def taken_over(self, bring_up: Callable[[tuple[DeclaredJob, ...]], T]) -> T:
        """Let a controller that takes the place of another be brought up with the jobs that run."""
        with self._changed:
            done = bring_up(self._open_jobs())
            self._ask(self._controller(), changed=bool(self._running))
            return done

    def close(self) -> None:
        """End what follows."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- the controller -----------------------------------------------------------------------

    def _planning(self) -> BlockingController:
        """Return the controller, informed of all jobs. Raises NobodyPlansError.

        One that was started again knows none: it gets those that run, with their ports.
        """
        controller = self._controller()
        if not controller.plans_jobs:
            raise NobodyPlansError(*_nobody_plans(self._topology))
        if controller is not self._told:
            if self._running:
                took = controller.schedule(JobsSubmitted(self._open_jobs()))
                self._running = {k: replace(v, took=took) for k, v in self._running.items()}
                self._ask(controller, changed=True)
            self._told = controller
        return controller

    def _open_jobs(self) -> tuple[DeclaredJob, ...]:
        """Return the jobs that run, which keep the ports that they have."""
        jobs = (each.placed.declared for each in self._running.values())
        return tuple(replace(job, is_open=True) for job in jobs)

    def _ask(self, controller: BlockingController, *, changed: bool = False) -> None:
        """Take what is planned now for every job, and notify followers if it is news.

        `changed`: it is, whatever was planned. A link that fails changes plans, too.
        """
        for name, each in self._running.items():
            planned = controller.planned(name)
            if _same(planned, each.planned):
                continue
            changed = True
            placed = each.placed
            if planned is not None:
                job = replace(placed.declared, udp_port=np.asarray(planned.udp_port))
                placed = replace(placed, declared=job)
            self._running[name] = replace(each, placed=placed, planned=planned)
        self._told = controller
        if changed:
            self._revision += 1
            self._changed.notify_all()

    def _state(self, name: str) -> JobState:
        each = self._running[name]
        return state_of(self._topology, each.placed, each.planned, each.took)

    def _refuse_unknown(self, name: str) -> None:
        if name not in self._running:
            there = ", ".join(self._running) or "none"
            hint = did_you_mean(name, self._running) or f": running: {there}"
            raise NoSuchJobError(f"no job {name!r} runs{hint}", "weft job list shows those that do")


_LOOK_S = 0.5
"""Between two looks whether links have changed plans, and whether somebody still listens."""


def _same(one: PlannedJob | None, other: PlannedJob | None) -> bool:
    """Say whether a job's plan is as it was."""
    if one is None or other is None:
        return one is other
    return (
        (one.version, one.planned_s, one.bound_s, one.proof)
        == (other.version, other.planned_s, other.bound_s, other.proof)
        and np.array_equal(one.udp_port, other.udp_port)
        and np.array_equal(one.by_entry, other.by_entry)
    )


def _nobody_plans(topology: Topology) -> tuple[str, str]:
    """Return the error where no mechanism plans with jobs, and what would be right."""
    keys = [
        setting.key
        for each in mechanisms()
        if each.source_ports is not None
        for setting in each.settings
    ]
    right = " or ".join(f"{key}: true" for key in keys) or "a mechanism that plans with jobs"
    return (
        f"no planner uses jobs in {topology.name}",
        f"write {right} into the topology's file, and bring it up again",
    )
