"""One rank of a training job: a real torch.distributed process with DistributedDataParallel.

It computes on one thread and by deterministic algorithms alone, so that its weights depend on the
job and on sums of gradients, and on nothing else.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hostagent.collective.process_group as weft
from experiments.training.digits import CLASSES, SIDE, digits
from experiments.training.job import RankJob, Training, Transport
from hostagent.collective.collectives import Connect
from hostagent.collective.communicator import Communicator

_TEST_SEED = 1 << 20

Say = Callable[[dict[str, Any]], None]


def run(job: RankJob, say: Say) -> None:
    """Train; `say` gets a dictionary a step, and one at the end. Raises what torch raises."""
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, which takes 2 s
    timeout = timedelta(seconds=job.patience_s)
    store = dist.TCPStore(*job.store, job.ranks, job.rank == 0, timeout)
    _begin(job, store, timeout)
    try:
        model = _train(job, say)
        dist.barrier()
        say({"rank": job.rank, **_outcome(job, model)})
        dist.barrier()  # the store is rank 0's: it goes last
    except BaseException:
        _abort(job)
        raise
    dist.destroy_process_group()


def _begin(job: RankJob, store: Any, timeout: timedelta) -> None:
    about: dict[str, Any] = {"store": store, "rank": job.rank, "world_size": job.ranks}
    if job.transport is Transport.GLOO:
        os.environ["GLOO_SOCKET_IFNAME"] = job.interface
        dist.init_process_group("gloo", timeout=timeout, **about)
        return
    weft.register()
    options = weft.Options(job.address, job.ring_port, job.lanes, _connect(job), rdma=job.rdma())
    dist.init_process_group("weft", timeout=timeout, pg_options=options, **about)


def _connect(job: RankJob) -> Connect | None:
    """Return what makes this rank a worker of its tree."""
    worker = job.worker
    if worker is None:
        return None

    def connect(epoch: int | None) -> Communicator:
        settings = worker if epoch is None else replace(worker, epoch=epoch)
        return Communicator(
            settings,
            job.gateway,
            job.address,
            timeout_s=job.timeout_s,
            give_up_s=job.give_up_s,
            block_rate_bps=job.block_rate_bps,
        )

    return connect


def _abort(job: RankJob) -> None:
    group = dist.group.WORLD
    if job.transport is not Transport.GLOO and group is not None:
        group.abort()


def model_of(training: Training) -> Any:
    """Return the model with its first weights."""
    torch.manual_seed(training.seed)
    return torch.nn.Sequential(
        torch.nn.Linear(SIDE * SIDE, training.hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(training.hidden, CLASSES),
    )


def _train(job: RankJob, say: Say) -> Any:
    training = job.training
    pictures, shown = map(torch.from_numpy, digits(training.samples, training.seed))
    model = model_of(training)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=training.rate, momentum=0.9)
    together = training.batch * job.ranks
    shuffle = torch.Generator().manual_seed(training.seed)
    for step in range(training.steps):
        began = time.monotonic_ns()
        drawn = torch.randint(0, training.samples, (together,), generator=shuffle)
        mine = drawn[job.rank :: job.ranks]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(parallel(pictures[mine]), shown[mine])
        loss.backward()
        optimizer.step()
        took = time.monotonic_ns() - began
        about = {"step": step, "loss": loss.detach().item(), "began_ns": began, "ns": took}
        say({"rank": job.rank, **about})
    return model


def _outcome(job: RankJob, model: Any) -> dict[str, Any]:
    """Return the hash of the weights, how often the model is right, and how calls were made."""
    group = dist.group.WORLD
    counts = asdict(group.calls.counts()) if isinstance(group, weft.ProcessGroup) else None
    return {
        "sha256": weights_sha256(model),
        "accuracy": accuracy(model, job.training),
        "planes": [] if counts is None else counts.pop("planes"),
        "calls": counts,
    }


def weights_sha256(model: Any) -> str:
    """Return the SHA-256 of all weights' bytes, in their order in the model."""
    hashed = hashlib.sha256()
    for parameter in model.parameters():
        hashed.update(parameter.detach().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def accuracy(model: Any, training: Training) -> float:
    """Return the share of digits, none of which it was trained with, that it knows."""
    pictures, shown = map(torch.from_numpy, digits(training.tests, training.seed + _TEST_SEED))
    with torch.no_grad():
        right = (model(pictures).argmax(dim=1) == shown).sum().item()
    return float(right) / training.tests
