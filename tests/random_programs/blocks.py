"""The parser and the controls of a made program at work on one packet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.random_programs import model as m
from tests.random_programs.interpreter import HASHES, Interpreter, Scope, packed
from tests.random_programs.meters import GREEN, TwoRate
from tests.random_programs.types import Bits, Type, Varbit, width_of
from tests.random_programs.values import (
    Bitstring,
    HeaderValue,
    StackValue,
    StructValue,
    Undefined,
    Value,
    copy,
    fresh,
    of_raw,
)

if TYPE_CHECKING:
    from tests.random_programs.oracle import Oracle, Passing

DROP_PORT = 511
MOST_STATES = 200
NO_MATCH = "no match"
"""Where a select leads that nothing matches: parsing ends, and BMv2 leaves `parser_error` alone."""


class ParserFailed(Exception):
    """The parser ended with an error; the message is its name."""


def block_scope(hdr: StructValue, meta: StructValue, std: StructValue) -> Scope:
    scope = Scope()
    scope.own |= {m.HDR: hdr, m.META: meta, m.STD: std}
    return scope


class ControlRun(Interpreter):
    """Ingress or egress at work on one packet."""

    def __init__(self, oracle: Oracle, control: m.Control, scope: Scope, passing: Passing) -> None:
        super().__init__(oracle.program.functions, control.actions, scope)
        self.oracle, self.control, self.passing = oracle, control, passing
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
            self.oracle.hit_bytes[table, at] += self.passing.counted
            if made.meter is not None and made.color is not None:
                color = self._color((table, at), entries[at].rates, made.meter)
                self.place(made.color, self.outer).set(color)
        self.oracle.covered.add(f"{table} {action} {at is not None}")
        call = m.Call(None, action, made.bound.get(action, []))
        self.call(call, self.outer, args)
        return at is not None, action

    def extern(self, stmt: m.Stmt, scope: Scope) -> None:
        """Run registers, counters, hashes, drops, and what makes more packets."""
        oracle, requests = self.oracle, self.passing.requests
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
                at = self.number(index, scope)
                oracle.counters[name][at] += 1
                oracle.counter_bytes[name, at] += self.passing.counted
            case m.Hash():
                self._hash(stmt, scope)
            case m.Drop():
                std = self.outer.own[m.STD]
                assert isinstance(std, StructValue)
                std.fields |= {"egress_spec": DROP_PORT, "mcast_grp": 0}
            case m.Clone(session=session):
                requests.clone, requests.session = stmt, self.number(session, scope)
            case m.Digest(type=type_, items=items):
                requests.digest = type_.name, tuple(self.number(item, scope) for item in items)
            case m.ExecuteMeter(meter=name, index=index, target=target):
                place, at = self.place(target, scope), self.number(index, scope)
                meter = next(known for known in self.control.meters if known.name == name)
                place.set(self._color((name, at), oracle.entries.meters.get((name, at)), meter))
            case m.ReadMeter():
                pass  # the color was set when the entry was hit
            case m.Again(field_list=number):
                requests.again = number
            case _:
                raise TypeError(f"no such statement in a control: {stmt}")

    def _color(self, cell: tuple[str, int], rates: m.Rates | None, meter: m.Meter) -> int:
        if rates is None:
            return GREEN
        buckets = self.oracle.meters.setdefault(cell, TwoRate(rates))
        size = self.passing.counted if meter.bytes else 1
        color = buckets.color(self.passing.at_us, size)
        self.oracle.covered.add(f"color {color}")
        return color

    def _hash(self, stmt: m.Hash, scope: Scope) -> None:
        place = self.place(stmt.target, scope)
        base = self.number(stmt.base, scope)
        data = packed([(item.type, self.value(item, scope)) for item in stmt.items])  # type: ignore[misc]
        limit = self.number(stmt.limit, scope)
        assert isinstance(stmt.target.type, Bits)
        value = HASHES[stmt.algorithm](data)
        place.set(of_raw(stmt.target.type, base + value % limit if limit else base))


def find(table: m.Table, entries: Sequence[m.Entry], keys: tuple[int, ...]) -> int | None:
    """Return the index of the entry that wins, None for a miss."""
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
        """Parse; return what follows the headers."""
        scope = block_scope(hdr, meta, std)
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
