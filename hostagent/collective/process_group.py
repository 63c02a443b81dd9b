"""`torch.distributed`'s backend "weft": DDP's sums by switches, or by a ring that adds the same.

    import hostagent.collective.process_group as weft
    weft.register()
    dist.init_process_group("weft", pg_options=weft.Options(address="10.0.1.1", connect=tree))

Float32 is added by block exponents and int32 exactly (docs/allreduce.md); whatever only moves takes
any dtype. A call's future completes in the thread of the collectives, so that a backward pass goes
on meanwhile. This module imports torch: nothing else here does.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hostagent.collective.collectives import Array, Collectives, Connect
from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import PORT, listen
from hostagent.collective.rdma import RdmaSettings
from hostagent.collective.ring import Ring

NAME = "weft"
LANES = 32
"""Values that share an exponent where no tree says otherwise."""


@dataclass(frozen=True)
class Options:
    """What a rank is given as `pg_options`.

    `address`: the IPv4 address of this rank's host, `port` the ring's there (0: any that is free).
    `connect`: makes the rank a worker of its job's tree; None is the ring alone. `lanes`: values
    that share an exponent, as many as the tree's packets carry. `rdma`: the card that carries the
    ring's bytes, in the place of TCP.
    """

    address: str = "127.0.0.1"
    port: int = PORT
    lanes: int = LANES
    connect: Connect | None = None
    rdma: RdmaSettings | None = None


def register() -> None:
    """Let `init_process_group` know the backend; once or more often."""
    if NAME.upper() not in dist.Backend.__dict__:
        dist.Backend.register_backend(NAME, _made, devices=["cpu"], extended_api=True)


def _made(about: Any, options: Any) -> ProcessGroup:
    own = options if isinstance(options, Options) else Options(port=0)
    return ProcessGroup(
        about.store, about.group_rank, about.group_size, own, about.timeout.total_seconds()
    )


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The collectives of torch.distributed, each a call of `Collectives`."""

    def __init__(
        self, store: Any, rank: int, size: int, options: Options, timeout_s: float
    ) -> None:
        """Meet the other ranks through `store`. Raises CollectiveError."""
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        listening = listen(options.address, options.port)
        host, port = listening.getsockname()
        try:
            store.set(f"ring {rank}", f"{host} {port}")
            said = [store.get(f"ring {each}").decode().split() for each in range(size)]
        except BaseException:
            listening.close()
            raise
        addresses = [(host, int(port)) for host, port in said]
        ring = Ring(
            rank,
            addresses,
            listening,
            lanes=options.lanes,
            timeout_s=timeout_s,
            rdma=options.rdma,
        )
        try:
            self.calls = Collectives(ring, options.connect)
        except BaseException:
            ring.close()
            raise
        # What a program forgets to destroy must not outlive the interpreter.
        threading._register_atexit(self.abort)  # type: ignore[attr-defined]

    def getBackendName(self) -> str:
        """Return "weft"."""
        return NAME

    name = getBackendName

    def rank(self) -> int:
        """Return this process's rank."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    getRank, getSize = rank, size

    def shutdown(self) -> None:
        """End once all ranks have all results; `destroy_process_group` calls it."""
        self.calls.close()

    def abort(self) -> None:
        """End at once."""
        self.calls.close(together=False)

    # --- sums ---------------------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Work:
        """Sum a tensor over all ranks, in place."""
        tensor = self._one(tensors)
        future = self._sum(tensor, opts, "all-reduce")
        return Work(future, lambda result: _put(tensor, result), [tensor])

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Work:
        """Sum a tensor over all ranks; the root has the result, the others keep theirs."""
        tensor = self._one(tensors)
        is_root = opts.rootRank == self._rank
        future = self._sum(tensor, opts, "reduce")
        return Work(future, lambda result: _put(tensor, result) if is_root else None, [tensor])

    def reduce_scatter(
        self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any = None
    ) -> Work:
        """Sum lists of tensors; each rank has the sum of its place in them."""
        whole = torch.cat([each.detach().reshape(-1) for each in inputs[0]])
        return self.reduce_scatter_single(outputs[0], whole, opts)

    def reduce_scatter_single(self, output: Any, whole: Any, opts: Any = None) -> Work:
        """Sum a tensor; each rank has its part of the sums."""
        future = self._sum(whole, opts, "reduce-scatter")
        first = self._rank * output.numel()

        def take(result: Array) -> None:
            _put(output, result[first : first + output.numel()])

        return Work(future, take, [output])

    _reduce_scatter_base = reduce_scatter_single

    # --- what only moves ------------------------------------------------------------------------

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Work:
        """Copy a tensor of the root to all ranks."""
        tensor = self._one(tensors)
        future = self.calls.broadcast(_bytes(tensor), opts.rootRank)
        return Work(future, lambda result: _put(tensor, result), [tensor])

    def allgather(
        self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None
    ) -> Work:
        """Copy each rank's tensor to all."""
        del opts
        wanted = list(outputs[0])
        future = self.calls.allgather(_bytes(self._one(inputs)))

        def take(result: Array) -> None:
            for output, row in zip(wanted, result, strict=True):
                _put(output, row)

        return Work(future, take, wanted)

    def all_gather_single(self, output: Any, mine: Any, opts: Any = None) -> Work:
        """Copy each rank's tensor into its part of one that all have."""
        del opts
        future = self.calls.allgather(_bytes(mine))
        return Work(future, lambda result: _put(output, result.reshape(-1)), [output])

    _allgather_base = all_gather_single

    def barrier(self, opts: Any = None) -> Work:
        """Wait for all ranks."""
        del opts
        return Work(self.calls.barrier(), lambda result: None, [torch.zeros(1)])

    # --- tensors ------------------------------------------------------------------------------

    def _one(self, tensors: Sequence[Any]) -> Any:
        if len(tensors) != 1:
            raise CollectiveError(f"rank {self._rank}: {len(tensors)} tensors in a call, not one")
        return tensors[0]

    def _sum(self, tensor: Any, opts: Any, what: str) -> Future[Array]:
        operation = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if operation != dist.ReduceOp.SUM:
            raise CollectiveError(
                f'rank {self._rank}: {what}: the backend "{NAME}" sums; '
                f"{_name(operation)} needs gloo"
            )
        _check(tensor)
        values = tensor.detach().contiguous().reshape(-1)
        if tensor.dtype == torch.float32:
            return self.calls.sum_floats(values.numpy())
        if tensor.dtype == torch.int32:
            return self.calls.sum_integers(values.numpy())
        raise CollectiveError(
            f"rank {self._rank}: {what} of {tensor.dtype}: switches add torch.float32 and "
            "torch.int32; convert it, or use gloo for it"
        )


class Work(dist._Work):  # type: ignore[misc]
    """A call under way, as torch sees it."""

    def __init__(
        self, future: Future[Array], take: Callable[[Array], object], tensors: list[Any]
    ) -> None:
        """`take` puts the result where it belongs, before anybody hears that it is there."""
        super().__init__()
        self._done: torch.futures.Future[list[Any]] = torch.futures.Future()
        self._taken = Future[None]()
        self._take, self._tensors = take, tensors
        future.add_done_callback(self._finish)

    def _finish(self, future: Future[Array]) -> None:
        error = future.exception()
        if error is None:
            try:
                self._take(future.result())
            except Exception as failure:  # a result of another size than the tensor: said by `wait`
                error = failure
        if error is None:
            self._taken.set_result(None)
            self._done.set_result(self._tensors)
        else:
            self._taken.set_exception(error)
            self._done.set_exception(error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the result. Raises CollectiveError, TimeoutError."""
        self._taken.result(timeout.total_seconds() if timeout else None)
        return True

    def is_completed(self) -> bool:
        """Return whether it is done."""
        return self._taken.done()

    def is_success(self) -> bool:
        """Return whether it is done and has a result."""
        return self._taken.done() and self._taken.exception() is None

    def get_future(self) -> Any:
        """Return torch's own future of it."""
        return self._done

    def result(self) -> list[Any]:
        """Return the tensors."""
        self.wait()
        return self._tensors


def _name(operation: Any) -> str:
    return str(getattr(operation, "op", operation)).rpartition(".")[2]


def _check(tensor: Any) -> None:
    if tensor.device.type != "cpu":
        raise CollectiveError(f'the backend "{NAME}" is for tensors in memory, not {tensor.device}')


def _bytes(tensor: Any) -> Any:
    _check(tensor)
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()


def _put(tensor: Any, result: Array) -> None:
    """Copy a result into a tensor of as many bytes, whatever its shape."""
    flat = torch.from_numpy(np.ascontiguousarray(result).view(np.uint8)).view(tensor.dtype)
    with torch.no_grad():
        tensor.copy_(flat.reshape(tensor.shape))


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine that packets to a host leave from. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        name: str = probe.getsockname()[0]
        return name
