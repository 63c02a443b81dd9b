"""What a worker of a job has to know, from the topology alone.

    worker = worker_of(topology, "training", "h3", start=2)

It sends to its gateway, whose address is its host's `interfaces[0].gateway`, and whose MAC is that
of the switch `interfaces[0].switch`. So does the server of a best-effort job (`server_of_job`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import KEY
from mechanisms.allreduce.trees import JobPlan, Plan, plan_of
from topologies.errors import did_you_mean
from topologies.model import Topology

EPOCHS_OF_A_START = 64
"""Start n of a job begins at epoch 64 n: slots that were used before have not seen it."""

EPOCHS = 1 << 16


@dataclass(frozen=True)
class Worker:
    """One worker. `job`: its number in packets; `ranks`: how many workers the job has.

    `epoch`: to begin with. `slots`: of the job. `lanes`: int32 of a packet that switches add;
    `wire_lanes`: that a packet has. `dscp`: of its packets. `best_effort`: 1 where a server
    completes the sums.
    """

    job: int
    rank: int
    ranks: int
    epoch: int
    slots: int
    lanes: int
    wire_lanes: int
    dscp: int
    best_effort: int = 0


@dataclass(frozen=True)
class Server:
    """The parameter server of a best-effort job (programs/allreduce_server.c), as `Worker` says."""

    job: int
    ranks: int
    slots: int
    lanes: int
    wire_lanes: int
    dscp: int


def plan(topology: Topology) -> Plan:
    """Return all jobs of a topology with their trees. Raises PlanError."""
    return plan_of(topology)


def job_of(topology: Topology, job: str) -> JobPlan:
    """Return a job by name. Raises PlanError if there is none, or it does not fit."""
    jobs = plan_of(topology).jobs
    if job not in jobs:
        hint = did_you_mean(job, jobs)
        right = f"one of {', '.join(jobs)}" if jobs else f"name it in {KEY}: {{jobs: ...}}"
        raise PlanError((KEY, "jobs"), job, f"no job of this name{hint}", right)
    return jobs[job]


def hosts_of_jobs(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each job by name, in the order of ranks. Raises PlanError."""
    if topology.setting(KEY) is None:
        return {}
    jobs = plan_of(topology).jobs
    return {name: tuple(each.host for each in job.workers) for name, job in jobs.items()}


def first_epoch(start: int) -> int:
    """Return the epoch at which a job's start number `start` (from 0) begins."""
    return start * EPOCHS_OF_A_START % EPOCHS


def worker_of(topology: Topology, job: str, host: str, start: int = 0) -> Worker:
    """Return what a job's worker at a host has to know.

    `start`: how often the job was started before, as the controller counts it. Raises PlanError for
    a job that is not there, and for a host that has no worker of it.
    """
    found = job_of(topology, job)
    ranks = [each.host for each in found.workers]
    if host not in ranks:
        hint = did_you_mean(host, ranks)
        raise PlanError((KEY, "jobs", job, "workers"), host, f"no worker of job {job}{hint}",
                        "name the host in its workers")  # fmt: skip
    whole = plan_of(topology)
    return Worker(
        job=found.number,
        rank=ranks.index(host),
        ranks=len(ranks),
        epoch=first_epoch(start),
        slots=found.slots,
        lanes=whole.setting.lanes,
        wire_lanes=whole.setting.wire_lanes,
        dscp=whole.dscp,
        best_effort=int(found.server is not None),
    )


def server_of_job(topology: Topology, job: str) -> tuple[str, Server] | None:
    """Return the host of a job's server and what it has to know; None: the job has none.

    Raises PlanError for a job that is not there.
    """
    found, whole = job_of(topology, job), plan_of(topology)
    if found.server is None:
        return None
    return found.server.host, Server(
        job=found.number,
        ranks=len(found.workers),
        slots=found.slots,
        lanes=whole.setting.lanes,
        wire_lanes=whole.setting.wire_lanes,
        dscp=whole.dscp,
    )
