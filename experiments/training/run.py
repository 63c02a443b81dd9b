"""Runs a training job on a fabric: its ranks, faults meanwhile, and what came of both."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from emulation import processes
from emulation.switch_node import Target
from experiments.training import cards
from experiments.training.fabric import Fabric
from experiments.training.faults import Fault
from experiments.training.job import STORE_PORT, RankJob, Training, Transport
from experiments.training.planes import PlaneOfRank, planes_of
from experiments.ways import Ways
from hostagent.collective.communicator import BLOCK_MTU
from hostagent.collective.neighbours import PORT
from mechanisms.contract import SwitchJobs
from mechanisms.registry import mechanisms
from observe.errors import UsageError
from topologies.model import Host, Topology

TIMEOUTS_S = {Target.SOFTSWITCH.value: 0.01, Target.BMV2.value: 0.25}
"""After how long workers repeat a packet first: BMv2 takes far longer for a round of all slots."""

BMV2_BPS = 5_000_000

LANES = 32
"""Values that share an exponent on the ring of a fabric whose switches have no job."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_END_S = 5.0
_LOG_LINES = 5


class TrainingError(Exception):
    """A job could not be started, or said nothing that makes sense."""


@dataclass(frozen=True)
class Request:
    """What is asked for. `hosts`: in the order of ranks; `loss`: of frames on every link."""

    transport: Transport
    training: Training = field(default_factory=Training)
    hosts: tuple[str, ...] = ()
    job: str | None = None
    loss: str | None = None
    faults: tuple[Fault, ...] = ()
    give_up_s: float = 5.0
    ways: Ways = field(default_factory=Ways)


@dataclass(frozen=True)
class StepSeen:
    """A step: the mean of the ranks' losses, and how long the slowest rank took for it."""

    step: int
    loss: float
    ns: int


@dataclass(frozen=True)
class RankSeen:
    """What a rank came to. `calls`: how its collectives were made (`collectives.Counts`).

    `planes`: of its queue pair to the next rank, if its interfaces are such.
    """

    rank: int
    host: str
    sha256: str
    accuracy: float
    calls: dict[str, Any] | None
    planes: tuple[PlaneOfRank, ...] = ()


@dataclass
class Seen:
    """What came of a job. `events`: what happened meanwhile, each before which step of rank 0."""

    steps: list[StepSeen] = field(default_factory=list)
    ranks: list[RankSeen] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def sha256(self) -> str | None:
        """The hash of the weights, None if ranks have different ones, or none."""
        found = {each.sha256 for each in self.ranks}
        return found.pop() if len(found) == 1 else None

    @property
    def ok(self) -> bool:
        """Whether all ranks ended well, with equal weights."""
        return not self.failures and self.sha256 is not None


Tell = Callable[[int, float], None]
"""Receives each step that all ranks have done, and the loss there."""


def find_job(topology: Topology, wanted: str | None) -> tuple[SwitchJobs, str, tuple[str, ...]]:
    """Return the scheduler of a job of the switches, its name and its hosts. Raises UsageError."""
    known = {
        name: (each.jobs, name, hosts)
        for each in mechanisms()
        if each.jobs is not None
        for name, hosts in each.jobs.hosts(topology).items()
    }
    if wanted is not None and wanted not in known:
        shown = ", ".join(known) or "none"
        raise UsageError(f"no job {wanted!r} of switches in {topology.name}; available: {shown}")
    if not known:
        keys = [s.key for each in mechanisms() if each.jobs for s in each.settings]
        raise UsageError(
            f"{topology.name} has no job whose sums switches make: in its file, {keys[0]}: "
            "{jobs: {training: {workers: all}}}; or --transport ring"
        )
    return known[wanted or next(iter(known))]


def ranks_of(request: Request, topology: Topology) -> tuple[str, ...]:
    """Return the hosts of the ranks.

    Raises UsageError for hosts that are not there or too few, or whose interfaces do not serve.
    """
    if request.ways != Ways() and request.transport is not Transport.RDMA:
        option = next(iter(request.ways.keys()))
        raise UsageError(f"--{option} is about queue pairs, which only --transport rdma has")
    names = [host.name for host in topology.hosts]
    for name in request.hosts:
        if name not in names:
            raise UsageError(f"no host {name!r} in {topology.name}; available: {', '.join(names)}")
        if request.hosts.count(name) > 1:
            raise UsageError(f"host {name!r} is named twice: a rank has a host of its own")
    hosts = request.hosts or tuple(names)
    if request.transport is Transport.IN_NETWORK:
        jobs, job, of_job = find_job(topology, request.job)
        if jobs.worker(topology, job, of_job[0], 0).best_effort:
            raise UsageError(
                f"job {job} is best effort, and nothing runs its server here: a job without "
                "server: has slots in the switches"
            )
        if request.hosts and request.hosts != of_job:
            raise UsageError(f"job {job} has the workers {', '.join(of_job)}: no others can rank")
        hosts = of_job
    if len(hosts) < 2:
        raise UsageError("a job has at least 2 ranks")
    cards.check(request.ways, topology, [topology.host(name) for name in hosts])
    return hosts


def jobs_of(request: Request, fabric: Fabric) -> Iterator[RankJob]:
    """Yield each rank's settings, and count the start of a job of switches. Raises UsageError."""
    topology = fabric.topology
    hosts = [topology.host(name) for name in ranks_of(request, topology)]
    lanes, workers = LANES, [None] * len(hosts)
    with suppress(UsageError):  # a ring adds as the switches of this fabric would
        jobs, job, of_job = find_job(topology, request.job)
        lanes = jobs.worker(topology, job, of_job[0], 0).lanes
    if request.transport is Transport.IN_NETWORK:
        start = jobs.count_start(fabric.directory, job)
        workers = [jobs.worker(topology, job, host.name, start) for host in hosts]
    by_card = request.transport is Transport.RDMA
    for rank, (host, worker) in enumerate(zip(hosts, workers, strict=True)):
        yield RankJob(
            rank=rank,
            ranks=len(hosts),
            host=host.name,
            namespace=fabric.namespace(host.name),
            interface=fabric.interface(host.interfaces[0]),
            address=_address(host),
            gateway=str(host.gateway),
            store=(_address(hosts[0]), STORE_PORT),
            transport=request.transport,
            training=request.training,
            lanes=lanes,
            worker=worker,
            card=cards.card_of(fabric, host, request.ways) if by_card else None,
            block_rate_bps=_block_rate_bps(fabric),
            timeout_s=TIMEOUTS_S[fabric.runtime],
            give_up_s=request.give_up_s,
            ring_port=PORT,
        )


def _block_rate_bps(fabric: Fabric) -> int:
    """Return the rate of the slowest link, or what BMv2 forwards: its links have no rate.

    0, so that none are sent, where some link is too narrow for a block.
    """
    topology = fabric.topology
    if min(link.mtu_bytes for link in topology.links) < BLOCK_MTU:
        return 0
    slowest = min(topology.real_rate_bps(link) for link in topology.links)
    return min(slowest, BMV2_BPS) if fabric.runtime == Target.BMV2.value else slowest


def _address(host: Host) -> str:
    return str(host.interfaces[0].address.ip)


def train(request: Request, fabric: Fabric, tell: Tell = lambda step, loss: None) -> Seen:
    """Run a job to its end. Raises UsageError, TrainingError, EmulationError."""
    jobs = list(jobs_of(request, fabric))
    seen = Seen()
    if request.loss is not None:
        seen.events.append((0, fabric.do(("loss", request.loss))))
    began = time.monotonic()
    with _Faults(request.faults, fabric, seen) as faults, _Ranks(jobs, fabric) as lines:
        _follow(jobs, lines, seen, faults, tell, fabric.topology.time_scale)
    seen.wall_s = time.monotonic() - began
    if request.loss is not None and fabric.session is None:
        fabric.do(("loss", "0%"))  # others go on with this fabric
    return seen


def _follow(
    jobs: Sequence[RankJob],
    lines: Iterator[dict[str, Any]],
    seen: Seen,
    faults: _Faults,
    tell: Tell,
    time_scale: int,
) -> None:
    """Take what ranks say until all of them have ended."""
    hosts = {job.rank: job.host for job in jobs}
    steps: dict[int, list[tuple[float, int]]] = {}
    began: dict[int, list[int]] = {rank: [] for rank in hosts}
    for said in lines:
        rank = said["rank"]
        if "step" in said:
            step = said["step"]
            of_step = steps.setdefault(step, [])
            of_step.append((said["loss"], said["ns"]))
            began[rank].append(said["began_ns"])
            if rank == 0:
                faults.reached(step + 1)
            if len(of_step) == len(jobs):
                mean = sum(loss for loss, _ in of_step) / len(jobs)
                seen.steps.append(StepSeen(step, mean, max(ns for _, ns in of_step)))
                tell(step, mean)
        elif "sha256" in said:
            planes = planes_of(said["planes"], began[rank], time_scale)
            result = (said["sha256"], said["accuracy"], said["calls"], planes)
            seen.ranks.append(RankSeen(rank, hosts[rank], *result))
        elif "failure" in said:
            seen.failures.append(f"rank {rank} ({hosts[rank]}): {said['failure']}")
        elif said["ended"] < 0:
            seen.failures.append(f"rank {rank} ({hosts[rank]}) ended by signal {-said['ended']}")
    seen.ranks.sort(key=lambda each: each.rank)
    missing = sorted(hosts.keys() - {each.rank for each in seen.ranks})
    if missing and not seen.failures:
        seen.failures.append(f"no result of ranks {', '.join(map(str, missing))}")


class _Faults:
    """Makes faults happen, each in a thread of its own; leaving waits until all are over."""

    def __init__(self, faults: Sequence[Fault], fabric: Fabric, seen: Seen) -> None:
        self._waiting = list(faults)
        self._fabric, self._seen = fabric, seen
        self._step = 0
        self._threads: list[threading.Thread] = []
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> _Faults:
        self.reached(0)
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    def reached(self, step: int) -> None:
        """Take note that rank 0 is at this step now."""
        self._step = step
        while self._waiting and self._waiting[0].step <= step:
            thread = threading.Thread(target=self._happen, args=(self._waiting.pop(0),))
            self._threads.append(thread)
            thread.start()

    def _happen(self, fault: Fault) -> None:
        self._do(fault, fault.words)
        if fault.lasts_s is not None:
            time.sleep(fault.lasts_s)
            self._do(fault, fault.undone)

    def _do(self, fault: Fault, words: Sequence[str]) -> None:
        with self._one_at_a_time:
            step = self._step
            try:
                self._seen.events.append((step, self._fabric.do(words)))
            except Exception as error:  # of the emulation, of gRPC: the job goes on without it
                self._seen.failures.append(f"{fault}: {error}")


class _Ranks:
    """The ranks' processes for a block; a block that ends early ends them."""

    def __init__(self, jobs: Sequence[RankJob], fabric: Fabric) -> None:
        self._fabric = fabric
        self._log: TextIO = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `__exit__` closes it
        command = [sys.executable, "-m", "experiments.training.launcher"]
        self._process = subprocess.Popen(
            command, cwd=_REPOSITORY, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        if fabric.session is not None:
            fabric.session.run.started_processes([(self._process.pid, "ranks of a job")])
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write("".join(f"{job.line()}\n" for job in jobs))

    def __enter__(self) -> Iterator[dict[str, Any]]:
        return self._lines()

    def _lines(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if self._fabric.interrupts is not None:
                self._fabric.interrupts.check()
            try:
                said: dict[str, Any] = json.loads(line)
            except ValueError:
                raise TrainingError(f"a rank said what is no JSON: {line.strip()!r}") from None
            yield said
        if self._process.wait() not in (0, 1):
            raise TrainingError(f"the ranks could not be started: {self._end_of_log()}")

    def __exit__(self, *_: object) -> None:
        here = processes.identify(self._process.pid, "ranks of a job")
        if here is not None:
            processes.end([here], _END_S)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def _end_of_log(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()[-_LOG_LINES:]
        return "\n".join(lines) or f"exit code {self._process.returncode}"
