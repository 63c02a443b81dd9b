"""Arithmetic on compile-time values, as P4_16 defines it (spec sections 8.5 - 8.9).

Values are Python ints (exact, any width) and bools. A value of type `bit<w>` is kept in
0 .. 2**w - 1, of `int<w>` in -2**(w-1) .. 2**(w-1) - 1, of `int` as it is.
"""

from __future__ import annotations

from compiler.syntax.ast import BinaryOp, UnaryOp
from compiler.types import types as ty

# Larger shifts of `int` constants would only exhaust memory.
MAX_INT_SHIFT = 1 << 16


class ConstantError(ValueError):
    """The operation has no value; `str(e)` says why."""


def limits(t: ty.Type) -> tuple[int, int] | None:
    """Return the smallest and largest value of a sized number type; None for others."""
    match t:
        case ty.Bit(width):
            return 0, (1 << width) - 1
        case ty.Int(width):
            return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if width else (0, 0)
        case _:
            return None


def wrap(value: int, t: ty.Type) -> int:
    """Return `value` modulo the range of `t`: what a cast to `t` gives."""
    match t:
        case ty.Bit(width):
            return value & ((1 << width) - 1)
        case ty.Int(width):
            if width == 0:
                return 0
            value &= (1 << width) - 1
            return value - (1 << width) if value >> (width - 1) else value
        case _:
            return value


def saturate(value: int, t: ty.Type) -> int:
    """Return the value of `t` nearest to `value`."""
    bounds = limits(t)
    return value if bounds is None else max(bounds[0], min(bounds[1], value))


def unary(op: UnaryOp, value: int | bool, t: ty.Type) -> int | bool:
    """Return the value of `op value`, of type `t`."""
    match op:
        case UnaryOp.NOT:
            return not value
        case UnaryOp.COMPLEMENT:
            return wrap(~int(value), t)
        case UnaryOp.MINUS:
            return wrap(-int(value), t)
        case UnaryOp.PLUS:
            return value


def compare(op: BinaryOp, left: int | bool | str, right: int | bool | str) -> bool | None:
    """Return the value of a comparison; None where `op` is none or the operands have no order."""
    if op is BinaryOp.EQ:
        return left == right
    if op is BinaryOp.NE:
        return left != right
    if isinstance(left, str) or isinstance(right, str):
        return None
    match op:
        case BinaryOp.LT:
            return left < right
        case BinaryOp.LE:
            return left <= right
        case BinaryOp.GT:
            return left > right
        case BinaryOp.GE:
            return left >= right
        case _:
            return None


def arithmetic(op: BinaryOp, left: int, right: int, t: ty.Type) -> int:
    """Return the value of `left op right` of type `t` (the left operand's type for shifts).

    Not for `++`, comparisons and logic. Raises `ConstantError` for division by zero, negative
    operands of `/` and `%`, negative shift distances and absurd shifts of `int`.
    """
    match op:
        case BinaryOp.ADD:
            return wrap(left + right, t)
        case BinaryOp.SUB:
            return wrap(left - right, t)
        case BinaryOp.MUL:
            return wrap(left * right, t)
        case BinaryOp.ADD_SAT:
            return saturate(left + right, t)
        case BinaryOp.SUB_SAT:
            return saturate(left - right, t)
        case BinaryOp.DIV | BinaryOp.MOD:
            return wrap(_divide(op, left, right), t)
        case BinaryOp.BIT_AND:
            return wrap(left & right, t)
        case BinaryOp.BIT_OR:
            return wrap(left | right, t)
        case BinaryOp.BIT_XOR:
            return wrap(left ^ right, t)
        case BinaryOp.SHL | BinaryOp.SHR:
            return _shift(op, left, right, t)
        case _:
            raise ConstantError(f'"{op.value}" is no arithmetic operation')


def _divide(op: BinaryOp, left: int, right: int) -> int:
    if right == 0:
        raise ConstantError("division by zero")
    if left < 0 or right < 0:
        raise ConstantError(f'"{op.value}" is not defined for negative numbers')
    return left // right if op is BinaryOp.DIV else left % right


def _shift(op: BinaryOp, left: int, right: int, t: ty.Type) -> int:
    if right < 0:
        raise ConstantError(f"shift by a negative number ({right})")
    if op is BinaryOp.SHR:
        return left >> min(right, max(left.bit_length(), 1))
    width = ty.width_of(t)
    if width is not None:
        return wrap(left << min(right, width), t)
    if right > MAX_INT_SHIFT:
        raise ConstantError(f"shift by {right} is too large")
    return left << right


def concat(left: int, left_type: ty.Type, right: int, right_type: ty.Type) -> int:
    """Return the value of `left ++ right`; both types are sized."""
    left_width, right_width = ty.width_of(left_type) or 0, ty.width_of(right_type) or 0
    raw = (left & ((1 << left_width) - 1)) << right_width | (right & ((1 << right_width) - 1))
    total = left_width + right_width
    return wrap(raw, ty.Int(total) if isinstance(left_type, ty.Int) else ty.Bit(total))


def slice_bits(value: int, hi: int, lo: int) -> int:
    """Return the value of `value[hi:lo]`, unsigned."""
    return (value >> lo) & ((1 << (hi - lo + 1)) - 1)
