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

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hostagent.collective.handle import CollectiveError, Handle
from hostagent.collective.native import native
from hostagent.collective.worker_settings import Settings, address_number, check

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

BLOCK_LANES = 256
"""int32 of a block: switches pass on what is behind the lanes that they add."""

BLOCK_MTU = 20 + 8 + 16 + 4 * BLOCK_LANES
"""What links have to carry for that: with IPv4, UDP and the header."""

_NS = 1_000_000_000


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
        block_rate_bps: int = 0,
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
            block_rate_bps: of the slowest link of the job's trees, the pace at which broadcast and
                allgather send blocks that switches multicast; 0: they are sums with zeros.
            seed: of the random part of time-outs; None: job and rank.

        Raises:
            CollectiveError: the settings make no sense, or the socket can't be had.
        """
        check(settings, timeout_s, give_up_s, window, patience, block_rate_bps)
        self._blocks = bool(block_rate_bps) and settings.ranks > 1
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
                "patience": 0 if settings.best_effort else patience,
                "timeout_ns": int(timeout_s * _NS),
                "seed": settings.job << 32 | settings.rank if seed is None else seed,
                "best_effort": int(bool(settings.best_effort)),
                "rank": settings.rank,
            },
            "ranks": settings.ranks,
            "address": address_number(address, "address"),
            "gateway": address_number(gateway, "gateway"),
            "dscp": settings.dscp,
            "give_up_ns": int(give_up_s * _NS),
            "rank": settings.rank,
            "block_lanes": BLOCK_LANES if self._blocks else 0,
            "block_rate_bps": block_rate_bps,
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
        ranks with the bits of root's. Its bits go in blocks, or as a sum to which the other ranks
        add zeros. Raises CollectiveError (no such root, a dtype of objects; closed).
        """
        self._check_rank(root)
        array = _plain_array("broadcast", values)
        bits = _words(array) if self.settings.rank == root else _words(np.zeros_like(array))
        shape, dtype, size = array.shape, array.dtype, array.nbytes

        def result(sums: Ints) -> npt.NDArray[Any]:
            return sums.view(np.uint8)[:size].view(dtype).reshape(shape)

        if self._blocks and bits.size:
            return self._move("broadcast", root, bits, np.empty_like(bits), result)
        return self._sum("broadcast", bits, bits.dtype, "WORKER_INTEGERS", result)

    def allgather(self, values: npt.ArrayLike) -> Handle:
        """Gather an array of any dtype of each rank, all of the same shape.

        `wait` returns a new array with one dimension more: row r is rank r's. Each rank's bits go
        in blocks; or it is a sum of `ranks` times as many bytes, to which each rank adds its row
        and zeros. Raises CollectiveError (a dtype of objects; closed).
        """
        array = _plain_array("allgather", values)
        own = _words(array)
        ranks, words = self.settings.ranks, own.size
        bits = np.zeros((ranks, words), dtype=np.int32)
        shape, dtype, size = array.shape, array.dtype, array.nbytes

        def result(sums: Ints) -> npt.NDArray[Any]:
            rows = np.ascontiguousarray(sums.view(np.uint8).reshape(ranks, 4 * words)[:, :size])
            return rows.view(dtype).reshape(ranks, *shape)

        if self._blocks and words:
            return self._move("allgather", self._lib.BLOCKS_ALL, own, bits, result)
        bits[self.settings.rank] = own
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
        blocks = {
            f"blocks {name}": int(getattr(row.blocks, name))
            for name, _ in self._ffi.typeof("struct blocks_stats").fields
        }
        return {
            **found,
            **(blocks if self._blocks else {}),
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

    def __exit__(self, *_: object) -> None:
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
        ffi, n = self._ffi, 0
        source = target = ffi.NULL
        if values is not None and sums is not None:
            source, target, n = ffi.from_buffer(values), ffi.from_buffer(sums), values.size
        number = getattr(self._lib, kind)

        def hand(tag: int) -> int:
            return int(self._lib.collective_hand(self._c, number, source, target, n, tag))

        return self._hand_over(what, finish, hand, (source, target, values, sums), n)

    def _move(
        self, what: str, root: int, own: Ints, into: Ints, finish: Callable[[Any], Any]
    ) -> Handle:
        """Send rank `root`'s int32 to all in blocks, or those of all (BLOCKS_ALL)."""
        source, target = self._ffi.from_buffer(own), self._ffi.from_buffer(into)

        def hand(tag: int) -> int:
            handed = self._lib.collective_hand_blocks
            return int(handed(self._c, root, source, target, own.size, tag))

        return self._hand_over(
            what, lambda: finish(into), hand, (source, target, own, into), into.size
        )

    def _hand_over(
        self,
        what: str,
        finish: Callable[[], Any],
        hand: Callable[[int], int],
        keep: object,
        n: int,
    ) -> Handle:
        """Let C have a call, by `hand(tag)`; `keep`: what it reads and writes."""
        handle = Handle(f"{self._what}: {what}", finish)
        with self._lock:
            self._check_open(what)
            tag = next(self._tags)
            self._open[tag] = handle, keep
            if hand(tag) < 0:
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


def _words(array: npt.NDArray[Any]) -> Ints:
    """Return an array's bytes as int32, filled up with zeros: a copy."""
    words = np.zeros(-(-array.nbytes // 4), dtype=np.int32)
    words.view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return words
