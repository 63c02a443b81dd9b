"""A controller without switches that plans: flow i of the n-th job gets port 50000 + 100 n + i."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from controller import FabricController, parts
from controller.digests import DigestMessage
from controller.jobs import DeclaredJob, JobsEnded, JobsSubmitted, PlannedJob, Scheduled
from controller.leaf_routes import Routes
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.contract import Mechanism
from tests.simulator.fabric_program import fabric_program
from topologies.model import Topology


@dataclass
class ToyPlanner:
    """Keeps the ports that a job came with if they are not its topology's first choice."""

    jobs: dict[str, DeclaredJob] = field(default_factory=dict)
    told: list[tuple[str, list[int]]] = field(default_factory=list)
    version: int = 0

    def submitted(self, jobs: Iterable[DeclaredJob], now: int) -> Learned | None:
        for job in jobs:
            self.told.append((job.name, job.udp_port.tolist()))
            self.jobs[job.name] = job
        self.version += 1
        return None

    def ended(self, names: Iterable[str], now: int) -> Learned | None:
        for name in names:
            self.jobs.pop(name, None)
        self.version += 1
        return None

    def planned(self, name: str) -> PlannedJob | None:
        if name not in self.jobs:
            return None
        place, count = list(self.jobs).index(name), len(self.jobs[name])
        ports = 50_000 + 100 * place + np.arange(count)
        return PlannedJob(ports, ports % 2 == 1, 4e-3, 3e-3, "a cut", self.version)

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        return None

    def elapsed(self, now: int) -> Learned | None:
        return None

    def due(self) -> int | None:
        return None

    def routed(self, routes: Routes, now: int) -> Learned | None:
        return None

    def switched(self, on: bool, now: int) -> Learned | None:
        return None

    def totals(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True)
class ToyPart(Mechanism):
    """Plans where it has a planner."""

    planner: ToyPlanner | None = field(default=None, compare=False)

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> ToyPlanner | None:
        return self.planner


class Controlled:
    """What a scheduler needs of a `BlockingController`; no switch is asked."""

    def __init__(self, topology: Topology, planner: ToyPlanner | None) -> None:
        with _only(ToyPart("toy", "toy", planner=planner)):
            addresses = {switch.name: "127.0.0.1:1" for switch in topology.switches}
            self._controller = FabricController(topology, addresses, fabric_program())

    @property
    def plans_jobs(self) -> bool:
        return self._controller.plans_jobs

    def schedule(self, event: JobsSubmitted | JobsEnded) -> Scheduled:
        return asyncio.run(self._controller.schedule(event))

    def planned(self, job: str) -> PlannedJob | None:
        return asyncio.run(self._controller.planned(job))


@contextmanager
def _only(part: ToyPart) -> Iterator[None]:
    before = parts.all_parts()
    parts.install((part,))
    try:
        yield
    finally:
        parts.install(before)
