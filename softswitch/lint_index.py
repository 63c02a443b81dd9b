"""What can be shown of a register's index: that no two egress ports have a cell in common.

A value is described as multiplier * port + x, with x between two bounds. Ports have cells of their
own where the bounds lie closer together than the multiplier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softswitch.codegen.expressions import Argument, Const, FieldRef, Op

EGRESS_PORT = "egress_port"  # the member of struct wp_std
_MAX_PORT = (1 << 9) - 1


@dataclass(frozen=True)
class Range:
    """multiplier * port + x, low <= x <= high, nothing below 0."""

    multiplier: int
    low: int
    high: int

    @property
    def largest(self) -> int:
        """The largest value that it can be."""
        return self.multiplier * _MAX_PORT + self.high

    @property
    def constant(self) -> int | None:
        """The value, where there is only one."""
        return self.low if self.multiplier == 0 and self.low == self.high else None


def is_one_ports(found: Range | None) -> bool:
    """Say whether two ports never have the same value."""
    return found is not None and found.high - found.low < found.multiplier


def range_of(value: Argument, of_field: Callable[[FieldRef], Range | None]) -> Range | None:
    """Return what is known of an expression; None: nothing. `of_field` says what fields hold."""
    match value:
        case Const(number) if number >= 0:
            return Range(0, number, number)
        case FieldRef():
            return of_field(value)
        case Op(op, left, right) if left is not None:
            a, b = range_of(left, of_field), range_of(right, of_field)
            if op == "&":
                return _masked(a, b)
            return _combined(op, a, b) if a is not None and b is not None else None
    return None


def _combined(op: str, a: Range, b: Range) -> Range | None:
    match op:
        case "+":
            return Range(a.multiplier + b.multiplier, a.low + b.low, a.high + b.high)
        case "*":
            if a.constant is not None:
                a, b = b, a
            factor = b.constant
            if factor is None:
                return None
            return Range(a.multiplier * factor, a.low * factor, a.high * factor)
        case "<<":
            if b.constant is None or b.constant > 64:
                return None
            return _combined("*", a, Range(0, 1 << b.constant, 1 << b.constant))
        case "|":
            if a.constant is not None or b.multiplier:
                a, b = b, a
            # Bits that do not overlap add up: a is a multiple of a power of two above all of b.
            clear = a.multiplier & -a.multiplier
            if b.multiplier == 0 and a.low == a.high == 0 and clear > b.high:
                return Range(a.multiplier, b.low, b.high)
    return None


def _masked(a: Range | None, b: Range | None) -> Range | None:
    """Return a & b, of which one is a mask of low bits: how p4c writes a width."""
    if a is not None and a.constant is not None:
        a, b = b, a
    mask = b.constant if b is not None else None
    if mask is None:
        return None
    if mask & (mask + 1) == 0 and a is not None and a.largest <= mask:
        return a
    return Range(0, 0, mask)
