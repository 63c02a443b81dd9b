"""What a made program must do with a packet, by the specification and v1model alone.

A packet passes ingress, and each copy that leaves it passes egress: more of them come of clones,
multicast, resubmission and recirculation, as BMv2's simple_switch.md has them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from tests.random_programs import model as m
from tests.random_programs.blocks import DROP_PORT, ControlRun, ParserRun, block_scope
from tests.random_programs.interpreter import Interpreter, Jumped, Scope, csum16, packed
from tests.random_programs.meters import TwoRate
from tests.random_programs.types import Type, Varbit, width_of
from tests.random_programs.values import (
    UNDEFINED,
    Bitstring,
    HeaderValue,
    StackValue,
    StructValue,
    Undefined,
    UnionValue,
    Value,
    copy,
    fresh,
    raw,
)

MOST_PASSES = 48
"""So often a packet and all that comes of it may pass ingress and egress."""
NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6
AGAIN_US = 1
"""Microseconds until a packet that was sent back is in ingress."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet that leaves: bits that are not set in `mask` are not defined."""

    port: int
    data: bytes
    mask: bytes

    def agrees(self, port: int, data: bytes) -> bool:
        """Whether that is this packet."""
        if (port, len(data)) != (self.port, len(self.data)):
            return False
        return all((a ^ b) & k == 0 for a, b, k in zip(data, self.data, self.mask, strict=True))


@dataclass
class Entries:
    """What the control plane has written.

    `sessions` and `groups`: (port, instance) of each copy, by clone session and multicast group.
    """

    tables: dict[str, list[m.Entry]] = field(default_factory=dict)
    value_sets: dict[str, list[int]] = field(default_factory=dict)
    meters: dict[tuple[str, int], m.Rates] = field(default_factory=dict)
    sessions: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass
class Requests:
    """What a packet's code asked for; the last call counts."""

    clone: m.Clone | None = None
    session: int = 0
    again: int | None = None
    digest: tuple[str, tuple[int, ...]] | None = None


@dataclass
class Passing:
    """A packet in ingress or egress.

    `arrived`: its bytes before parsing, `payload`: what follows its headers, `length`: what
    `packet_length` says, `counted`: the bytes that counters count.
    """

    hdr: StructValue
    meta: StructValue
    std: StructValue
    arrived: bytes
    length: int
    counted: int
    at_us: int
    payload: bytes = b""
    generation: int = 0
    requests: Requests = field(default_factory=Requests)

    def number(self, name: str) -> int:
        """Return a field of standard metadata."""
        value = self.std.fields[name]
        assert isinstance(value, int)
        return value

    def copy(self) -> Passing:
        """Another one, which has asked for nothing."""
        made = (copy(part) for part in (self.hdr, self.meta, self.std))
        hdr, meta, std = (part for part in made if isinstance(part, StructValue))
        return Passing(
            hdr, meta, std, self.arrived, self.length, self.counted, self.at_us, self.payload,
            self.generation,
        )  # fmt: skip


class Oracle:
    """A switch with a program; registers, counters and meters last from packet to packet.

    `digests`: what the controller was told, by name.
    """

    def __init__(self, program: m.Program, entries: Entries) -> None:
        self.program, self.entries = program, entries
        self.registers: dict[str, list[int]] = {}
        self.counters: dict[str, list[int]] = {}
        self.counter_bytes: Counter[tuple[str, int]] = Counter()
        self.hit_bytes: Counter[tuple[str, int]] = Counter()
        self.meters: dict[tuple[str, int], TwoRate] = {}
        self.digests: list[tuple[str, tuple[int, ...]]] = []
        self.hits: dict[tuple[str, int], int] = {}
        self.seen: dict[str, list[tuple[int, ...]]] = {}
        self.seen_sets: dict[str, list[int]] = {}
        self.covered: set[str] = set()
        self._due: list[tuple[int, int, bool, Passing]] = []
        self._order = 0
        for control in (program.ingress, program.egress):
            for register in control.registers:
                self.registers[register.name] = [0] * register.size
            for counter in control.counters:
                self.counters[counter.name] = [0] * counter.size

    def run(self, port: int, packet: bytes, at_us: int = 0) -> list[Sent]:
        """Return what comes out for a packet.

        Raises Undefined; what comes after is undefined too.
        """
        first = self._new(packet, at_us)
        first.std.fields |= {"ingress_port": port, "packet_length": len(packet)}
        self._due = []
        self._later(first, 0, egress=False)
        sent: list[Sent] = []
        for _ in range(MOST_PASSES):
            if not self._due:
                return sent
            at, _, egress, passing = heapq.heappop(self._due)
            passing.at_us = at
            if egress:
                sent += self._egress(passing)
            else:
                self._ingress(passing)
        raise Undefined

    def _new(self, packet: bytes, at_us: int) -> Passing:
        made = (
            fresh(self.program.headers),
            fresh(self.program.metadata, zero=True),
            fresh(m.STANDARD, zero=True),
        )
        hdr, meta, std = (part for part in made if isinstance(part, StructValue))
        return Passing(hdr, meta, std, packet, len(packet), len(packet), at_us)

    def _later(self, passing: Passing, after_us: int, *, egress: bool) -> None:
        self._order += 1
        heapq.heappush(self._due, (passing.at_us + after_us, self._order, egress, passing))

    # --- ingress --------------------------------------------------------------------------------

    def _parse(self, passing: Passing) -> None:
        block = ParserRun(self, passing.arrived)
        passing.payload = block.parse(passing.hdr, passing.meta, passing.std)

    def _ingress(self, passing: Passing) -> None:
        self._parse(passing)
        self._verify(passing.hdr, passing.meta, passing.std)
        self._control(self.program.ingress, passing)
        asked = passing.requests
        if asked.clone is not None:
            self._clone_ingress(passing, asked.clone)
        if asked.digest is not None:
            self.covered.add("digest")
            self.digests.append(asked.digest)
        if asked.again is not None:
            self.covered.add("resubmit")
            self._enter_again(passing, passing.arrived, RESUBMITTED, passing.length)
            return
        group = passing.number("mcast_grp")
        if group:
            passing.std.fields["instance_type"] = REPLICATED
            self._replicate(passing, self.entries.groups.get(group, []))
        elif passing.number("egress_spec") != DROP_PORT:
            passing.std.fields["instance_type"] = NORMAL
            passing.requests = Requests()
            self._leave(passing, passing.number("egress_spec"))

    def _clone_ingress(self, passing: Passing, clone: m.Clone) -> None:
        """Send the packet as it came, parsed again; of its metadata the field list stays."""
        copies = self.entries.sessions.get(passing.requests.session)
        if copies is None:
            return
        self.covered.add("ingress clone")
        made = self._new(passing.arrived, passing.at_us)
        made.length, made.counted = passing.length, passing.counted
        self._parse(made)
        self._forget(made, passing, clone.field_list, INGRESS_CLONE)
        self._replicate(made, copies)

    def _replicate(self, passing: Passing, copies: list[tuple[int, int]]) -> None:
        for port, instance in copies:
            made = passing.copy()
            made.std.fields["egress_rid"] = instance
            self.covered.add("replica")
            self._leave(made, port)

    def _leave(self, passing: Passing, port: int) -> None:
        passing.std.fields["egress_port"] = port
        # A clone of a clone takes time, so that it can't make clones for ever in no time.
        self._later(passing, int(passing.generation > 1), egress=True)

    def _enter_again(self, passing: Passing, data: bytes, kind: int, length: int) -> None:
        made = self._new(data, passing.at_us)
        made.counted = passing.counted if kind == RESUBMITTED else length
        made.length = length
        self._forget(made, passing, passing.requests.again, kind)
        made.std.fields["packet_length"] = length
        self._later(made, AGAIN_US, egress=False)

    def _forget(self, made: Passing, of: Passing, number: int | None, kind: int) -> None:
        """All metadata of `made` zero but for what the field list has of the other."""
        zero = fresh(self.program.metadata, zero=True)
        standard = fresh(m.STANDARD, zero=True)
        assert isinstance(zero, StructValue) and isinstance(standard, StructValue)
        for name, lists in self.program.field_lists.items():
            if number in lists:
                zero.fields[name] = copy(of.meta.fields[name])
        made.meta, made.std = zero, standard
        made.std.fields["instance_type"] = kind

    # --- egress ---------------------------------------------------------------------------------

    def _egress(self, passing: Passing) -> list[Sent]:
        passing.std.fields |= {"egress_spec": 0, "packet_length": passing.length}
        self._control(self.program.egress, passing)
        asked = passing.requests
        if asked.clone is not None:
            self._clone_egress(passing, asked.clone)
        if passing.number("egress_spec") == DROP_PORT:
            return []
        self._update(passing.hdr, passing.meta)
        data, mask = self._deparse(passing)
        if asked.again is None:
            return [Sent(passing.number("egress_port"), data, mask)]
        if mask.strip(b"\xff"):
            raise Undefined
        self.covered.add("recirculate")
        self._enter_again(passing, data, RECIRCULATED, len(data))
        return []

    def _clone_egress(self, passing: Passing, clone: m.Clone) -> None:
        """Send the packet with its headers as they are now.

        Of its metadata the field list stays.
        """
        copies = self.entries.sessions.get(passing.requests.session)
        if copies is None:
            return
        self.covered.add("egress clone")
        made = passing.copy()
        made.generation += 1
        self._forget(made, passing, clone.field_list, EGRESS_CLONE)
        self._replicate(made, copies)

    def _deparse(self, passing: Passing) -> tuple[bytes, bytes]:
        writer = _Writer()
        scope = block_scope(passing.hdr, passing.meta, passing.std)
        reader = Interpreter([], [], scope)
        for item in self.program.emits:
            writer.emit(reader.place(item, scope).get())
        data, mask = writer.bytes()
        return data + passing.payload, mask + b"\xff" * len(passing.payload)

    def _control(self, control: m.Control, passing: Passing) -> None:
        scope = block_scope(passing.hdr, passing.meta, passing.std)
        run = ControlRun(self, control, scope, passing)
        for local in control.locals:
            run._run(local, scope)
        try:
            run.run(control.body, scope)
        except Jumped as jumped:
            if jumped.word not in ("exit", "return"):
                raise

    # --- checksums ------------------------------------------------------------------------------

    def _verify(self, hdr: StructValue, meta: StructValue, std: StructValue) -> None:
        scope = block_scope(hdr, meta, std)
        reader = Interpreter([], [], scope)
        for checksum in self.program.checksums:
            if not checksum.verify or not reader.truth(checksum.condition, scope):
                continue
            if self._checksum(checksum, reader, scope) != reader.number(checksum.target, scope):
                std.fields["checksum_error"] = 1

    def _update(self, hdr: StructValue, meta: StructValue) -> None:
        scope = Scope()
        scope.own |= {m.HDR: hdr, m.META: meta}
        reader = Interpreter([], [], scope)
        for checksum in self.program.checksums:
            if checksum.update and reader.truth(checksum.condition, scope):
                value = self._checksum(checksum, reader, scope)
                reader.place(checksum.target, scope).set(value)

    def _checksum(self, checksum: m.Checksum, reader: Interpreter, scope: Scope) -> int:
        items = [(item.type, reader.value(item, scope)) for item in checksum.items]
        return csum16(packed(items))  # type: ignore[arg-type]


class _Writer:
    """Collects bits that are emitted, and which of them are defined."""

    def __init__(self) -> None:
        self.value = self.mask = self.width = 0

    def emit(self, value: Value) -> None:
        """Emit a header if it is valid; all that are in a struct, stack or union."""
        match value:
            case HeaderValue(valid=True, type=type_, fields=fields):
                for name, of in type_.fields:
                    self._leaf(of, fields[name])
            case StructValue(fields=fields):
                for item in fields.values():
                    self.emit(item)
            case UnionValue(fields=headers):
                for header in headers.values():
                    self.emit(header)
            case StackValue(items=items):
                for header in items:
                    self.emit(header)

    def _leaf(self, of: Type, leaf: Value) -> None:
        if leaf is UNDEFINED:
            if isinstance(of, Varbit):
                raise Undefined
            self._put(0, 0, width_of(of))
        elif isinstance(leaf, Bitstring):
            self._put(leaf.value, (1 << leaf.bits) - 1, leaf.bits)
        else:
            width = width_of(of)
            self._put(raw(of, leaf), (1 << width) - 1, width)

    def _put(self, value: int, mask: int, width: int) -> None:
        self.value, self.mask = self.value << width | value, self.mask << width | mask
        self.width += width

    def bytes(self) -> tuple[bytes, bytes]:
        """Return the data and the mask."""
        size = (self.width + 7) // 8
        pad = size * 8 - self.width
        return (self.value << pad).to_bytes(size, "big"), (self.mask << pad).to_bytes(size, "big")
