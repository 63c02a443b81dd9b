"""The passive worker as typed Python: one method a function of worker.h, for tests and models.

worker = PassiveWorker(WorkerConfig(job=1, slots=4, lanes=2), Calls())
worker.begin(Kind.INTEGERS, chunks=10, tag=7, now_ns=0);  worker.receive(payload, now_ns)
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hostagent.collective.native import native

NEVER = (1 << 63) - 1
_prepared: set[int] = set()


class WorkerError(Exception):
    """The worker refuses a configuration or a call; the message says why."""


class Kind(enum.IntEnum):
    """What a call sums (enum worker_kind)."""

    INTEGERS = 0
    SCALED = 1
    BARRIER = 2
    SHORT = 3


@dataclass(frozen=True)
class WorkerConfig:
    """struct worker_config; `wire_lanes` and `window` 0: as many as lanes, and slots."""

    job: int
    slots: int
    lanes: int
    wire_lanes: int = 0
    epoch: int = 0
    window: int = 0
    adapt: bool = False
    patience: int = 2
    timeout_ns: int = 1000
    seed: int = 0
    best_effort: bool = False
    rank: int = 0


class Calls:
    """What a worker calls; one that does nothing (struct worker_calls)."""

    def send(self, payload: bytes, tail: int) -> None:
        """Send a datagram, with `tail` bytes behind it."""

    def set_timer(self, at_ns: int) -> None:
        """Call `timer` at this time, instead of the one before."""

    def fill(self, tag: int, chunk: int) -> Sequence[int]:
        """Return a chunk's int32."""
        raise NotImplementedError

    def take(self, tag: int, chunk: int, lanes: list[int]) -> None:
        """Take a chunk's sums."""

    def exponent(self, tag: int, chunk: int) -> int:
        """Return the exponent that a chunk needs."""
        return 0

    def agree(self, tag: int, chunk: int, exponent: int) -> None:
        """Take the exponent that all agreed on."""

    def done(self, tag: int) -> None:
        """Handle that all of a call was taken."""


def _prepare(module: Any) -> None:
    """Define what C calls; once a module."""
    if id(module) in _prepared:
        return
    ffi = module.ffi

    @ffi.def_extern(name="collective_worker_send")  # type: ignore[untyped-decorator]
    def send(owner: Any, payload: Any, length: int, tail: int) -> None:
        ffi.from_handle(owner).calls.send(bytes(ffi.buffer(payload, length)), tail)

    @ffi.def_extern(name="collective_worker_set_timer")  # type: ignore[untyped-decorator]
    def set_timer(owner: Any, at_ns: int) -> None:
        ffi.from_handle(owner).calls.set_timer(at_ns)

    @ffi.def_extern(name="collective_worker_fill")  # type: ignore[untyped-decorator]
    def fill(owner: Any, tag: int, chunk: int, lanes: Any) -> None:
        for i, value in enumerate(ffi.from_handle(owner).calls.fill(tag, chunk)):
            lanes[i] = value

    @ffi.def_extern(name="collective_worker_take")  # type: ignore[untyped-decorator]
    def take(owner: Any, tag: int, chunk: int, lanes: Any) -> None:
        worker = ffi.from_handle(owner)
        worker.calls.take(tag, chunk, list(lanes[0 : worker.config.lanes]))

    @ffi.def_extern(name="collective_worker_exponent")  # type: ignore[untyped-decorator]
    def exponent(owner: Any, tag: int, chunk: int) -> int:
        return int(ffi.from_handle(owner).calls.exponent(tag, chunk))

    @ffi.def_extern(name="collective_worker_agree")  # type: ignore[untyped-decorator]
    def agree(owner: Any, tag: int, chunk: int, exponent: int) -> None:
        ffi.from_handle(owner).calls.agree(tag, chunk, exponent)

    @ffi.def_extern(name="collective_worker_done")  # type: ignore[untyped-decorator]
    def done(owner: Any, tag: int) -> None:
        ffi.from_handle(owner).calls.done(tag)

    _prepared.add(id(module))


class PassiveWorker:
    """A worker; see worker.h for what each call does."""

    def __init__(self, config: WorkerConfig, calls: Calls, *, sanitize: bool = False) -> None:
        """Create a worker. Raises WorkerError."""
        module = native(sanitize=sanitize)
        _prepare(module)
        self.config, self.calls = config, calls
        self.ffi, self.lib = module.ffi, module.lib
        values = asdict(config)
        values["wire_lanes"] = config.wire_lanes or config.lanes
        values["window"] = config.window or config.slots
        native_config = self.ffi.new("struct worker_config *", values)
        wrong = self.lib.worker_wrong(native_config)
        if wrong != self.ffi.NULL:
            raise WorkerError(self.ffi.string(wrong).decode())
        self._memory = self.ffi.new("uint64_t[]", self.lib.worker_bytes(native_config) // 8 + 1)
        names = ("send", "set_timer", "fill", "take", "exponent", "agree", "done")
        self._calls = self.ffi.new(
            "struct worker_calls *",
            {name: getattr(self.lib, f"collective_worker_{name}") for name in names},
        )
        self._self = self.ffi.new_handle(self)
        self._worker = self.lib.worker_make(self._memory, native_config, self._calls, self._self)

    def begin(self, kind: Kind, chunks: int, tag: int, now_ns: int) -> None:
        """Begin a call. Raises WorkerError."""
        status = self.lib.worker_begin(self._worker, int(kind), chunks, tag, now_ns)
        if status == self.lib.WORKER_FULL:
            raise WorkerError("too many calls are open")
        if status < 0:
            raise WorkerError(f"a call of {chunks} chunks")

    def receive(self, payload: bytes, now_ns: int) -> None:
        """Hand over a datagram."""
        self.lib.worker_receive(self._worker, payload, len(payload), now_ns)

    def timer(self, now_ns: int) -> None:
        """Say that a time has come that `set_timer` named."""
        self.lib.worker_timer(self._worker, now_ns)

    @property
    def window(self) -> int:
        """Packets under way at most."""
        return int(self.lib.worker_window(self._worker))

    @property
    def epoch(self) -> int:
        """The job's epoch, as this worker knows it."""
        return int(self.lib.worker_epoch(self._worker))

    @property
    def open(self) -> int:
        """Calls that are not done."""
        return int(self.lib.worker_open(self._worker))

    def stats(self) -> dict[str, int]:
        """Return its counters."""
        row = self.lib.worker_stats_of(self._worker)
        fields = self.ffi.typeof("struct worker_stats").fields
        return {name: int(getattr(row, name)) for name, _ in fields}
