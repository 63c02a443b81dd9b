"""The passive blocks as typed Python: one method a function of blocks.h, for tests and models.

blocks = PassiveBlocks(BlocksConfig(job=1, rank=0, ranks=4, lanes=2, most=1000), BlockCalls())
blocks.begin(root=0, lanes=1000, now_ns=0);  blocks.go(0);  blocks.receive(payload, now_ns)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hostagent.collective.native import native

ALL = -1
"""The root of a call in which every rank sends."""

FLOOD = (1 << 32) - 1
"""All ranks, as the destination of a datagram."""

NEVER = (1 << 63) - 1
_prepared: set[int] = set()


class BlocksError(Exception):
    """A configuration or a call is refused; the message says why."""


@dataclass(frozen=True)
class BlocksConfig:
    """struct blocks_config; `wire_lanes` 0: as many as `lanes`."""

    job: int
    rank: int
    ranks: int
    lanes: int
    most: int
    wire_lanes: int = 0
    slot_ps: int = 1000
    timeout_ns: int = 1000
    seed: int = 0
    first: int = 0


class BlockCalls:
    """What the blocks call; one that does nothing (struct blocks_calls)."""

    def send(self, to: int, payload: bytes, tail: int) -> None:
        """Send a datagram to a rank or FLOOD, with `tail` bytes behind it."""

    def set_timer(self, at_ns: int) -> None:
        """Call `timer` at this time, instead of the one before."""

    def epoch(self) -> int:
        """Return the job's epoch."""
        return 0

    def fill(self, block: int, n: int) -> Sequence[int]:
        """Return the first `n` int32 of an own block."""
        raise NotImplementedError

    def take(self, rank: int, block: int, lanes: list[int]) -> None:
        """Take a block of a rank's."""

    def complete(self) -> None:
        """Handle that all blocks are there, and the own ones were sent."""


def _prepare(module: Any) -> None:
    """Define what C calls; once a module."""
    if id(module) in _prepared:
        return
    ffi = module.ffi

    @ffi.def_extern(name="collective_blocks_send")  # type: ignore[untyped-decorator]
    def send(owner: Any, to: int, payload: Any, length: int, tail: int) -> None:
        ffi.from_handle(owner).calls.send(to, bytes(ffi.buffer(payload, length)), tail)

    @ffi.def_extern(name="collective_blocks_set_timer")  # type: ignore[untyped-decorator]
    def set_timer(owner: Any, at_ns: int) -> None:
        ffi.from_handle(owner).calls.set_timer(at_ns)

    @ffi.def_extern(name="collective_blocks_epoch")  # type: ignore[untyped-decorator]
    def epoch(owner: Any) -> int:
        return int(ffi.from_handle(owner).calls.epoch())

    @ffi.def_extern(name="collective_blocks_fill")  # type: ignore[untyped-decorator]
    def fill(owner: Any, block: int, lanes: Any, n: int) -> None:
        for i, value in enumerate(ffi.from_handle(owner).calls.fill(block, n)):
            lanes[i] = value

    @ffi.def_extern(name="collective_blocks_take")  # type: ignore[untyped-decorator]
    def take(owner: Any, rank: int, block: int, lanes: Any, n: int) -> None:
        ffi.from_handle(owner).calls.take(rank, block, list(lanes[0:n]))

    @ffi.def_extern(name="collective_blocks_complete")  # type: ignore[untyped-decorator]
    def complete(owner: Any) -> None:
        ffi.from_handle(owner).calls.complete()

    _prepared.add(id(module))


class PassiveBlocks:
    """One rank's blocks; see blocks.h for what each call does."""

    def __init__(self, config: BlocksConfig, calls: BlockCalls, *, sanitize: bool = False) -> None:
        """Create the blocks. Raises BlocksError."""
        module = native(sanitize=sanitize)
        _prepare(module)
        self.config, self.calls = config, calls
        self.ffi, self.lib = module.ffi, module.lib
        values = {**asdict(config), "wire_lanes": config.wire_lanes or config.lanes}
        native_config = self.ffi.new("struct blocks_config *", values)
        wrong = self.lib.blocks_wrong(native_config)
        if wrong != self.ffi.NULL:
            raise BlocksError(self.ffi.string(wrong).decode())
        self._memory = self.ffi.new("uint64_t[]", self.lib.blocks_bytes(native_config) // 8 + 1)
        names = ("send", "set_timer", "epoch", "fill", "take", "complete")
        self._calls = self.ffi.new(
            "struct blocks_calls *",
            {name: getattr(self.lib, f"collective_blocks_{name}") for name in names},
        )
        self._self = self.ffi.new_handle(self)
        self._blocks = self.lib.blocks_make(self._memory, native_config, self._calls, self._self)

    def begin(self, root: int, lanes: int, now_ns: int) -> None:
        """Begin a call in which a root, or each rank (ALL), sends so many int32.

        Raises BlocksError.
        """
        status = self.lib.blocks_begin(self._blocks, root, lanes, now_ns)
        if status == self.lib.BLOCKS_BUSY:
            raise BlocksError("a call is open already")
        if status < 0:
            raise BlocksError(f"a call of {lanes} lanes from root {root}")

    def go(self, now_ns: int) -> None:
        """Say that all ranks have begun."""
        self.lib.blocks_go(self._blocks, now_ns)

    def end(self) -> None:
        """Say that all ranks are complete."""
        self.lib.blocks_end(self._blocks)

    def receive(self, payload: bytes, now_ns: int) -> None:
        """Hand over a datagram."""
        self.lib.blocks_receive(self._blocks, payload, len(payload), now_ns)

    def timer(self, now_ns: int) -> None:
        """Say that a time has come that `set_timer` named."""
        self.lib.blocks_timer(self._blocks, now_ns)

    def missing(self) -> int:
        """Return a rank of which something is missing; as many as there are: none."""
        return int(self.lib.blocks_missing(self._blocks))

    def stats(self) -> dict[str, int]:
        """Return its counters."""
        row = self.lib.blocks_stats_of(self._blocks)
        fields = self.ffi.typeof("struct blocks_stats").fields
        return {name: int(getattr(row, name)) for name, _ in fields}
