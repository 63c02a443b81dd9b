"""The core's tracing as typed Python: tracers, and the raw records that they make.

Names are not known here: objects are numbers, changes are bytes of the PHV (softswitch.tracing).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from softswitch.core.binding import SwitchCore
from softswitch.core.records import CoreError

FilterInstruction = tuple[int, int, int, int]
"""Of classic BPF: code, jump if true, jump if false, operand."""

_HEAD = struct.Struct("=IHHIIIIIIIIQQq")
_WORD = struct.Struct("=II")
_READ_BYTES = 1 << 20


class RecordKind(IntEnum):
    """enum wp_trace_kind and enum ws_trace_kind."""

    STATE = 1
    CONDITION = 2
    TABLE = 3
    ACTION = 4
    REGISTER_READ = 5
    REGISTER_WRITE = 6
    COUNT = 7
    METER = 8
    BEGIN = 32
    INGRESS = 33
    PARSED = 34
    ENQUEUE = 35
    EGRESS = 36
    DEPARSED = 37
    CLONE = 38
    REPLICATE = 39
    DIGEST = 40
    LOG = 41
    END = 42
    UNLOADED = 43


WHOLE = 1
GAP = 2


@dataclass(frozen=True, slots=True)
class Record:
    """struct ws_trace_record with its data and its changed words (index, value)."""

    kind: RecordKind
    flags: int
    packet: int
    branch: int
    program: int
    a: int
    b: int
    c: int
    x: int
    y: int
    at_ps: int
    data: bytes
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """struct wp_trace_field. `bits` 0: varbit, whose length in bits is at `length_offset`."""

    offset: int
    size: int
    bits: int
    length_offset: int


@dataclass(frozen=True, slots=True)
class TraceStats:
    """struct ws_trace_stats."""

    packets: int = 0
    missed: int = 0
    lost: int = 0
    tracers: int = 0
    ready: bool = False


class CoreTracing:
    """What `SwitchCore` offers for tracing; the same rules of threads hold."""

    def __init__(self, core: SwitchCore) -> None:
        self._core = core
        self._ffi, self._lib = core.ffi, core.lib
        self._buffer = self._ffi.new("uint8_t[]", _READ_BYTES)
        wanted = self._ffi.sizeof("struct ws_trace_record")
        assert wanted == _HEAD.size, f"record of {wanted} bytes, expected {_HEAD.size}"

    def variant(self, so_path: Path) -> None:
        """Give the running program its traced variant. Raises CoreError for another program's."""
        status = self._lib.ws_trace_variant(self._core.pointer, str(so_path).encode())
        if status == self._lib.WS_ENOENT:
            raise CoreError(status, "no program is loaded")
        if status != 0:
            raise CoreError(status, self._core.last_error())

    def layout(self) -> tuple[FieldPlace, ...] | None:
        """Return where the running program's fields are; None without a traced variant."""
        found = self._lib.ws_trace_layout(self._core.pointer)
        if found == self._ffi.NULL:
            return None
        rows = (found.fields[i] for i in range(found.n_fields))
        return tuple(FieldPlace(f.offset, f.size, f.bits, f.length_offset) for f in rows)

    def start(
        self,
        *,
        filter: Sequence[FilterInstruction] = (),
        ports: Sequence[int] = (),
        limit: int = 0,
        capacity: int,
    ) -> int:
        """Start a tracer and return its number.

        `capacity`: bytes of the buffer, if there is none yet.

        Raises CoreError: WS_EFULL (too many tracers), WS_EINVAL (no filter of classic BPF).
        """
        request = self._ffi.new(
            "struct ws_trace_request *",
            {"filter_n": len(filter), "ports_n": len(ports), "limit": limit},
        )
        code = self._ffi.new("struct ws_filter_insn[]", list(filter) or 1)
        numbers = self._ffi.new("uint32_t[]", list(ports) or 1)
        request.filter, request.ports = code, numbers
        tracer = int(self._lib.ws_trace_start(self._core.pointer, request, capacity))
        if tracer < 0:
            raise CoreError(tracer, "tracer")
        return tracer

    def stop(self, tracer: int) -> None:
        """End a tracer; unread records go with the last one."""
        status = self._lib.ws_trace_stop(self._core.pointer, tracer)
        if status != 0:
            raise CoreError(status, f"tracer {tracer}")

    def take(self) -> bytes:
        """Return records, oldest first, at most 1 MiB of them; empty when there are none."""
        n = self._lib.ws_trace_read(self._core.pointer, self._buffer, _READ_BYTES)
        return bytes(self._ffi.buffer(self._buffer, n)) if n else b""

    def stats(self) -> TraceStats:
        """Return the counts since the first of the present tracers started."""
        s = self._ffi.new("struct ws_trace_stats *")
        self._lib.ws_trace_stats_get(self._core.pointer, s)
        return TraceStats(s.packets, s.missed, s.lost, s.tracers, bool(s.ready))


def records(data: bytes) -> Iterator[Record]:
    """Yield the records in the bytes that `take` returned."""
    at = 0
    while at < len(data):
        size, kind, flags, packet, branch, program, n_data, n_words, *rest = _HEAD.unpack_from(
            data, at
        )
        body = at + _HEAD.size
        words = body + (n_data + 7) // 8 * 8
        changed = tuple(_WORD.iter_unpack(data[words : words + n_words * _WORD.size]))
        a, b, c, x, y, at_ps = rest
        yield Record(
            RecordKind(kind), flags, packet, branch, program, a, b, c, x, y, at_ps,
            data[body : body + n_data], changed,
        )  # fmt: skip
        at += size
