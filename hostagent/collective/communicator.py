"""Collectives over a job's tree of switches, from a host's network namespace.

    settings = WorkerSettings(job=1, rank=0, ranks=4, epoch=0, slots=64, lanes=32)
    with Communicator(settings, gateway="10.0.1.254", address="10.0.1.1") as communicator:
        handle = communicator.allreduce_float32(gradients)      # returns at once
        sums = handle.wait()                                    # on all ranks the same bits

Ranks make the same calls in the same order. Calls may be made while others are under way; they
complete in any order. Everything between two ranks goes through the job's tree: there is no other
connection.

A thread in C has the socket and the worker (`driver/`), a thread in Python hands out what has
ended. Neither needs the other to get on.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hostagent.collective.native import native

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

RANKS_MOST = 1 << 20
_JOB_MOST = 0xFFFF
_NS = 1_000_000_000


class CollectiveError(Exception):
    """A collective can't be had or did not complete; the message says which, and why."""


class Settings(Protocol):
    """What a worker has to know of its job; `mechanisms` makes these from a topology."""

    @property
    def job(self) -> int:
        """The job's number on the wire."""

    @property
    def rank(self) -> int:
        """This worker's, from 0 on."""

    @property
    def ranks(self) -> int:
        """How many workers there are."""

    @property
    def epoch(self) -> int:
        """Where this start of the job begins: 64 times the number of starts before it."""

    @property
    def slots(self) -> int:
        """The job's slots, a power of two."""

    @property
    def lanes(self) -> int:
        """Values of a packet that switches add up."""

    @property
    def wire_lanes(self) -> int:
        """Values that a packet is long, `lanes` at least; 0: as many."""

    @property
    def dscp(self) -> int:
        """The class of its packets."""


@dataclass(frozen=True)
class WorkerSettings:
    """A worker of a job, where no topology says so (`Settings` has what each means)."""

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

    def __init__(self, what: str, finish: Callable[[], Any]) -> None:
        """`what`: the call's name; `finish` makes its result when it is done."""
        self.what = what
        self._finish = finish
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Handle], object]] = []
        self._error: str | None = None
        self._result: Any = None

    @property
    def done(self) -> bool:
        """Whether `wait` would return, or raise, at once."""
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait until the call is done; return its result (an array, or None for a barrier).

        Raises CollectiveError (the communicator gave up or was closed), TimeoutError.
        """
        if not self._event.wait(timeout_s):
            raise TimeoutError(f"{self.what} is not done after {timeout_s} s")
        if self._error is not None:
            raise CollectiveError(self._error)
        return self._result

    def add_done_callback(self, call: Callable[[Handle], object]) -> None:
        """Call `call(handle)` when the call is done, from the communicator's own thread.

        At once, from this thread, if it is done already. It must not wait for other calls.
        """
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(call)
                return
        call(self)

    def end(self, error: str | None = None) -> None:
        """Let waiters go on; `error`: why there is no result."""
        self._error = error
        if error is None:
            self._result = self._finish()
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for call in callbacks:
            call(self)


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
        patience: int = 3,
        seed: int | None = None,
    ) -> None:
        """Bind the socket and start the worker's threads.

        Args:
            settings: the job and this rank's place in it.
            gateway: the IPv4 address of the host's gateway, to which everything is sent.
            address: the IPv4 address of the host's interface.
            timeout_s: after how long without a result a packet is repeated for the first time.
            give_up_s: after how long without any progress all open calls fail.
            window: packets under way at most; None: as many as there are slots.
            congestion_window: whether marked results halve the window (ATP's).
            patience: time-outs without any result after which the job moves to another tree.
            seed: of the random part of time-outs; None: job and rank.

        Raises:
            CollectiveError: the settings make no sense, or the socket can't be had.
        """
        _check(settings, timeout_s, give_up_s, window, patience)
        self.settings = settings
        self._what = f"job {settings.job}, rank {settings.rank}"
        self._give_up_s = give_up_s
        module = native()
        self._ffi, self._lib = module.ffi, module.lib
        config = {
            "worker": {
                "job": settings.job,
                "epoch": settings.epoch & 0xFFFF,
                "slots": settings.slots,
                "lanes": settings.lanes,
                "wire_lanes": settings.wire_lanes or settings.lanes,
                "window": window or settings.slots,
                "adapt": int(congestion_window),
                "patience": patience,
                "timeout_ns": int(timeout_s * _NS),
                "seed": settings.job << 32 | settings.rank if seed is None else seed,
            },
            "ranks": settings.ranks,
            "address": _address(address, "address"),
            "gateway": _address(gateway, "gateway"),
            "dscp": settings.dscp,
            "give_up_ns": int(give_up_s * _NS),
        }
        why = self._ffi.new("char[]", int(self._lib.COLLECTIVE_WHY))
        self._c = self._lib.collective_open(
            self._ffi.new("struct collective_config *", config), why
        )
        if self._c == self._ffi.NULL:
            text = self._ffi.string(why).decode(errors="replace")
            raise CollectiveError(f"{self._what}: {text}")
        self._tags = itertools.count(1)
        self._open: dict[int, tuple[Handle, object]] = {}  # with what C reads and writes
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        # No daemon: the interpreter must not go while it is in C; what is open then is closed.
        self._thread = threading.Thread(target=self._hand_out, name=f"collective {self._what}")
        self._thread.start()
        threading._register_atexit(self.close)  # type: ignore[attr-defined]

    # --- collectives ------------------------------------------------------------------------------

    def allreduce_int32(self, values: Ints) -> Handle:
        """Sum int32 over all ranks, modulo 2^32. `wait` returns a new array of the same shape.

        Raises CollectiveError (another dtype; closed).
        """
        return self._sum("allreduce_int32", values, np.dtype(np.int32), "WORKER_INTEGERS")

    def allreduce_float32(self, values: Floats) -> Handle:
        """Sum float32 over all ranks; on all of them the result has the same bits.

        Each chunk of `lanes` values has an exponent that the ranks agree on, so that no sum
        overflows: values are rounded to about 2^-(30 - log2(ranks)) of the chunk's largest. A
        chunk with an infinity, a NaN or a magnitude of 2^127 or more comes back as NaN. `wait`
        returns a new array of the same shape. Raises CollectiveError (another dtype; closed).
        """
        return self._sum("allreduce_float32", values, np.dtype(np.float32), "WORKER_SCALED")

    def broadcast(self, values: npt.ArrayLike, root: int) -> Handle:
        """Send an array of any dtype from `root` to all ranks.

        All ranks give an array of the same shape and dtype. `wait` returns a new array, on all
        ranks with the bits of root's. Its bits go as a sum to which the other ranks add zeros.
        Raises CollectiveError (no such root, a dtype of objects; closed).
        """
        self._check_rank(root)
        array = _plain_array("broadcast", values)
        bits = np.zeros(-(-array.nbytes // 4), dtype=np.int32)
        if self.settings.rank == root:
            bits.view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
        shape, dtype, size = array.shape, array.dtype, array.nbytes

        def result(sums: Ints) -> npt.NDArray[Any]:
            return sums.view(np.uint8)[:size].view(dtype).reshape(shape)

        return self._sum("broadcast", bits, bits.dtype, "WORKER_INTEGERS", result)

    def allgather(self, values: npt.ArrayLike) -> Handle:
        """Gather an array of any dtype of each rank, all of the same shape.

        `wait` returns a new array with one dimension more: row r is rank r's. It is a sum of
        `ranks` times as many bytes, to which each rank adds its row and zeros. Raises
        CollectiveError (a dtype of objects; closed).
        """
        array = _plain_array("allgather", values)
        ranks, words = self.settings.ranks, -(-array.nbytes // 4)
        bits = np.zeros((ranks, words), dtype=np.int32)
        row = bits[self.settings.rank].view(np.uint8)
        row[: array.nbytes] = array.reshape(-1).view(np.uint8)
        shape, dtype, size = array.shape, array.dtype, array.nbytes

        def result(sums: Ints) -> npt.NDArray[Any]:
            rows = np.ascontiguousarray(sums.view(np.uint8).reshape(ranks, 4 * words)[:, :size])
            return rows.view(dtype).reshape(ranks, *shape)

        return self._sum("allgather", bits, bits.dtype, "WORKER_INTEGERS", result)

    def barrier(self) -> Handle:
        """Complete when all ranks have made this call. `wait` returns None."""
        return self._hand("barrier", "WORKER_BARRIER", None, None, lambda: None)

    # --- what the worker does ---------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """Return the worker's counters by name: sent, repeated, results, moves and others.

        Raises CollectiveError (closed).
        """
        with self._lock:
            self._check_open("counters")
            row = self._ffi.new("struct collective_counters *")
            self._lib.collective_counters_get(self._c, row)
        found = {
            name: int(getattr(row.worker, name))
            for name, _ in self._ffi.typeof("struct worker_stats").fields
        }
        return {
            **found,
            "received": int(row.received),
            "unsent": int(row.unsent),
            "window": int(row.window),
            "epoch": int(row.epoch),
        }

    def close(self) -> None:
        """End the worker: calls that are open fail, the threads are joined. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._process != os.getpid():
            return  # a fork has the memory, but not the threads
        self._lib.collective_close(self._c)
        if self._thread is not threading.current_thread():
            self._thread.join()
            self._lib.collective_free(self._c)

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

    # --- handing over -----------------------------------------------------------------------------

    def _check_open(self, what: str) -> None:
        if self._closed or self._process != os.getpid():
            raise CollectiveError(f"{self._what}: {what}: the communicator is closed")

    def _check_rank(self, root: int) -> None:
        if not 0 <= root < self.settings.ranks:
            raise CollectiveError(
                f"{self._what}: no rank {root}: there are 0 to {self.settings.ranks - 1}"
            )

    def _sum(
        self,
        what: str,
        values: npt.NDArray[Any],
        dtype: np.dtype[Any],
        kind: str,
        finish: Callable[[Any], Any] = lambda sums: sums,
    ) -> Handle:
        if not isinstance(values, np.ndarray) or values.dtype != dtype:
            got = getattr(values, "dtype", type(values).__name__)
            raise CollectiveError(f"{self._what}: {what} takes arrays of {dtype}, not of {got}")
        given = np.array(values, order="C")  # a copy: the caller may go on with his own
        sums = np.empty_like(given)
        if not values.size:
            handle = Handle(what, lambda: finish(sums))
            handle.end()
            return handle
        return self._hand(what, kind, given, sums, lambda: finish(sums))

    def _hand(
        self,
        what: str,
        kind: str,
        values: npt.NDArray[Any] | None,
        sums: npt.NDArray[Any] | None,
        finish: Callable[[], Any],
    ) -> Handle:
        handle = Handle(f"{self._what}: {what}", finish)
        ffi, n = self._ffi, 0
        source = target = ffi.NULL
        if values is not None and sums is not None:
            source, target, n = ffi.from_buffer(values), ffi.from_buffer(sums), values.size
        with self._lock:
            self._check_open(what)
            tag = next(self._tags)
            self._open[tag] = handle, (source, target, values, sums)
            kind_number = getattr(self._lib, kind)
            if self._lib.collective_hand(self._c, kind_number, source, target, n, tag) < 0:
                del self._open[tag]
                raise CollectiveError(f"{handle.what}: no memory for {n} values")
        return handle

    def _hand_out(self) -> None:
        """Let handles know of calls that have ended, until the communicator is closed."""
        ended = self._ffi.new("struct collective_end *")
        while self._lib.collective_next(self._c, ended):
            handle, _ = self._open.pop(int(ended.tag))
            handle.end(self._why(handle, int(ended.status)))

    def _why(self, handle: Handle, status: int) -> str | None:
        if status == self._lib.COLLECTIVE_DONE:
            return None
        if status == self._lib.COLLECTIVE_CLOSED:
            return f"{handle.what}: the communicator was closed before it was done"
        return (
            f"{handle.what}: no result came for {self._give_up_s:g} s: another rank is missing, "
            "or no tree of the job is left"
        )


def _plain_array(what: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.hasobject:
        raise CollectiveError(f"{what} takes arrays of numbers, not of {array.dtype}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _address(text: str, what: str) -> int:
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        raise CollectiveError(f"{what}: {text!r} is no IPv4 address") from None


def _check(
    settings: Settings, timeout_s: float, give_up_s: float, window: int | None, patience: int
) -> None:
    """Raise CollectiveError for what C's types can't hold; what the worker says comes later."""
    limits = (
        ("job", settings.job, 0, _JOB_MOST),
        ("ranks", settings.ranks, 1, RANKS_MOST),
        ("rank", settings.rank, 0, settings.ranks - 1),
        ("epoch", settings.epoch, 0, 1 << 62),
        ("slots", settings.slots, 1, 1 << 15),
        ("lanes", settings.lanes, 1, 1 << 15),
        ("wire_lanes", settings.wire_lanes, 0, 1 << 15),
        ("dscp", settings.dscp, 0, 63),
        ("window", 1 if window is None else window, 1, settings.slots),
        ("patience", patience, 0, 1 << 20),
        ("timeout_s", timeout_s, 1e-6, 1000),
        ("give_up_s", give_up_s, 1e-3, 1e9),
    )
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise CollectiveError(f"{name}: {value} is not between {least} and {most}")
