"""Lowering of parsers: states, extract, lookahead, select with masks and ranges."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.bmv2 import ir
from compiler.bmv2.layout import unique
from compiler.bmv2.lower_frame import Frame
from compiler.bmv2.lower_stmt import StmtLowering
from compiler.bmv2.places import (
    NO_BITS,
    SCALARS,
    ElementPlace,
    HeaderPlace,
    HeaderValue,
    NextPlace,
    StackValue,
    StructValue,
    Unset,
    Value,
    has_no_bits,
    scalar_type,
)
from compiler.errors import CompileError, NotSupported, Pos
from compiler.syntax import ast
from compiler.types import types as ty

RANGE_CASE_LIMIT = 512


class BodyLowering(StmtLowering):
    """The complete lowering of a body: statements, and what only parsers have."""

    def applied(self, call: ast.Call) -> tuple[ast.ControlDecl, BodyLowering]:
        """Return the control that `call` applies, and its lowering with arguments in place of
        names.

        For places that take no code: nothing can be assigned there, so nothing is copied.
        """
        instance = self._callee(call)
        decl = instance.decl
        assert isinstance(decl, ast.ControlDecl)
        frame = Frame(instance, caller=self.frame)
        for param, value in zip(decl.params, self._arguments(call.binding), strict=True):
            frame.values[id(param)] = value
        return decl, BodyLowering(self.program, self.code, frame)

    # ------------------------------------------------------------ packets

    def extract(self, call: ast.Call) -> None:
        """Lower `packet.extract(header)` and `packet.extract(header, varbit size)`."""
        self._require_parser(call)
        target = self.lower(_argument(call, 0))
        length = self.scalar(_argument(call, 1)) if _argument_count(call) > 1 else None
        match target:
            case HeaderPlace(name, _):
                op = ir.Extract("regular", name, call.pos, length=length)
            case NextPlace(stack, None):
                op = ir.Extract("stack", stack.name, call.pos, length=length)
            case NextPlace(stack, member):
                op = ir.Extract("union_stack", stack.name, call.pos, member, length)
            case Unset():
                self._skip(call)
                return
            case ElementPlace():
                self._extract_element(call, target, length)
                return
            case _:
                raise NotSupported.at(call.pos, "extract into this expression")
        self.code.emit(op)

    def _extract_element(
        self, call: ast.Call, target: ElementPlace, length: ir.Expr | None
    ) -> None:
        """Extract into a stack at a run-time index: BMv2 has no such operation."""
        place = self.fixed(target, call.pos)
        header = self.program.layout.local("tmp", target.type, call.pos)
        assert isinstance(header, HeaderPlace)
        self.code.emit(ir.Extract("regular", header.name, call.pos, length=length))
        self.assign(place, header, call.pos)

    def _skip(self, call: ast.Call) -> None:
        """Lower `extract<T>(_)`: the bits are skipped."""
        width = ty.width_of(self.type_in(call.binding[0].param.type))
        if width is None:
            raise NotSupported.at(call.pos, "extract(_) of a header without a fixed size")
        self.code.emit(ir.Advance(ir.Const(width, ir.BIT32), call.pos))

    def lookahead(self, call: ast.Call) -> Value:
        """Lower `packet.lookahead<T>()`, read now, into temporaries."""
        self._require_parser(call)
        t = self.type_of(call)
        total = ty.width_of(t)
        if total and scalar_type(t) is None:
            # BMv2 compares the packet's length with a value's width, wherever the value begins:
            # only one look at everything notices that the packet is too short.
            whole = ir.bit(total)
            place = self.program.layout.scalar("tmp", whole)
            self.code.emit(ir.Op("assign", (place, ir.Lookahead(0, whole)), call.pos))
        value, _ = self._look(t, 0, call.pos)
        return value

    def _look(self, t: ty.Type, offset: int, pos: Pos) -> tuple[Value, int]:
        """Return the value of type `t` at `offset` bits after the cursor, and the offset after
        it.
        """
        scalar = scalar_type(t)
        if scalar is not None:
            if scalar.kind is ir.Kind.VARBIT:
                raise CompileError.at(pos, "lookahead of a varbit")
            if has_no_bits(scalar):
                return NO_BITS, offset
            raw = ir.bit(scalar.width)
            place = self.program.layout.scalar("tmp", scalar)
            self.code.emit(ir.Op("assign", (place, ir.Lookahead(offset, raw)), pos))
            return place, offset + scalar.width
        match t:
            case ty.Struct(fields=fields) | ty.Header(fields=fields):
                values: dict[str, Value] = {}
                for f in fields:
                    values[f.name], offset = self._look(f.type, offset, pos)
                if isinstance(t, ty.Header):
                    return HeaderValue(t, values), offset
                return StructValue(values), offset
            case ty.Stack(element=ty.Header() as header_type, size=size):
                headers: list[Value] = []
                for _ in range(size):
                    header, offset = self._look(header_type, offset, pos)
                    headers.append(header)
                return StackValue(tuple(headers)), offset
            case ty.Tuple(elements=elements):
                parts: dict[str, Value] = {}
                for i, element in enumerate(elements):
                    parts[str(i)], offset = self._look(element, offset, pos)
                return StructValue(parts), offset
            case _:
                raise NotSupported.at(pos, f"lookahead of {t}")

    # ------------------------------------------------------------ states

    def parser_states(self, decl: ast.ParserDecl, accept: ir.Block, prefix: str) -> None:
        """Go to the start state and write all states; `accept` is where `accept` leads."""
        blocks: dict[str, ir.Block] = {}
        for state in decl.states:
            if state.name in ("accept", "reject"):
                continue
            name = unique(prefix + state.name, self.program.state_names)
            blocks[state.name] = ir.Block(state.pos, name)
        if "start" not in blocks:
            raise CompileError.at(decl.pos, f"parser {decl.name} has no start state")
        reject = ir.Block(decl.pos, end=ir.Stop(reject=True))
        blocks |= {"accept": accept, "reject": reject}
        self.code.goto(blocks["start"])
        for state in decl.states:
            if state.name in ("accept", "reject"):
                continue
            self.code.force_start(blocks[state.name])
            for stmt in state.statements:
                self.statement(stmt)
            self._transition(state, blocks)

    def _transition(self, state: ast.ParserState, blocks: dict[str, ir.Block]) -> None:
        if self.code.current is None:
            return
        match state.transition:
            case None:
                self._warn_reject(state.pos)
                self.code.goto(blocks["reject"])
            case ast.Name() as target:
                if target.name == "reject":
                    self._warn_reject(target.pos)
                self.code.goto(blocks[target.name])
            case ast.Select() as select:
                self._select(select, blocks)

    def _warn_reject(self, pos: Pos) -> None:
        text = "BMv2 has no reject: a transition to it accepts the packet"
        self.program.warn(pos, text, "unsupported", back_end=True)

    def _select(self, select: ast.Select, blocks: dict[str, ir.Block]) -> None:
        keys: list[ir.Expr] = []
        values = self.operands(select.exprs)
        for expr, value in zip(select.exprs, values, strict=True):
            for leaf in _flat(value, expr.pos):
                simple = isinstance(leaf, ir.Field | ir.LastField)
                keys.append(leaf if simple else self.to_temporary(leaf, expr.pos))
        cases: list[ir.SelectTarget] = []
        for case in select.cases:
            if case.target.name == "reject":
                self._warn_reject(case.target.pos)
            cases.extend(self._select_case(case, keys, blocks[case.target.name]))
        self.code.terminate(ir.Select(keys, cases, select.pos))

    def _select_case(
        self, case: ast.SelectCase, keys: Sequence[ir.Expr], target: ir.Block
    ) -> list[ir.SelectTarget]:
        if len(case.keysets) == 1:
            only = case.keysets[0]
            if isinstance(only, ast.DefaultKey | ast.Wildcard):
                return [ir.SelectTarget((), target)]
            if isinstance(only, ast.Name) and isinstance(only.decl, ast.ValueSetDecl):
                name = self.program.value_set_name(only.decl, self.frame)
                return [ir.SelectTarget((), target, name)]
        columns: list[list[ir.Match]] = []
        for keyset in case.keysets:
            if isinstance(keyset, ast.Name) and isinstance(keyset.decl, ast.ValueSetDecl):
                raise NotSupported.at(keyset.pos, "a value set beside other keys of a select")
            key = keys[len(columns)]
            if isinstance(keyset, ast.ListExpr):
                columns.extend(
                    self.keyset(e, keys[len(columns) + i].type)
                    for i, e in enumerate(keyset.elements)
                )
            else:
                columns.append(self.keyset(keyset, key.type))
        rows: list[tuple[ir.Match, ...]] = [()]
        for column in columns:
            rows = [(*row, match) for row in rows for match in column]
            if len(rows) > RANGE_CASE_LIMIT:
                raise NotSupported.at(
                    case.pos, f"ranges that need more than {RANGE_CASE_LIMIT} masked cases"
                )
        return [ir.SelectTarget(row, target) for row in rows]

    def keyset(self, expr: ast.Expr, t: ir.ScalarType) -> list[ir.Match]:
        """Return the value/mask pairs that a keyset stands for."""
        full = (1 << t.width) - 1
        match expr:
            case ast.DefaultKey() | ast.Wildcard():
                return [ir.Match(0, 0)]
            case ast.Mask(value=value, mask=mask):
                bits = self.constant(mask).value & full
                number = self.constant(value).value & bits
                return [ir.Match(number, None if bits == full else bits)]
            case ast.Range(low=low, high=high):
                return cover(self.constant(low).value, self.constant(high).value, t)
            case _:
                return [ir.Match(self.constant(expr).value & full, None)]


def cover(low: int, high: int, t: ir.ScalarType) -> list[ir.Match]:
    """Return the fewest value/mask pairs that match exactly the numbers low..high of type `t`.

    Empty for an empty range, of which the checker has warned.
    """
    if low > high:
        return []
    full = (1 << t.width) - 1
    if low < 0:  # negative numbers stand behind the others in two's complement
        negative = ir.bit(t.width)
        below = cover(low & full, min(high, -1) & full, negative)
        return below + (cover(0, high, t) if high >= 0 else [])
    result: list[ir.Match] = []
    while low <= high:
        size = low & -low if low else 1 << t.width
        while low + size - 1 > high:
            size >>= 1
        mask = full & ~(size - 1)
        result.append(ir.Match(low, None if mask == full else mask))
        low += size
    return result


def _flat(value: Value, pos: Pos) -> list[ir.Expr]:
    if isinstance(value, SCALARS):
        return [value]
    if isinstance(value, StructValue):
        return [leaf for v in value.fields.values() for leaf in _flat(v, pos)]
    raise NotSupported.at(pos, "this value in a select")


def _argument(call: ast.Call, index: int) -> ast.Expr:
    if call.binding:
        arg = call.binding[index].arg
        assert arg is not None
        return arg
    return call.args[index].value


def _argument_count(call: ast.Call) -> int:
    return len(call.binding) or len(call.args)
