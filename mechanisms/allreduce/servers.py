"""Best-effort jobs' servers: which host has which, and where a job's chunks lie in the pool.

A job with `server: h6` has no slots in switches. Its chunks claim cells of a pool that all such
jobs share; the server completes what found its cell taken (p4src/modules/allreduce/pool.p4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import KEY, MOST_RANKS, Job
from topologies.errors import did_you_mean
from topologies.model import Interface, Topology

PATIENCE_PS = 10_000_000_000
"""A round as old as 10 ms of the fabric gives its cell up: its job has ended, or repeats anyway."""

PATIENCE_SHIFT, PATIENCE_MOST = 10, (1 << 15) - 1
"""A cell's age counts in 2^10 ticks, in 16 bits that wrap."""

_STRIDE, _OFFSET = 0x9E3779B1, 0x85EBCA6B
_WORD = (1 << 32) - 1


class _Planned(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> tuple[Interface, ...]: ...

    @property
    def server(self) -> Interface | None: ...


def server_of(topology: Topology, job: Job, workers: Sequence[Interface]) -> Interface | None:
    """Return the interface of a job's server; None: it has none. Raises PlanError."""
    if job.server is None:
        return None
    path = (KEY, "jobs", job.name, "server")
    names = [host.name for host in topology.hosts]
    if job.server not in names:
        raise PlanError(path, job.server, f"no host of this name{did_you_mean(job.server, names)}",
                        "a host of the topology that is no worker")  # fmt: skip
    if any(each.host == job.server for each in workers):
        raise PlanError(path, job.server, f"it is a worker of job {job.name}",
                        "a host that is none of the job's workers")  # fmt: skip
    if len(workers) > MOST_RANKS:
        raise PlanError((KEY, "jobs", job.name, "workers"), f"job {job.name}",
                        f"has {len(workers)} workers, and best effort has a bit for {MOST_RANKS}",
                        f"at most {MOST_RANKS} workers, or no server")  # fmt: skip
    return topology.host(job.server).interfaces[0]


def ask_servers(topology: Topology, jobs: Sequence[_Planned]) -> None:
    """Ask that no host has two servers, or a server and a worker. Raises PlanError.

    Workers and servers have one UDP port a host.
    """
    owners: dict[str, str] = {}
    working = {each.host: job.name for job in jobs for each in job.workers}
    for job in jobs:
        if job.server is None:
            continue
        path, host = (KEY, "jobs", job.name, "server"), job.server.host
        if host in owners:
            raise PlanError(path, host, f"it is the server of job {owners[host]}, too",
                            "a host of its own for each job's server")  # fmt: skip
        if host in working:
            raise PlanError(path, host, f"it has a worker of job {working[host]}",
                            "a host without workers for each job's server")  # fmt: skip
        owners[host] = job.name


def place_in_pool(number: int, cells: int) -> Mapping[str, int]:
    """Return what of a pool a job has: chunk c is in cell (c * stride + offset) mod cells.

    Strides are odd, so that any `cells` chunks in a row have a cell each, and differ between jobs,
    so that two that run alike do not meet in every cell.
    """
    return {
        "cells": cells,
        "stride": number * _STRIDE & _WORD | 1,
        "offset": number * _OFFSET & _WORD,
    }
