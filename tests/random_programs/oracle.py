"""What a made program must do with a packet, by the specification and v1model alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.random_programs import model as m
from tests.random_programs.interpreter import HASHES, Interpreter, Jumped, Scope, csum16, packed
from tests.random_programs.types import Bits, Type, Varbit, width_of
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
    of_raw,
    raw,
)

DROP_PORT = 511
MOST_STATES = 200
NO_MATCH = "no match"
"""Where a select leads that nothing matches: parsing ends, and BMv2 leaves `parser_error` alone."""


class ParserFailed(Exception):
    """The parser ended with an error; the message is its name."""


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
    """What the control plane has written."""

    tables: dict[str, list[m.Entry]] = field(default_factory=dict)
    value_sets: dict[str, list[int]] = field(default_factory=dict)


class Oracle:
    """A switch with a program; registers and counters last from packet to packet."""

    def __init__(self, program: m.Program, entries: Entries) -> None:
        self.program, self.entries = program, entries
        self.registers: dict[str, list[int]] = {}
        self.counters: dict[str, list[int]] = {}
        self.hits: dict[tuple[str, int], int] = {}
        self.seen: dict[str, list[tuple[int, ...]]] = {}
        self.seen_sets: dict[str, list[int]] = {}
        self.covered: set[str] = set()
        for control in (program.ingress, program.egress):
            for register in control.registers:
                self.registers[register.name] = [0] * register.size
            for counter in control.counters:
                self.counters[counter.name] = [0] * counter.size

    def run(self, port: int, packet: bytes) -> list[Sent]:
        """What comes out for a packet. Raises Undefined; what comes after is undefined too."""
        program = self.program
        hdr, meta = fresh(program.headers), fresh(program.metadata, zero=True)
        std = fresh(m.STANDARD, zero=True)
        assert isinstance(hdr, StructValue)
        assert isinstance(meta, StructValue) and isinstance(std, StructValue)
        std.fields |= {"ingress_port": port, "packet_length": len(packet)}
        block = ParserRun(self, packet)
        rest = block.parse(hdr, meta, std)
        self._verify(hdr, meta, std)
        self._control(program.ingress, hdr, meta, std)
        out = std.fields["egress_spec"]
        assert isinstance(out, int)
        if out == DROP_PORT:
            return []
        std.fields |= {"egress_port": out, "egress_spec": 0}
        self._control(program.egress, hdr, meta, std)
        if std.fields["egress_spec"] == DROP_PORT:
            return []
        self._update(hdr, meta)
        writer = _Writer()
        scope = _scope(hdr, meta, std)
        reader = Interpreter([], [], scope)
        for item in program.emits:
            writer.emit(reader.place(item, scope).get())
        data, mask = writer.bytes()
        return [Sent(out, data + rest, mask + b"\xff" * len(rest))]

    def _control(
        self, control: m.Control, hdr: StructValue, meta: StructValue, std: StructValue
    ) -> None:
        scope = _scope(hdr, meta, std)
        run = ControlRun(self, control, scope)
        for local in control.locals:
            run._run(local, scope)
        try:
            run.run(control.body, scope)
        except Jumped as jumped:
            if jumped.word not in ("exit", "return"):
                raise

    # --- checksums ------------------------------------------------------------------------------

    def _verify(self, hdr: StructValue, meta: StructValue, std: StructValue) -> None:
        scope = _scope(hdr, meta, std)
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


def _scope(hdr: StructValue, meta: StructValue, std: StructValue) -> Scope:
    scope = Scope()
    scope.own |= {m.HDR: hdr, m.META: meta, m.STD: std}
    return scope


class ControlRun(Interpreter):
    """Ingress or egress at work on one packet."""

    def __init__(self, oracle: Oracle, control: m.Control, scope: Scope) -> None:
        super().__init__(oracle.program.functions, control.actions, scope)
        self.oracle, self.control = oracle, control
        self.tables = {table.name: table for table in control.tables}

    def apply(self, table: str, scope: Scope) -> tuple[bool, str]:
        """Look the table's keys up, run the action."""
        made = self.tables[table]
        keys = tuple(self.number(key.expr, self.outer) for key in made.keys)
        self.oracle.seen.setdefault(table, []).append(keys)
        written = self.oracle.entries.tables.get(table, [])
        entries = made.entries or written
        at = find(made, entries, keys)
        if at is None:
            action, args = made.default, made.default_args
        else:
            action, args = entries[at].action, entries[at].args
            self.oracle.hits[table, at] = self.oracle.hits.get((table, at), 0) + 1
        self.oracle.covered.add(f"{table} {action} {at is not None}")
        call = m.Call(None, action, made.bound.get(action, []))
        self.call(call, self.outer, args)
        return at is not None, action

    def extern(self, stmt: m.Stmt, scope: Scope) -> None:
        """Registers, counters, hashes, drops."""
        oracle = self.oracle
        match stmt:
            case m.RegisterRead(register=name, target=target, index=index):
                place = self.place(target, scope)
                value = oracle.registers[name][self.number(index, scope)]
                assert target.type is not None
                place.set(of_raw(target.type, value))
            case m.RegisterWrite(register=name, index=index, value=value):
                at = self.number(index, scope)
                oracle.registers[name][at] = self.number(value, scope)
            case m.Count(counter=name, index=index):
                oracle.counters[name][self.number(index, scope)] += 1
            case m.Hash():
                self._hash(stmt, scope)
            case m.Drop():
                std = self.outer.own[m.STD]
                assert isinstance(std, StructValue)
                std.fields |= {"egress_spec": DROP_PORT, "mcast_grp": 0}
            case _:
                raise TypeError(f"no such statement in a control: {stmt}")

    def _hash(self, stmt: m.Hash, scope: Scope) -> None:
        place = self.place(stmt.target, scope)
        base = self.number(stmt.base, scope)
        data = packed([(item.type, self.value(item, scope)) for item in stmt.items])  # type: ignore[misc]
        limit = self.number(stmt.limit, scope)
        assert isinstance(stmt.target.type, Bits)
        value = HASHES[stmt.algorithm](data)
        place.set(of_raw(stmt.target.type, base + value % limit if limit else base))


def find(table: m.Table, entries: Sequence[m.Entry], keys: tuple[int, ...]) -> int | None:
    """The index of the entry that wins, None for a miss."""
    best: tuple[int, int] | None = None
    widths = [width_of(key.expr.type) for key in table.keys]  # type: ignore[arg-type]
    for at, entry in enumerate(entries):
        pairs = zip(entry.matches, keys, widths, strict=True)
        if not all(accepts(match, key, width) for match, key, width in pairs):
            continue
        longest = sum(match.high for match in entry.matches if match.kind == "prefix")
        rank = (entry.priority, longest)
        if best is None or rank > best:
            best, winner = rank, at
    return None if best is None else winner


def accepts(match: m.Match, key: int, width: int) -> bool:
    """Whether one key's bits are what an entry or a select case asks for."""
    match match.kind:
        case "value":
            return key == match.low
        case "mask":
            return key & match.high == match.low & match.high
        case "range":
            return match.low <= key <= match.high
        case "prefix":
            shift = width - match.high
            return key >> shift == match.low >> shift
    return True


class ParserRun(Interpreter):
    """The parser at work on one packet."""

    def __init__(self, oracle: Oracle, packet: bytes) -> None:
        super().__init__(oracle.program.functions, [], Scope())
        self.oracle = oracle
        self.bits = int.from_bytes(packet, "big")
        self.length, self.at = len(packet) * 8, 0
        self.packet = packet
        self.states = 0

    def parse(self, hdr: StructValue, meta: StructValue, std: StructValue) -> bytes:
        """Parse; returns what follows the headers."""
        scope = _scope(hdr, meta, std)
        try:
            self._parse(self.oracle.program.parser, scope)
        except ParserFailed as failed:
            std.fields["parser_error"] = str(failed)
            self.oracle.covered.add(f"parser {failed}")
        return self.packet[self.at // 8 :]

    def _parse(self, parser: m.Parser, scope: Scope) -> None:
        for local in parser.locals:
            self._run(local, scope)
        states = {state.name: state for state in parser.states}
        name = "start"
        while name not in ("accept", NO_MATCH):
            self.states += 1
            if self.states > MOST_STATES:
                raise Undefined
            state = states[name]
            inner = Scope(scope)
            for stmt in state.body:
                self._run(stmt, inner)
            name = state.next if isinstance(state.next, str) else self._select(state.next, inner)

    def _select(self, select: m.Select, scope: Scope) -> str:
        keys = [self.number(key, scope) for key in select.exprs]
        widths = [width_of(key.type) for key in select.exprs]  # type: ignore[arg-type]
        for case in select.cases:
            if case.set_name:
                self.oracle.seen_sets.setdefault(case.set_name, []).append(keys[0])
                if keys[0] in self.oracle.entries.value_sets.get(case.set_name, []):
                    return case.state
            elif all(
                accepts(match, key, width)
                for match, key, width in zip(case.matches, keys, widths, strict=True)
            ):
                return case.state
        self.oracle.covered.add("parser NoMatch")
        return NO_MATCH

    def extern(self, stmt: m.Stmt, scope: Scope) -> None:
        """Extract, verify, sub-parsers."""
        match stmt:
            case m.Extract():
                self._extract(stmt, scope)
            case m.Verify(condition=condition, error=error):
                if not self.truth(condition, scope):
                    raise ParserFailed(error)
            case m.SubParser(name=name, args=args):
                self._sub_parser(name, args, scope)
            case _:
                raise TypeError(f"no such statement in a parser: {stmt}")

    def lookahead(self, type_: Type) -> Value:
        """Bits ahead, not taken."""
        at = self.at
        bits = self._take(width_of(type_))
        self.at = at
        return of_raw(type_, bits)

    def _take(self, bits: int) -> int:
        if self.at + bits > self.length:
            raise ParserFailed("PacketTooShort")
        self.at += bits
        return (self.bits >> (self.length - self.at)) & ((1 << bits) - 1)

    def _extract(self, stmt: m.Extract, scope: Scope) -> None:
        stack: StackValue | None = None
        place = self.place(stmt.target, scope)
        header = place.get()
        if stmt.next:
            assert isinstance(header, StackValue)
            stack = header
            if stack.next >= len(stack.items):
                raise ParserFailed("StackOutOfBounds")
            header = stack.items[stack.next]
        assert isinstance(header, HeaderValue)
        extra = 0 if stmt.length is None else self.number(stmt.length, scope)
        made = HeaderValue(header.type, {}, True)
        most = max((of.width for _, of in header.type.fields if isinstance(of, Varbit)), default=0)
        if self.at + width_of(header.type) + extra > self.length:
            raise ParserFailed("PacketTooShort")
        if extra > most:
            raise ParserFailed("HeaderTooShort")
        for name, of in header.type.fields:
            if isinstance(of, Varbit):
                made.fields[name] = Bitstring(extra, self._take(extra))
            else:
                made.fields[name] = of_raw(of, self._take(width_of(of)))
        if stack is not None:
            header.valid, header.fields = True, made.fields
            stack.next += 1
        else:
            place.set(made)

    def _sub_parser(self, name: str, args: Sequence[m.Expr], scope: Scope) -> None:
        parser = next(sub for sub in self.oracle.program.sub_parsers if sub.name == name)
        inner = Scope()
        back = []
        for param, arg in zip(parser.params, args, strict=True):
            if param.direction == "in":
                inner.own[param.name] = copy(self.value(arg, scope))
                continue
            place = self.place(arg, scope)
            back.append((param.name, place))
            value = copy(place.get()) if param.direction == "inout" else fresh(param.type)
            inner.own[param.name] = value
        try:
            self._parse(parser, inner)
        except ParserFailed:
            raise Undefined from None  # what its out parameters hold then is nowhere said
        for param_name, place in back:
            place.set(copy(inner.own[param_name]))


class _Writer:
    """Collects bits that are emitted, and which of them are defined."""

    def __init__(self) -> None:
        self.value = self.mask = self.width = 0

    def emit(self, value: Value) -> None:
        """A header if it is valid; all that are in a struct, stack or union."""
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
        """The data and the mask."""
        size = (self.width + 7) // 8
        pad = size * 8 - self.width
        return (self.value << pad).to_bytes(size, "big"), (self.mask << pad).to_bytes(size, "big")
