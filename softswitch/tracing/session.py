"""Tracing of one switch: keeps its traced variant loaded while it is used, hands out traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from softswitch.codegen import BuildError, build_pipeline
from softswitch.codegen.model import Bmv2Program
from softswitch.core import CoreError, CoreErrorCode, SwitchCore
from softswitch.core.tracing import CoreTracing, TraceStats, records
from softswitch.tracing.decoder import Decoded, Decoder, ProgramNames
from softswitch.tracing.filter import compile_filter

TRACERS_MAX = 8

_LAST: dict[str, tuple[Bmv2Program, Path | None, Path]] = {}


class TraceError(Exception):
    """Tracing can't be had; the message says why."""


def build_variant(program: Bmv2Program, cache_dir: Path | None = None) -> Path:
    """Return the traced variant's shared object, built unless cached. Raises TraceError."""
    # Even to find it in the cache its C has to be made: not again for each of many short traces.
    known = _LAST.get("program")
    if known is not None and known[0] is program and known[1] == cache_dir and known[2].exists():
        return known[2]
    try:
        made = build_pipeline(program, cache_dir=cache_dir, trace=True)
    except BuildError as error:
        raise TraceError(f"the traced variant of the program can't be built: {error}") from error
    _LAST["program"] = program, cache_dir, made
    return made


class TraceSession:
    """All tracers of one switch. Not thread-safe: the core's rules hold for every method."""

    def __init__(self, core: SwitchCore, *, capacity: int) -> None:
        """`capacity`: bytes of records that the core keeps between two calls of `poll`."""
        self._core = core
        self._tracing = CoreTracing(core)
        self._decoder = Decoder()
        self._capacity = capacity

    @property
    def ready(self) -> bool:
        """Whether the program that runs can be traced now (see `equip`)."""
        return self._core.loaded and self._decoder.knows(self._core.program_number)

    def equip(self, program: Bmv2Program, variant: Path) -> None:
        """Give the core the traced variant of the program that it runs. Raises TraceError."""
        try:
            self._tracing.variant(variant)
        except CoreError as error:
            raise TraceError(f"the traced variant can't be loaded: {error}") from error
        places = self._tracing.layout()
        assert places is not None
        self._decoder.add_program(self._core.program_number, ProgramNames(program, places))

    def start(
        self, filter: str | None = None, ports: Sequence[int] = (), limit: int | None = None
    ) -> int:
        """Begin to trace packets that arrive; return the tracer's number.

        `filter`: pcap syntax, on the bytes as received; `ports`: of arrival, none for all; `limit`:
        so many packets at most. Raises FilterError, TraceError.
        """
        code = compile_filter(filter or "")
        try:
            return self._tracing.start(
                filter=code, ports=list(ports), limit=limit or 0, capacity=self._capacity
            )
        except CoreError as error:
            if error.code == CoreErrorCode.EFULL:
                raise TraceError(f"this switch has {TRACERS_MAX} tracers already") from None
            raise TraceError(f"tracing can't start: {error}") from error

    def stop(self, tracer: int) -> None:
        """End a tracer; `poll` first to get what it has seen."""
        self._tracing.stop(tracer)
        if self.stats().tracers == 0:
            self._decoder.give_up()

    def take(self) -> bytes:
        """Return the raw records since the last time, for `decode`.

        Only this part must be quick.
        """
        data = chunk = self._tracing.take()
        while chunk:
            chunk = self._tracing.take()
            data += chunk
        return data

    def decode(self, data: bytes) -> list[Decoded]:
        """Return the packets whose traces are complete now. Does not touch the core."""
        return self._decoder.feed(records(data))

    def poll(self) -> list[Decoded]:
        """Run `take` and `decode`."""
        return self.decode(self.take())

    def unfinished(self) -> list[Decoded]:
        """Return the packets that are still on their way, as far as they got."""
        return self._decoder.unfinished()

    def give_up(self, before_ps: int | None = None) -> list[Decoded]:
        """Give up unfinished packets that arrived before `before_ps`, and return them."""
        return self._decoder.give_up(before_ps)

    def forget(self, tracer: int) -> None:
        """Take the packets on their way from this tracer: its number may be given again."""
        self._decoder.forget(tracer)

    def stats(self) -> TraceStats:
        """Return the counts of traced and missed packets."""
        return self._tracing.stats()
