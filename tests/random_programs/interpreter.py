"""Runs statements and expressions of a made program, as the P4_16 specification has them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.random_programs import model as m
from tests.random_programs.types import BOOL, Bits, Struct, Type, width_of
from tests.random_programs.values import (
    UNDEFINED,
    HeaderValue,
    StackValue,
    StructValue,
    Undefined,
    UnionValue,
    Value,
    binary,
    cast,
    copy,
    equal,
    fresh,
    of_raw,
    raw,
    wrap,
)

MOST_STEPS = 20_000
Holder = StructValue | HeaderValue | UnionValue | StackValue


class Jumped(Exception):
    """`exit`, `return`, `break` or `continue` on its way."""

    def __init__(self, word: str, value: Value | None = None) -> None:
        super().__init__(word)
        self.word, self.value = word, value


@dataclass(slots=True)
class Place:
    """Something that can be read and assigned to."""

    get: Callable[[], Value]
    set: Callable[[Value], None]


class Scope:
    """Variables by name, innermost first."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.own: dict[str, Value] = {}

    def holder(self, name: str) -> dict[str, Value]:
        """Return the scope's part that has the name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.own:
                return scope.own
            scope = scope.outer
        raise KeyError(name)


class Interpreter:
    """One block (a parser or a control) of a program, with what its code may call."""

    def __init__(
        self, functions: Iterable[m.Function], actions: Iterable[m.Function], outer: Scope
    ) -> None:
        self.functions = {function.name: function for function in functions}
        self.actions = {action.name: action for action in actions}
        self.outer = outer
        self.steps = 0

    # --- what a control or parser adds ----------------------------------------------------------

    def apply(self, table: str, scope: Scope) -> tuple[bool, str]:
        """Apply a table: whether it hit, and the action's name."""
        raise NotImplementedError

    def extern(self, stmt: m.Stmt, scope: Scope) -> None:
        """Run a statement that only this kind of block has."""
        raise NotImplementedError

    def lookahead(self, type_: Type) -> Value:
        """Bits ahead, in a parser."""
        raise NotImplementedError

    # --- expressions ----------------------------------------------------------------------------

    def value(self, node: m.Expr, scope: Scope) -> Value:
        """Evaluate an expression; UNDEFINED only where a variable was copied as it is."""
        match node:
            case m.Lit(value=value):
                return value
            case m.Var() | m.Field() | m.Index():
                return self.place(node, scope).get()
            case m.Slice(base=base, high=high, low=low):
                bits = raw(base.type, self.value(base, scope))  # type: ignore[arg-type]
                return (bits >> low) & ((1 << (high - low + 1)) - 1)
            case m.Unary():
                return self._unary(node, scope)
            case m.Binary():
                return self._binary(node, scope)
            case m.Cast(type=type_, operand=operand):
                of = operand.type
                assert of is not None
                return cast(type_, of, self.value(operand, scope))
            case m.Mux(condition=condition, yes=yes, no=no):
                return self.value(yes if self.truth(condition, scope) else no, scope)
            case m.Call():
                result = self.call(node, scope)
                assert result is not None
                return result
            case m.IsValid(header=header):
                return _is_valid(self.place(header, scope).get())
            case m.Hit(table=table, miss=miss):
                return self.apply(table, scope)[0] != miss
            case m.Tuple(type=type_, items=items):
                assert isinstance(type_, Struct)
                values = [copy(self.value(item, scope)) for item in items]
                fields = dict(zip((name for name, _ in type_.fields), values, strict=True))
                if type_.kind == "header":
                    return HeaderValue(type_, fields, True)
                return StructValue(type_, fields)
            case m.Lookahead(type=type_):
                return self.lookahead(type_)

    def number(self, node: m.Expr, scope: Scope) -> int:
        """Return a defined leaf's bits."""
        assert node.type is not None
        return raw(node.type, self.value(node, scope))

    def truth(self, node: m.Expr, scope: Scope) -> bool:
        """Evaluate a defined condition."""
        value = self.value(node, scope)
        if value is UNDEFINED:
            raise Undefined
        assert isinstance(value, bool)
        return value

    def _unary(self, node: m.Unary, scope: Scope) -> Value:
        if node.op == "!":
            return not self.truth(node.operand, scope)
        value = self.value(node.operand, scope)
        if value is UNDEFINED:
            raise Undefined
        assert isinstance(value, int) and isinstance(node.type, Bits)
        return wrap(node.type, -value if node.op == "-" else ~value)

    def _binary(self, node: m.Binary, scope: Scope) -> Value:
        if node.op in ("&&", "||"):
            if self.truth(node.left, scope) != (node.op == "&&"):
                return node.op == "||"
            return self.truth(node.right, scope)
        left, right = copy(self.value(node.left, scope)), self.value(node.right, scope)
        of, right_of = node.left.type, node.right.type
        assert of is not None and right_of is not None
        if node.op in ("==", "!="):
            return equal(left, right) == (node.op == "==")
        if left is UNDEFINED or right is UNDEFINED:
            raise Undefined
        return binary(node.op, node.type, of, left, right, right_of)

    # --- places ---------------------------------------------------------------------------------

    def place(self, node: m.Expr, scope: Scope) -> Place:
        """Where an expression's value is kept; index expressions are evaluated here, once."""
        match node:
            case m.Var(name=name):
                holder = scope.holder(name)
                return Place(lambda: holder[name], lambda value: _put(holder, name, value))
            case m.Field(base=base, name=name):
                return _member(self.place(base, scope).get(), name)
            case m.Index(base=base, index=index):
                stack = self.place(base, scope).get()
                at = self.number(index, scope)
                assert isinstance(stack, StackValue)
                if at >= len(stack.items):
                    raise Undefined
                return Place(lambda: stack.items[at], lambda value: _fill(stack.items[at], value))
            case m.Slice():
                return self._slice(node, scope)
        raise TypeError(f"can't assign to {node}")

    def _slice(self, node: m.Slice, scope: Scope) -> Place:
        whole = self.place(node.base, scope)
        of, mask = node.base.type, ((1 << (node.high - node.low + 1)) - 1) << node.low
        assert of is not None

        def get() -> Value:
            return (raw(of, whole.get()) & mask) >> node.low

        def put(value: Value) -> None:
            old = whole.get()
            if old is UNDEFINED or value is UNDEFINED:
                return whole.set(UNDEFINED)
            bits = raw(of, old) & ~mask | (raw(Bits(width_of(of)), value) << node.low) & mask
            return whole.set(of_raw(of, bits))

        return Place(get, put)

    # --- calls ----------------------------------------------------------------------------------

    def call(self, call: m.Call, scope: Scope, args: Sequence[int] = ()) -> Value | None:
        """Call a function or an action: copy in, run, copy out; `args`: the control plane's."""
        function = self.functions.get(call.name) or self.actions[call.name]
        inner = Scope(self.outer)
        back: list[tuple[str, Place]] = []
        rest = [m.Lit(BOOL, False)] * (len(function.params) - len(call.args))
        for param, arg in zip(function.params, [*call.args, *rest], strict=True):
            if param.direction in ("out", "inout"):
                place = self.place(arg, scope)
                back.append((param.name, place))
                inner.own[param.name] = (
                    copy(place.get()) if param.direction == "inout" else fresh(param.type)
                )
            elif len(inner.own) < len(call.args):
                inner.own[param.name] = copy(self.value(arg, scope))
            else:
                given = args[len(inner.own) - len(call.args)]
                inner.own[param.name] = of_raw(param.type, given)
        result: Value | None = None
        jump: Jumped | None = None
        try:
            self.run(function.body, inner)
        except Jumped as jumped:
            if jumped.word == "return":
                result = jumped.value
            else:
                jump = jumped
        for name, place in back:
            place.set(copy(inner.own[name]))
        if jump is not None:
            raise jump
        return result

    # --- statements -----------------------------------------------------------------------------

    def run(self, body: Sequence[m.Stmt], scope: Scope) -> None:
        """Run statements in a scope of their own. Raises Jumped, Undefined."""
        inner = Scope(scope)
        for stmt in body:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Undefined
            self._run(stmt, inner)

    def _run(self, stmt: m.Stmt, scope: Scope) -> None:
        match stmt:
            case m.Declare(name=name, type=type_, value=value):
                made = fresh(type_) if value is None else copy(self.value(value, scope))
                scope.own[name] = made
            case m.Assign():
                self._assign(stmt, scope)
            case m.If(condition=condition, yes=yes, no=no):
                self.run(yes if self.truth(condition, scope) else no, scope)
            case m.Switch():
                self._switch(stmt, scope)
            case m.CallStmt(call=call):
                self.call(call, scope)
            case m.Apply(table=table):
                self.apply(table, scope)
            case m.SetValidity(header=header, valid=valid):
                self._set_validity(header, valid, scope)
            case m.Push(stack=stack, count=count):
                value = self.place(stack, scope).get()
                assert isinstance(value, StackValue)
                _push(value, count)
            case m.For():
                self._for(stmt, scope)
            case m.Jump(word=word, value=None):
                raise Jumped(word)
            case m.Jump(word=word, value=value) if value is not None:
                raise Jumped(word, copy(self.value(value, scope)))
            case _:
                self.extern(stmt, scope)

    def _assign(self, stmt: m.Assign, scope: Scope) -> None:
        if not stmt.op:
            # The place first: P4 evaluates an assignment's left side before its right side.
            place = self.place(stmt.target, scope)
            place.set(copy(self.value(stmt.value, scope)))
            return
        of = stmt.target.type
        assert of is not None and stmt.value.type is not None
        place = self.place(stmt.target, scope)
        right = self.value(stmt.value, scope)
        left = place.get()
        if left is UNDEFINED or right is UNDEFINED:
            raise Undefined
        place.set(binary(stmt.op, of, of, left, right, stmt.value.type))

    def _switch(self, stmt: m.Switch, scope: Scope) -> None:
        if stmt.value is None:
            subject: Value = self.apply(stmt.table, scope)[1]
        else:
            subject = self.value(stmt.value, scope)
            if subject is UNDEFINED:
                raise Undefined
        for at, case in enumerate(stmt.cases):
            if subject in case.labels or None in case.labels:
                body = next((c.body for c in stmt.cases[at:] if c.body is not None), [])
                self.run(body, scope)
                return

    def _for(self, stmt: m.For, scope: Scope) -> None:
        loop = Scope(scope)
        for at in range(stmt.low, stmt.high + 1):
            loop.own[stmt.name] = at
            try:
                self.run(stmt.body, loop)
            except Jumped as jumped:
                if jumped.word == "break":
                    return
                if jumped.word != "continue":
                    raise

    def _set_validity(self, node: m.Expr, valid: bool, scope: Scope) -> None:
        header = self.place(node, scope).get()
        assert isinstance(header, HeaderValue)
        if valid and not header.valid:
            header.fields.update({name: fresh(of) for name, of in header.type.fields})
        if isinstance(node, m.Field) and valid:
            union = self.place(node.base, scope).get()
            if isinstance(union, UnionValue):
                _only(union, node.name)
        header.valid = valid


def _put(holder: dict[str, Value], name: str, value: Value) -> None:
    """Assign to a variable; a header or struct stays the same object."""
    old = holder[name]
    if isinstance(old, Holder):
        _fill(old, value)
    else:
        holder[name] = value


def _fill(old: Value, value: Value) -> None:
    """Make a struct, header, union or stack the same as another."""
    match old, value:
        case (StructValue(), StructValue()) | (UnionValue(), UnionValue()):
            for name in old.fields:
                if isinstance(old.fields[name], Holder):
                    _fill(old.fields[name], value.fields[name])
                else:
                    old.fields[name] = value.fields[name]  # type: ignore[assignment]
        case HeaderValue(), HeaderValue():
            old.valid = value.valid
            old.fields.update(value.fields)
        case StackValue(), StackValue():
            old.next = value.next
            for mine, other in zip(old.items, value.items, strict=True):
                _fill(mine, other)
        case _:
            raise TypeError(f"can't fill {old} from {value}")


def _member(base: Value, name: str) -> Place:
    match base:
        case StructValue(fields=fields):
            return Place(lambda: fields[name], lambda value: _put(fields, name, value))
        case HeaderValue():

            def write(value: Value) -> None:
                if base.valid:
                    base.fields[name] = value

            return Place(lambda: base.fields[name] if base.valid else UNDEFINED, write)
        case UnionValue():

            def put(value: Value) -> None:
                assert isinstance(value, HeaderValue)
                if value.valid:
                    _only(base, name)
                _fill(base.fields[name], value)

            return Place(lambda: base.fields[name], put)
        case StackValue() if name == "last":
            if not base.next:
                raise Undefined
            item = base.items[base.next - 1]
            return Place(lambda: item, lambda value: _fill(item, value))
        case StackValue(next=at) if name == "lastIndex":
            if not at:
                raise Undefined
            return Place(lambda: at - 1, lambda _value: None)
    raise TypeError(f"{base} has no member {name}")


def _only(union: UnionValue, name: str) -> None:
    for other, header in union.fields.items():
        if other != name:
            header.valid = False


def _is_valid(value: Value) -> bool:
    match value:
        case HeaderValue(valid=valid):
            return valid
        case UnionValue(fields=fields):
            return any(header.valid for header in fields.values())
    raise TypeError(f"{value} has no validity")


def _push(stack: StackValue, count: int) -> None:
    size, element = stack.type.size, stack.type.element
    moved: list[HeaderValue] = []
    for at in range(size):
        source = at - count
        inside = 0 <= source < size
        item = copy(stack.items[source]) if inside else fresh(element)
        assert isinstance(item, HeaderValue)
        moved.append(item)
    for item, other in zip(stack.items, moved, strict=True):
        _fill(item, other)
    stack.next = max(0, min(size, stack.next + count))


# --- hashes ---------------------------------------------------------------------------------------


def packed(items: Iterable[tuple[Type, Value]]) -> bytes:
    """Leaves one after another, as bytes; what is missing of the last one is zero."""
    value = width = 0
    for type_, leaf in items:
        bits = width_of(type_)
        value, width = value << bits | raw(type_, leaf), width + bits
    pad = -width % 8
    return (value << pad).to_bytes((width + pad) // 8, "big")


def csum16(data: bytes) -> int:
    """Return the Internet checksum."""
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc16(data: bytes) -> int:
    """CRC-16/ARC."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def xor16(data: bytes) -> int:
    """Return the 16-bit words, one upon the other."""
    data += bytes(len(data) % 2)
    total = 0
    for at in range(0, len(data), 2):
        total ^= int.from_bytes(data[at : at + 2], "big")
    return total


HASHES: Mapping[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc16": crc16,
    "csum16": csum16,
    "xor16": xor16,
    "identity": lambda data: int.from_bytes(data[-8:], "big"),
}
