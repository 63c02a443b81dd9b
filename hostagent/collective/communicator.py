"""Collectives over a job's tree of switches, from a host's network namespace.

    settings = WorkerSettings(job=1, rank=0, ranks=4, epoch=0, slots=64, lanes=32)
    with Communicator(settings, gateway="10.0.1.254", address="10.0.1.1") as communicator:
        handle = communicator.allreduce_float32(gradients)      # returns at once
        sums = handle.wait()                                    # on all ranks the same bits

Ranks make the same calls in the same order. Calls may be made while others are under way; they
complete in any order. Everything between two ranks goes through the job's tree: there is no other
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


class CollectiveError(Exception):
    """A collective can't be had or did not complete; the message says which, and why."""


class Settings(Protocol):
    """What a worker has to know of its job; `mechanisms` makes these from a topology."""

    @property
    def job(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def wire_lanes(self) -> int: ...
    @property
    def dscp(self) -> int: ...


@dataclass(frozen=True)
class WorkerSettings:
    """A worker of a job. `lanes`: int32 a packet; `wire_lanes`: those on the wire, as many or more.

    `epoch`: where this start of the job begins, 64 times the number of starts before it.
    """

    job: int
    rank: int
    ranks: int
    epoch: int
    slots: int
    lanes: int
    wire_lanes: int = 0
    dscp: int = 0


class Handle:
    """A call under way."""

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait until the call is done; return its result (an array, or None for a barrier).

        Raises CollectiveError (the communicator gave up or was closed), TimeoutError.
        """
        raise NotImplementedError

    @property
    def done(self) -> bool:
        """Whether `wait` would return, or raise, at once."""
        raise NotImplementedError

    def add_done_callback(self, call: Callable[[Handle], object]) -> None:
        """Call `call(handle)` when the call is done, from the communicator's own thread.

        At once, from this thread, if it is done already. The callback must not wait for other calls.
        """
        raise NotImplementedError


class Communicator:
    """A worker of a job, over a UDP socket in the calling process's network namespace.

    Made in the namespace of the host; its threads keep it. Not to be used after `close`, nor in a
    process that was forked from its own.
    """

    def __init__(
        self,
        settings: Settings,
        gateway: str,
        address: str,
        *,
        timeout_s: float = 0.02,
        give_up_s: float = 60.0,
        window: int | None = None,
        congestion_window: bool = False,
        seed: int | None = None,
    ) -> None:
        """Bind the socket and start the worker's thread.

        Args:
            settings: the job and this rank's place in it.
            gateway: the IPv4 address of the host's gateway, to which everything is sent.
            address: the IPv4 address of the host's interface.
            timeout_s: after how long without a result a packet is repeated for the first time.
            give_up_s: after how long without any progress all open calls fail.
            window: packets under way at most; None: as many as there are slots.
            congestion_window: whether marked results halve the window (ATP's).
            seed: of the random part of time-outs; None: job and rank.

        Raises:
            CollectiveError: the settings make no sense, or the socket can't be had.
        """
        raise NotImplementedError

    def allreduce_int32(self, values: Ints) -> Handle:
        """Sum int32 over all ranks, modulo 2^32. `wait` returns a new array of the same shape."""
        raise NotImplementedError

    def allreduce_float32(self, values: Floats) -> Handle:
        """Sum float32 over all ranks; on all of them the result has the same bits.

        Each chunk of `lanes` values has an exponent that the ranks agree on, so that no sum of
        theirs overflows: values are rounded to 2^-(29 - log2(ranks)) of the chunk's largest. A chunk
        with an infinity, a NaN or a magnitude of 2^127 or more comes back as NaN. `wait` returns
        a new array of the same shape.
        """
        raise NotImplementedError

    def broadcast(self, values: Any, root: int) -> Handle:
        """Send an array of any dtype from `root` to all ranks.

        All ranks give an array of the same size and dtype. `wait` returns a new array, on all
        ranks with the bits of root's.
        """
        raise NotImplementedError

    def allgather(self, values: Any) -> Handle:
        """Gather an array of any dtype of each rank, all of the same shape.

        `wait` returns a new array with one dimension more: row r is rank r's.
        """
        raise NotImplementedError

    def barrier(self) -> Handle:
        """Complete when all ranks have made this call. `wait` returns None."""
        raise NotImplementedError

    def counters(self) -> dict[str, int]:
        """Return the worker's counters by name: sent, repeated, results, moves and others."""
        raise NotImplementedError

    def close(self) -> None:
        """End the worker: calls that are open fail, the threads are joined. May be called again."""
        raise NotImplementedError

    def __enter__(self) -> Communicator:
        """Return itself; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
