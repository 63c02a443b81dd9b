"""A rank's collectives, in the order of its calls: by a tree of switches, or by the ring of hosts.

    calls = Collectives(ring, connect)           # connect(epoch) -> Communicator
    calls.sum_floats(gradients).result()         # a concurrent.futures.Future

Where no tree answers any more, all ranks change to the ring, and some calls later back. Both add
the same integers, so a result does not say which of them made it.

How ranks agree: a rank whose tree gives up (or which hears its neighbour on the ring, that is
silent otherwise) says in a round of the ring which call it lacks the result of. The earliest one is
where the ring begins. Others may have that result, or those of the `DEPTH` calls from there on: for
these the ranks ask first who has it, and that one broadcasts it. All ranks come to the same
numbers, so all go back to the tree at the same call. Closing is such a round, too: nobody leaves
while another lacks a result that only he has.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import PeerLostError
from hostagent.collective.ring import Ring

DEPTH = 4
"""Calls that are in the tree at once; of so many a rank keeps the results for others."""

RING_CALLS = 8
"""Calls by the ring until the tree is tried again; twice as many each time in vain."""

_MOST_RING_CALLS = 512
_POLL_S = 0.02
_EPOCH, _EPOCHS = "epoch", 1 << 16
_STATES = {_EPOCH, "window"}  # among a communicator's counters, and none

Array = NDArray[Any]


class Kind(Enum):
    """What a call does."""

    SUM_FLOATS = "sum of float32"
    SUM_INTEGERS = "sum of int32"
    BROADCAST = "broadcast"
    ALLGATHER = "allgather"
    BARRIER = "barrier"


class Handle(Protocol):
    """A call in the tree, as `communicator.Handle` is one."""

    def wait(self, timeout_s: float | None = None) -> Any: ...
    def add_done_callback(self, call: Callable[[Any], object]) -> None: ...


class Tree(Protocol):
    """What calls are made on, as `communicator.Communicator` is one."""

    def allreduce_int32(self, values: NDArray[np.int32]) -> Handle: ...
    def allreduce_float32(self, values: NDArray[np.float32]) -> Handle: ...
    def broadcast(self, values: Any, root: int) -> Handle: ...
    def allgather(self, values: Any) -> Handle: ...
    def barrier(self) -> Handle: ...
    def counters(self) -> dict[str, int]: ...
    def close(self) -> None: ...


class _Event(Enum):
    """What the thread wakes up for, beside calls that are made."""

    RESULT = "some call in the tree is done"
    END = "no calls will be made any more"


Connect = Callable[[int | None], Tree]


@dataclass
class _Call:
    number: int
    kind: Kind
    data: Array
    root: int = 0
    future: Future[Array] = field(default_factory=Future)
    handle: Handle | None = None
    result: Array | None = None

    def finish(self, result: Array) -> None:
        self.result = result
        self.handle = None
        self.future.set_result(result)


@dataclass(frozen=True)
class Counts:
    """How calls were made: by the tree, by the ring; and how often all changed to the ring.

    `tree`: the worker's counters; `ring`: the card's, of a ring over RDMA; `planes`: each of its
    planes, as `Ring.planes` has them.
    """

    by_tree: int
    by_ring: int
    changes: int
    tree: dict[str, int]
    ring: dict[str, int] = field(default_factory=dict)
    planes: list[dict[str, Any]] = field(default_factory=list)


class Collectives:
    """The calls of one rank; they may come from any thread."""

    def __init__(self, ring: Ring, connect: Connect | None = None) -> None:
        """Begin. `connect` makes this rank a worker of the job's tree, from an epoch on.

        It gets None for the one that the job's settings say. Without it everything goes by the
        ring. Raises CollectiveError.
        """
        self._ring, self._connect = ring, connect
        self._tree = None if connect is None else connect(None)
        self._epoch = 0  # of the tree when it was left
        self._tree_counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._made = 0
        self._events: queue.SimpleQueue[_Call | _Event] = queue.SimpleQueue()
        self._waiting: deque[_Call] = deque()  # made, not begun
        self._recent: deque[_Call] = deque()  # begun: those open, and the last DEPTH with results
        self._next = 0  # the number of the call to begin next
        self._closing = False
        self._error: CollectiveError | None = None
        self._asked_until = 0  # the ring asks who has the result of calls before this one
        self._back_at: int | None = None
        self._ring_calls = RING_CALLS
        self._by_tree = self._by_ring = self._changes = 0
        self._thread = threading.Thread(target=self._run, name="collectives")
        self._thread.start()

    @property
    def rank(self) -> int:
        """Which of the ranks this is."""
        return self._ring.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._ring.size

    def sum_floats(self, values: NDArray[np.float32]) -> Future[Array]:
        """Sum over all ranks, by block exponents. The result is a new array."""
        return self._make(Kind.SUM_FLOATS, values)

    def sum_integers(self, values: NDArray[np.int32]) -> Future[Array]:
        """Sum over all ranks, modulo 2^32. The result is a new array."""
        return self._make(Kind.SUM_INTEGERS, values)

    def broadcast(self, data: NDArray[np.uint8], root: int) -> Future[Array]:
        """Send rank `root`'s bytes to all; all give an array of that length."""
        return self._make(Kind.BROADCAST, data, root)

    def allgather(self, mine: NDArray[np.uint8]) -> Future[Array]:
        """Gather equally many bytes of each rank: row r of the result is rank r's."""
        return self._make(Kind.ALLGATHER, mine)

    def barrier(self) -> Future[Array]:
        """Be done when all ranks have made this call."""
        return self._make(Kind.BARRIER, np.empty(0, np.uint8))

    def counts(self) -> Counts:
        """Return how calls were made so far."""
        tree = dict(self._tree_counts)
        if self._tree is not None:
            with suppress(CollectiveError):
                _add(tree, self._tree.counters())
        ring = self._ring
        told = (tree, ring.counters(), ring.planes())
        return Counts(self._by_tree, self._by_ring, self._changes, *told)

    def close(self, *, together: bool = True) -> None:
        """End. `together`: once all ranks have all results; else at once, and open calls fail.

        Nothing is raised for ranks that are gone. May be called again.
        """
        with self._lock:
            if self._closing:
                together = False
            self._closing = True
            if not together and self._error is None:
                self._error = CollectiveError(f"rank {self.rank}: the job was closed")
        self._events.put(_Event.END)
        if not together:
            self._ring.interrupt()
        self._thread.join()

    def _make(self, kind: Kind, data: Array, root: int = 0) -> Future[Array]:
        with self._lock:
            if self._closing:
                why = self._error or f"rank {self.rank}: {kind.value} after the job was closed"
                raise CollectiveError(str(why))
            call = _Call(self._made, kind, data, root)
            self._made += 1
            self._events.put(call)
        return call.future

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
            if self._error is None:
                self._part()
        except CollectiveError as error:
            self._error = self._error or error
        except Exception as error:  # said by every call that is open, and by those to come
            self._error = CollectiveError(f"rank {self.rank}: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._closing = True
            self._drop_tree()
            self._ring.close()
            self._fail_all(self._error or CollectiveError(f"rank {self.rank}: the job was closed"))

    def _loop(self) -> None:
        """Make calls until the end is asked for and all of them have results."""
        asked_to_end = False
        while not asked_to_end or self._waiting or self._open():
            try:
                event = self._events.get(timeout=_POLL_S if self._tree is not None else None)
                if isinstance(event, _Call):
                    self._waiting.append(event)
                asked_to_end |= event is _Event.END
            except queue.Empty:
                pass
            if self._error is not None:
                raise self._error
            self._go_on()

    def _go_on(self) -> None:
        """Take results that are there, and begin what can begin."""
        if self._tree is not None and (self._take_results() or self._ring.is_called):
            self._change_to_ring()
        while self._waiting:
            if self._tree is None and self._back_at is not None and self._next >= self._back_at:
                self._change_to_tree()
            if self._tree is not None and self._waiting[0].number >= self._oldest() + DEPTH:
                return
            self._begin(self._waiting.popleft())

    def _begin(self, call: _Call) -> None:
        self._next = call.number + 1
        self._recent.append(call)
        if self._tree is None:
            self._by_ring += 1
            self._make_by_ring(call)
            return
        self._by_tree += 1
        call.handle = _in_tree(self._tree, call)
        call.handle.add_done_callback(lambda _: self._events.put(_Event.RESULT))

    def _open(self) -> list[_Call]:
        return [call for call in self._recent if call.result is None]

    def _oldest(self) -> int:
        """Return the first call without a result."""
        return min((call.number for call in self._open()), default=self._next)

    def _take_results(self) -> bool:
        """Finish what the tree has finished; return whether it has given up."""
        given_up = False
        for call in self._open():
            if call.handle is None:
                continue
            try:
                result = call.handle.wait(0)
            except TimeoutError:
                continue
            except CollectiveError:
                given_up = True
                continue
            call.finish(_as_result(call, result))
        self._forget()
        return given_up

    def _forget(self) -> None:
        """Keep the last DEPTH results, and what is open."""
        while self._recent and self._recent[0].number < self._oldest() - DEPTH:
            self._recent.popleft()

    def _drop_tree(self) -> None:
        if self._tree is not None:
            counted = self._tree.counters()
            self._epoch = counted.get(_EPOCH, 0)
            _add(self._tree_counts, counted)
            self._tree.close()
            self._tree = None

    # --- changing between tree and ring ---------------------------------------------------------

    def _agree(self) -> int:
        """Return the first call of which some rank lacks the result."""
        mine = np.array([self._oldest()], np.int64)
        of_all = self._ring.allgather(mine.view(np.uint8))
        return min(int(each.view(np.int64)[0]) for each in of_all)

    def _change_to_ring(self) -> None:
        assert self._tree is not None
        self._drop_tree()
        self._take_results()  # what was done meanwhile; all else has failed
        first = self._agree()
        self._changes += 1
        if self._back_at is not None and first < self._back_at + self._ring_calls:
            self._ring_calls = min(2 * self._ring_calls, _MOST_RING_CALLS)
        else:
            self._ring_calls = RING_CALLS
        self._back_at = first + self._ring_calls
        self._settle(first)

    def _settle(self, first: int) -> None:
        """Bring all ranks to have the results of all calls from `first` on that are begun here."""
        self._asked_until = first + DEPTH
        for call in [each for each in self._recent if each.number >= first]:
            if call.result is None:
                self._by_ring += 1
                self._by_tree -= 1
                call.handle = None
            self._make_by_ring(call)

    def _make_by_ring(self, call: _Call) -> None:
        if call.number < self._asked_until:
            has = np.array([call.result is not None], np.uint8)
            who = [bool(each[0]) for each in self._ring.allgather(has)]
            if any(who):
                result = _empty(call, self.size) if call.result is None else call.result
                self._ring.broadcast(result.reshape(-1).view(np.uint8), who.index(True))
                if call.result is None:
                    call.finish(result)
                return
        if call.result is None:
            call.finish(_by_ring(self._ring, call))
        self._forget()

    def _change_to_tree(self) -> None:
        """Try the tree again; all ranks are at the same call, and none is open."""
        assert self._connect is not None
        mine = np.array([self._epoch], np.int64)
        epochs = [int(each.view(np.int64)[0]) for each in self._ring.allgather(mine.view(np.uint8))]
        tree, problem = None, False
        try:
            tree = self._connect(_after(epochs))
        except CollectiveError:
            problem = True
        of_all = self._ring.allgather(np.array([problem], np.uint8))
        if any(bool(each[0]) for each in of_all):
            if tree is not None:
                tree.close()
            self._ring_calls = min(2 * self._ring_calls, _MOST_RING_CALLS)
            self._back_at = self._next + self._ring_calls
        else:
            self._tree = tree

    def _part(self) -> None:
        """Leave, once no rank lacks a result."""
        with suppress(PeerLostError):
            while (first := self._agree()) < self._next:
                self._drop_tree()
                self._settle(first)

    def _fail_all(self, error: CollectiveError) -> None:
        with suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                if isinstance(event, _Call):
                    self._waiting.append(event)
        for call in (*self._open(), *self._waiting):
            if not call.future.done():
                call.future.set_exception(error)


def _in_tree(tree: Tree, call: _Call) -> Handle:
    match call.kind:
        case Kind.SUM_FLOATS:
            return tree.allreduce_float32(call.data)
        case Kind.SUM_INTEGERS:
            return tree.allreduce_int32(call.data)
        case Kind.BROADCAST:
            return tree.broadcast(call.data, call.root)
        case Kind.ALLGATHER:
            return tree.allgather(call.data)
    return tree.barrier()


def _as_result(call: _Call, result: Any) -> Array:
    return call.data if call.kind is Kind.BARRIER else np.ascontiguousarray(result)


def _empty(call: _Call, size: int) -> Array:
    shape = (size, *call.data.shape) if call.kind is Kind.ALLGATHER else call.data.shape
    return np.empty(shape, call.data.dtype)


def _by_ring(ring: Ring, call: _Call) -> Array:
    if call.kind is Kind.ALLGATHER:
        return np.stack(list(ring.allgather(call.data)))
    made = call.data.copy()
    match call.kind:
        case Kind.SUM_FLOATS:
            ring.sum_floats(made)
        case Kind.SUM_INTEGERS:
            ring.sum_integers(made)
        case Kind.BROADCAST:
            ring.broadcast(made, call.root)
        case _:
            ring.barrier()
    return made


def _after(epochs: list[int]) -> int:
    """Return the epoch after the latest of these, by serial arithmetic: no slot has seen it."""
    latest = epochs[0]
    for each in epochs:
        if 0 < (each - latest) % _EPOCHS < _EPOCHS // 2:
            latest = each
    return (latest + 1) % _EPOCHS


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name in more.keys() - _STATES:
        number = more[name]
        counts[name] = counts.get(name, 0) + number
