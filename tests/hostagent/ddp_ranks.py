"""The ranks of a small DDP job: forked from one process that has imported torch.

    python -m tests.hostagent.ddp_ranks RANKS FOLDER BACKEND [GATEWAY ADDRESS ADDRESS ...]

Each prints the SHA-256 of its weights, and of the tensors of every other collective. FOLDER holds
the store. With GATEWAY they are workers of the switch there. Each ends as any program does; whether
it destroys its group before is by its rank. The exit code is 0 if that of all is.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch._dynamo  # optimizers import it with each rank's first step
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hostagent.collective.process_group as weft
from hostagent.collective.communicator import Communicator
from hostagent.collective.worker_settings import WorkerSettings
from tests.hostagent.test_collective_worker import JOB
from tests.hostagent.udp_switch import LANES, SLOTS

STEPS = 8


def main(ranks: int, folder: str, backend: str, gateway: str = "", *addresses: str) -> int:
    """Fork the ranks, and be one of them or wait for all; return the exit code."""
    for rank in range(ranks):
        if os.fork() == 0:
            be(rank, ranks, folder, backend, (gateway, addresses[rank]) if gateway else ())
            return 0
    codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(ranks)]
    return max(map(abs, codes))


def be(rank: int, ranks: int, folder: str, backend: str, tree: Sequence[str]) -> None:
    """Train, collect, end."""
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")
    store = dist.FileStore(f"{folder}/store", ranks)
    about: dict[str, Any] = {"store": store, "rank": rank, "world_size": ranks}
    if backend == "weft":
        weft.register()
        connect = None
        if tree:
            gateway, address = tree
            settings = WorkerSettings(JOB, rank, ranks, 0, SLOTS, LANES)
            connect = lambda epoch: Communicator(settings, gateway, address)  # noqa: E731
        about["pg_options"] = weft.Options(port=0, lanes=LANES, connect=connect)
    dist.init_process_group(backend, **about)
    said = {"rank": rank, "weights": trained(rank), "moved": moved(rank, ranks)}
    if backend == "weft":
        said |= {"summed": summed(rank, ranks), "refused": refused()}
        assert dist.group.WORLD is not None
        said["by_tree"] = dist.group.WORLD.calls.counts().by_tree
    dist.barrier()
    os.write(1, json.dumps(said).encode() + b"\n")  # ranks share the pipe
    if backend != "weft" or rank % 2 == 0:
        dist.destroy_process_group()


def trained(rank: int) -> str:
    """Return the hash of a model's weights after some steps; some steps leave a layer unused."""
    torch.manual_seed(1)
    model = Branches()
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        given = torch.randn(4, 16, generator=random)
        optimizer.zero_grad()
        parallel(given, step % 3 == 1).square().sum().backward()
        optimizer.step()
    return digest(*model.parameters())


class Branches(torch.nn.Module):
    """A model one of whose layers is not always used: DDP then sums int32, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16)
        self.norm = torch.nn.BatchNorm1d(16)  # its buffers are broadcast

    def forward(self, given: torch.Tensor, also: bool) -> torch.Tensor:
        found = self.norm(self.first(given).relu())
        return self.second(found) if also else found


def moved(rank: int, ranks: int) -> str:
    """Return the hash of what comes of collectives that only move, for several dtypes."""
    found = []
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        mine = torch.full((2, 3), rank % 2, dtype=dtype)
        dist.broadcast(mine, 1)
        gathered = [torch.empty(5, dtype=dtype) for _ in range(ranks)]
        dist.all_gather(gathered, torch.full((5,), rank, dtype=dtype))
        whole = torch.empty(2 * ranks, dtype=dtype)
        dist.all_gather_into_tensor(whole, torch.full((2,), rank + 1, dtype=dtype))
        found += [mine, *gathered, whole]
    work = dist.broadcast(found[0].t(), 0, async_op=True)  # not contiguous
    work.wait()
    return digest(*found)


def summed(rank: int, ranks: int) -> list[list[int]]:
    """Return sums of int32 in all forms: all-reduce, reduce to rank 1, reduce-scatter."""
    whole = torch.arange(2 * ranks, dtype=torch.int32) + rank
    part = torch.empty(2, dtype=torch.int32)
    dist.reduce_scatter_tensor(part, whole)
    at_root = torch.tensor([rank], dtype=torch.int32)
    dist.reduce(at_root, 1)
    wrapped = torch.tensor([2**31 - 1], dtype=torch.int32)
    dist.all_reduce(wrapped)
    return [part.tolist(), at_root.tolist(), wrapped.tolist()]


def refused() -> list[str]:
    """Return what is said of sums that can't be had."""
    found = []
    for tensor, operation in (
        (torch.zeros(1, dtype=torch.float64), dist.ReduceOp.SUM),
        (torch.zeros(1), dist.ReduceOp.MAX),
    ):
        try:
            dist.all_reduce(tensor, operation)
        except weft.CollectiveError as error:
            found.append(str(error))
    return found


def digest(*tensors: Any) -> str:
    """Return the hash of tensors' bytes."""
    hashed = hashlib.sha256()
    for each in tensors:
        flat = each.detach().contiguous().reshape(-1)
        hashed.update(flat.view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
