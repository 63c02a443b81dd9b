"""Tracing of the in-process switch: what its packets met is kept until asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from softswitch.codegen.model import Bmv2Program
from softswitch.core import SwitchCore
from softswitch.tracing.records import PacketTrace
from softswitch.tracing.session import TraceError, TraceSession, build_variant
from softswitch.tracing.text import render

CAPACITY = 64 << 20
"""Bytes of records between two calls of the switch; memory that nothing is written to is free."""

KEPT = 10_000
"""Packets of which the traces are kept, the last ones."""


class Recorder:
    """One switch's traces. `program` returns what runs, None if nothing does."""

    def __init__(
        self,
        core: SwitchCore,
        program: Callable[[], Bmv2Program | None],
        cache_dir: Path | None = None,
    ) -> None:
        self._core = core
        self._program = program
        self._cache_dir = cache_dir
        self._made: TraceSession | None = None
        self._tracers: set[int] = set()
        self._packets: deque[PacketTrace] = deque(maxlen=KEPT)

    @property
    def _session(self) -> TraceSession:
        """Made at first use: most switches are never traced."""
        if self._made is None:
            self._made = TraceSession(self._core, capacity=CAPACITY)
        return self._made

    def start(
        self, filter: str | None = None, ports: Sequence[int] = (), limit: int | None = None
    ) -> Tracer:
        """Trace packets that arrive from now on. Raises FilterError, TraceError."""
        if self._program() is None:
            raise TraceError("no pipeline is loaded, so there is nothing to trace")
        self.renew(force=True)
        number = self._session.start(filter, ports, limit)
        self._tracers.add(number)
        return Tracer(self, number)

    def stop(self, tracer: int) -> None:
        """End a tracer, for good."""
        if tracer in self._tracers:
            self.collect()
            if len(self._tracers) == 1:
                self._packets.extend(decoded.trace for decoded in self._session.unfinished())
            self._tracers.remove(tracer)
            self._session.stop(tracer)

    def renew(self, *, force: bool = False) -> None:
        """Prepare for the program that was loaded, or (`force`) for the first tracer."""
        program = self._program()
        if program is None or not (self._tracers or force):
            return
        self.collect()
        if not self._session.ready:
            self._session.equip(program, build_variant(program, self._cache_dir))

    def collect(self) -> None:
        """Take what the switch has recorded since the last time."""
        if self._tracers:
            self._packets.extend(decoded.trace for decoded in self._session.poll())

    def packets(self) -> list[PacketTrace]:
        """Return the traces in order of arrival; of packets still on their way, as far as they
        got.
        """
        self.collect()
        found = [*self._packets]
        if self._tracers:
            found += (decoded.trace for decoded in self._session.unfinished())
        return sorted(found, key=lambda trace: trace.number)

    def clear(self) -> None:
        """Forget what was traced; packets on their way are still completed."""
        self.collect()
        self._packets.clear()

    def explain(self) -> str:
        """Return all traces as text."""
        packets = self.packets()
        if not packets:
            return "no packet was traced"
        return "\n\n".join(render(trace) for trace in packets)


class Tracer:
    """A tracer that runs until `stop`, or to the end of a `with`."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number

    def stop(self) -> None:
        """Trace no further packets; what was traced stays."""
        self._recorder.stop(self._number)

    def __enter__(self) -> Tracer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
