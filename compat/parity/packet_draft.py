"""A packet in the making: bits, the headers that the parser would find in them, and expressions.

Bits are appended as the parser asks for them. Those that a decision was made about stay as they
are; others are filled by chance. Expressions are evaluated on what is known so far.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.expressions import (
    BoolConst,
    Const,
    Expr,
    FieldRef,
    LastField,
    Lookahead,
    Op,
    Ternary,
)
from softswitch.codegen.model import Bmv2Program, HeaderType

Location = tuple[int, int]
"""(offset, bits) in the packet."""

MOST_SHIFT = 1 << 16


class Draft:
    """One packet. `cursor` is how far the parser is, in bits."""

    def __init__(self, program: Bmv2Program) -> None:
        self.program = program
        self.cursor = 0
        self.metadata: dict[FieldRef, int] = {}
        self._bits = 0
        self._length = 0
        self._fixed = 0  # bit i from the left at (1 << i): a decision was made about it
        self._places: dict[str, dict[str, Location]] = {}
        self._types: dict[str, HeaderType] = {}
        self._alias: dict[FieldRef, Location] = {}
        self._next: dict[str, int] = {}

    # --- bits -----------------------------------------------------------------------------------

    def read(self, at: Location) -> int | None:
        """Return the bits at a location, None when they are not there yet."""
        offset, bits = at
        if offset + bits > self._length:
            return None
        return (self._bits >> (self._length - offset - bits)) & ((1 << bits) - 1)

    def write(self, at: Location, value: int) -> None:
        """Decide about bits; bits between the packet's end and them become 0 for the time being."""
        offset, bits = at
        self._extend(offset + bits)
        shift = self._length - offset - bits
        mask = ((1 << bits) - 1) << shift
        self._bits = (self._bits & ~mask) | ((value << shift) & mask)
        self._fixed |= ((1 << bits) - 1) << offset

    def fill(self, at: Location, value: int) -> None:
        """Write a value as `write` does, but keep decided bits, and leave the new ones
        undecided.
        """
        offset, bits = at
        self._extend(offset + bits)
        shift = self._length - offset - bits
        decided = (self._fixed >> offset) & ((1 << bits) - 1)
        open_bits = ~int(f"{decided:0{bits}b}"[::-1], 2) if bits else 0
        mask = (open_bits & ((1 << bits) - 1)) << shift
        self._bits = (self._bits & ~mask) | ((value << shift) & mask)

    def _extend(self, length: int) -> None:
        if length > self._length:
            self._bits <<= length - self._length
            self._length = length

    def to_bytes(self) -> bytes:
        """Return the packet, its last byte padded with zeros."""
        size = (self._length + 7) // 8
        return (self._bits << (8 * size - self._length)).to_bytes(size, "big")

    # --- headers --------------------------------------------------------------------------------

    def place(self, header: str, of: HeaderType, varbits: int = 0) -> dict[str, Location]:
        """Place a header at the cursor, which moves behind it; return the places of its fields."""
        places: dict[str, Location] = {}
        for field in of.fields:
            bits = varbits if field.varbit else field.bits
            places[field.name] = (self.cursor, bits)
            self.cursor += bits
        self._places[header] = places
        self._types[header] = of
        return places

    def next_of(self, stack: str) -> str | None:
        """Return the header of a stack that is extracted next, None when the stack is full."""
        index = self._next.get(stack, 0)
        headers = self.program.stacks[stack].headers
        if index >= len(headers):
            return None
        self._next[stack] = index + 1
        return headers[index].name

    def has(self, header: str) -> bool:
        """Return whether the packet has this header."""
        return header in self._places

    def fields(self) -> Iterator[tuple[tuple[str, str], Location]]:
        """Yield each field of the packet's headers, as (header type, field), and where it is."""
        for header, places in self._places.items():
            for name, at in places.items():
                if at[1]:
                    yield (self._types[header].name, name), at

    def locate(self, expr: Expr) -> Location | None:
        """Return where the packet holds what `expr` yields, None when it does not directly."""
        match expr:
            case FieldRef(header, field):
                found = self._places.get(header, {}).get(field)
                return found if found is not None else self._alias.get(expr)
            case LastField(stack, field):
                index = self._next.get(stack, 0) - 1
                if index < 0:
                    return None
                header = self.program.stacks[stack].headers[index].name
                return self._places.get(header, {}).get(field)
            case Lookahead(offset, bits):
                return self.cursor + offset, bits
            case Op(">>", left, Const(count)) if left is not None:
                of = self.locate(left)
                return None if of is None or not 0 <= count < of[1] else (of[0], of[1] - count)
            case Op("&", left, Const(mask)) if left is not None and (mask & (mask + 1)) == 0:
                of, kept = self.locate(left), mask.bit_length()
                if of is None or not kept or kept >= of[1]:
                    return of if kept else None
                return of[0] + of[1] - kept, kept
        return None

    def assign(self, target: FieldRef, source: Expr) -> None:
        """Apply the parser's assignment of `source` to a field."""
        at, value = self.locate(source), self.evaluate(source)
        self._alias.pop(target, None)
        if at is not None:
            self._alias[target] = at
        elif value is not None:
            field = self.program.field(target)
            self.metadata[target] = value & ((1 << field.bits) - 1) if field.bits else value

    # --- expressions ----------------------------------------------------------------------------

    def evaluate(self, expr: Expr) -> int | None:
        """Return what `expr` yields here (true is 1), None when that is not known."""
        at = self.locate(expr)
        if at is not None:
            return self.read(at)
        match expr:
            case Const(value):
                return value
            case BoolConst(value):
                return int(value)
            case FieldRef(header, _):
                known = self.program.headers[header].metadata
                return self.metadata.get(expr, 0 if known else None)
            case Ternary(cond, left, right):
                chosen = self.evaluate(cond)
                return None if chosen is None else self.evaluate(left if chosen else right)
            case Op(op, left, right):
                b = self.evaluate(right)
                a = 0 if left is None else self.evaluate(left)
                return None if a is None or b is None else _operate(op, a, b)
        return None

    def satisfy(self, expr: Expr, want: bool = True) -> None:
        """Try to make a condition true (or false) by deciding about fields."""
        match expr:
            case Op("not", _, right):
                self.satisfy(right, not want)
            case Op("and" | "or", left, right) if left is not None:
                self.satisfy(left, want)
                self.satisfy(right, want)
            case Op("==" | "!=" | "<" | "<=" | ">" | ">=" as op, left, right) if left is not None:
                if bool(self.evaluate(expr)) == want:
                    return
                for one, other, step in ((left, right, 1), (right, left, -1)):
                    at, value = self.locate(one), self.evaluate(other)
                    if at is not None and value is not None:
                        value += step * _distance(op, want)
                        if 0 <= value < 1 << at[1]:
                            self.write(at, value)
                        return


def _distance(op: str, want: bool) -> int:
    """Return what to add to the other side so that `left op right` becomes true (or false)."""
    opposite = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
    return {"<": -1, ">": 1, "!=": 1}.get(op if want else opposite[op], 0)


def _operate(op: str, a: int, b: int) -> int | None:
    match op:
        case "<<":
            return a << b if 0 <= b < MOST_SHIFT else None
        case ">>":
            return a >> b if 0 <= b < MOST_SHIFT else None
        case "/" | "%":
            if b <= 0 or a < 0:
                return None
            return a // b if op == "/" else a % b
        case "not":
            return int(not b)
        case "~":
            return ~b
        case "and" | "or":
            return int(bool(a and b)) if op == "and" else int(bool(a or b))
    simple = _SIMPLE.get(op)
    return None if simple is None else int(simple(a, b))


_SIMPLE = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "&": int.__and__,
    "|": int.__or__,
    "^": int.__xor__,
    "==": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}
