"""Constructors of scalar `ir` expressions: they fold constants and drop what has no effect.

Every result is in the range of its type, as P4 defines it (wrap-around for +, -, *, <<).
"""

from __future__ import annotations

from dataclasses import replace

from compiler.bmv2 import ir

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def wrap(value: int, t: ir.ScalarType) -> int:
    """Return `value` brought into the range of `t` (two's complement for `int<w>`)."""
    if t.width == 0:
        return 0
    value &= (1 << t.width) - 1
    if t.signed and value >> (t.width - 1):
        value -= 1 << t.width
    return value


def saturate(value: int, t: ir.ScalarType) -> int:
    """Return `value` clamped to the range of `t`."""
    low, high = limits(t)
    return max(low, min(high, value))


def limits(t: ir.ScalarType) -> tuple[int, int]:
    """Return the smallest and largest value of `t`."""
    if t.signed:
        return -(1 << (t.width - 1)), (1 << (t.width - 1)) - 1
    return 0, (1 << t.width) - 1


def const(value: int, t: ir.ScalarType) -> ir.Const:
    """Return a constant of type `t`, wrapped into its range."""
    return ir.Const(wrap(value, t), t)


def boolean(value: bool) -> ir.Const:
    """Return `true` or `false`."""
    return ir.Const(int(value), ir.BOOL)


TRUE, FALSE = boolean(True), boolean(False)


def binary(op: str, left: ir.Expr, right: ir.Expr, t: ir.ScalarType) -> ir.Expr:
    """Return `left op right` with result type `t`.

    `op` as in P4, `and`/`or` for the logical ones.
    """
    if isinstance(left, ir.Const) and isinstance(right, ir.Const):
        folded = _fold(op, left, right, t)
        if folded is not None:
            return folded
    if op == "and":
        return _logical(left, right, absorbing=FALSE)
    if op == "or":
        return _logical(left, right, absorbing=TRUE)
    if op in ("<<", ">>"):
        return _shift(op, left, right, t)
    if op == "-" and isinstance(right, ir.Const) and not t.signed:
        # BMv2's numbers are unbounded: adding the complement keeps the intermediate positive.
        return binary("+", left, const(-right.value, t), t)
    if isinstance(right, ir.Const) and right.value == 0 and op in ("+", "-", "|", "^"):
        return left
    if isinstance(left, ir.Const) and left.value == 0 and op in ("+", "|", "^"):
        return right
    return ir.Binary(op, left, right, t)


def _logical(left: ir.Expr, right: ir.Expr, absorbing: ir.Const) -> ir.Expr:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ir.Const):
            return absorbing if one.value == absorbing.value else other
    return ir.Binary("or" if absorbing.value else "and", left, right, ir.BOOL)


def _shift(op: str, left: ir.Expr, right: ir.Expr, t: ir.ScalarType) -> ir.Expr:
    if isinstance(right, ir.Const):
        if right.value == 0:
            return left
        if right.value >= t.width:
            if op == "<<" or not t.signed:
                return const(0, t)
            return ir.Binary(op, left, ir.Const(t.width - 1, ir.BIT32), t)
        return ir.Binary(op, left, right, t)
    if right.type.width > 8:
        # A huge shift of an unbounded number would exhaust memory: clamp the amount first.
        width = const(t.width, right.type)
        right = mux(binary("<", right, width, ir.BOOL), right, width)
    return ir.Binary(op, left, right, t)


def _fold(op: str, left: ir.Const, right: ir.Const, t: ir.ScalarType) -> ir.Const | None:
    a, b = left.value, right.value
    match op:
        case "+":
            return const(a + b, t)
        case "-":
            return const(a - b, t)
        case "*":
            return const(a * b, t)
        case "/":
            return const(a // b, t) if b > 0 else None
        case "%":
            return const(a % b, t) if b > 0 else None
        case "|+|":
            return ir.Const(saturate(a + b, t), t)
        case "|-|":
            return ir.Const(saturate(a - b, t), t)
        case "<<":
            return const(a << b if b < t.width else 0, t)
        case ">>":
            return const(a >> b, t)
        case "&":
            return const(a & b, t)
        case "|":
            return const(a | b, t)
        case "^":
            return const(a ^ b, t)
        case "and":
            return boolean(bool(a and b))
        case "or":
            return boolean(bool(a or b))
        case "==":
            return boolean(a == b)
        case "!=":
            return boolean(a != b)
        case "<":
            return boolean(a < b)
        case "<=":
            return boolean(a <= b)
        case ">":
            return boolean(a > b)
        case ">=":
            return boolean(a >= b)
        case _:
            return None


def bounded_index(index: ir.Expr, size: int) -> ir.Expr:
    """Return `index` for a stack of `size`: the last element where it would be outside.

    BMv2 ends with an exception on an index outside of the stack; P4 leaves the value open, and
    such an element reads as an invalid header of zeros, as with p4c.
    """
    if index.type.signed:
        index = convert(index, ir.bit(index.type.width))
    if greatest(index) < size:
        return index
    t = index.type
    cond = binary("<", index, const(size, t), ir.BOOL)
    return ir.Mux(cond, index, const(size - 1, t), t, bounds=True)


def is_inside(index: ir.Expr) -> ir.Expr:
    """Return whether an index made by `bounded_index` was inside."""
    return index.cond if isinstance(index, ir.Mux) and index.bounds else TRUE


def unbounded_index(index: ir.Expr) -> ir.Expr:
    """Undo `bounded_index`: return the index as the program computes it."""
    return index.then if isinstance(index, ir.Mux) and index.bounds else index


def greatest(e: ir.Expr) -> int:
    """Return an upper bound of an unsigned value."""
    match e:
        case ir.Const(value, _):
            return value
        case ir.Convert(operand, t) if not operand.type.signed and not operand.type.is_bool:
            return min(greatest(operand), limits(t)[1])
        case ir.Binary("&", left, right, t) if not t.signed:
            return min(greatest(left), greatest(right))
        case _:
            return limits(e.type)[1]


def negate(operand: ir.Expr) -> ir.Expr:
    """Negate a bool."""
    match operand:
        case ir.Const(value, _):
            return boolean(not value)
        case ir.Unary("not", inner, _):
            return inner
        case _:
            return ir.Unary("not", operand, ir.BOOL)


def complement(operand: ir.Expr) -> ir.Expr:
    """Return `~operand`."""
    if isinstance(operand, ir.Const):
        return const(~operand.value, operand.type)
    return ir.Unary("~", operand, operand.type)


def minus(operand: ir.Expr) -> ir.Expr:
    """Return `-operand`: modulo 2^w for `bit<w>`."""
    zero = ir.Const(0, operand.type)
    if isinstance(operand, ir.Const):
        return const(-operand.value, operand.type)
    return ir.Binary("-", zero, operand, operand.type)


def mux(cond: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    """Return `cond ? then : otherwise`."""
    if isinstance(cond, ir.Const):
        return then if cond.value else otherwise
    if then == otherwise:
        return then
    if then.type.is_bool:
        if then == TRUE and otherwise == FALSE:
            return cond
        if then == FALSE and otherwise == TRUE:
            return negate(cond)
    return ir.Mux(cond, then, otherwise, then.type)


def convert(operand: ir.Expr, t: ir.ScalarType) -> ir.Expr:
    """Return `operand` cast to `t`: numeric types, bool to bit<1> and back."""
    source = operand.type
    if source == t:
        return operand
    if isinstance(operand, ir.Const):
        if t.is_bool:
            return boolean(operand.value != 0)
        return ir.Const(wrap(operand.value, t), t, operand.member)
    if t.is_bool:
        return binary("!=", operand, ir.Const(0, source), ir.BOOL)
    if source.is_bool:
        return mux(operand, const(1, t), const(0, t))
    if isinstance(operand, ir.Convert) and not source.signed and source.width >= t.width:
        # a narrowing of a conversion: only the last one counts
        inner = operand.operand
        if not inner.type.is_bool and inner.type.width >= t.width:
            return convert(inner, t) if inner.type != t else inner
    return ir.Convert(operand, t)


def same_number(e: ir.Expr) -> ir.Expr:
    """Return `e` without conversions that leave every number as it is (widenings)."""
    while isinstance(e, ir.Convert) and is_widening(e.operand.type, e.type):
        e = e.operand
    return e


def is_widening(source: ir.ScalarType, t: ir.ScalarType) -> bool:
    """Return whether every value of `source` is a value of `t`."""
    if source.is_bool or t.is_bool:
        return source == t
    if source.signed:
        return t.signed and t.width >= source.width
    return t.width > source.width if t.signed else t.width >= source.width


def slice_bits(operand: ir.Expr, high: int, low: int) -> ir.Expr:
    """Return `operand[high:low]`, of type bit<high - low + 1>."""
    t = ir.bit(high - low + 1)
    if isinstance(operand, ir.Const):
        return const(operand.value >> low, t)
    if low == 0 and operand.type == t:
        return operand
    shifted = binary(">>", operand, ir.Const(low, ir.BIT32), operand.type)
    return convert(shifted, t)


def concat(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Return `left ++ right`, of left's signedness."""
    width = left.type.width + right.type.width
    t = replace(left.type, width=width)
    if left.type.width == 0:
        return convert(right, t)
    if right.type.width == 0:
        return left
    low = convert(convert(right, ir.bit(right.type.width)), t)
    high = binary("<<", convert(left, t), ir.Const(right.type.width, ir.BIT32), t)
    return binary("|", high, low, t)


def insert_bits(base: ir.Expr, high: int, low: int, value: ir.Expr) -> ir.Expr:
    """Return `base` with bits high..low replaced by `value` (of high - low + 1 bits)."""
    t = base.type
    unsigned = ir.bit(t.width)
    mask = ((1 << (high - low + 1)) - 1) << low
    kept = binary("&", convert(base, unsigned), const(~mask, unsigned), unsigned)
    moved = binary("<<", convert(value, unsigned), ir.Const(low, ir.BIT32), unsigned)
    return convert(binary("|", kept, moved, unsigned), t)
