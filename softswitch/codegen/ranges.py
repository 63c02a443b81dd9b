"""Value ranges of expressions: what decides how many bits a sub-expression needs.

BMv2 computes with unbounded integers. `Range` bounds a value from below and above; `Repr` is the C
representation that can hold such a value.
"""

from __future__ import annotations

from dataclasses import dataclass

# Left shifts are exact up to this amount outside of expressions that keep only low bits. BMv2
# would build a number of that many bits too; p4c masks every shift.
MAX_SHIFT = 1 << 16
BIG_LIMBS = (3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1088)


@dataclass(frozen=True)
class Range:
    """low <= value <= high."""

    low: int
    high: int

    def __or__(self, other: Range) -> Range:
        """Return the smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def within(self, low: int, high: int) -> bool:
        """Return whether every value lies in [low, high]."""
        return low <= self.low and self.high <= high

    @property
    def signed_bits(self) -> int:
        """Bits of two's complement that hold every value."""
        return max(self.high.bit_length(), (-self.low - 1).bit_length() if self.low < 0 else 0) + 1


def unsigned(bits: int) -> Range:
    """Return the range of an unsigned value of `bits` bits."""
    return Range(0, (1 << bits) - 1)


def signed(bits: int) -> Range:
    """Return the range of a two's complement value of `bits` bits."""
    return Range(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@dataclass(frozen=True)
class Repr:
    """A C representation: `name` is u64, i64, u128, i128 or b<limbs>; `limbs` is 0 but for b."""

    name: str
    limbs: int = 0

    @property
    def ctype(self) -> str:
        """The C type."""
        return {"u64": "uint64_t", "i64": "int64_t", "u128": "wpx_u128", "i128": "wpx_i128"}.get(
            self.name, f"wpx_{self.name}"
        )

    @property
    def bits(self) -> int:
        """Bits, the sign included."""
        return self.limbs * 64 if self.limbs else int(self.name[1:])

    @property
    def unsigned(self) -> Repr:
        """The representation for arithmetic that may wrap."""
        return self if self.limbs else Repr("u" + self.name[1:])


U64, I64, U128, I128 = Repr("u64"), Repr("i64"), Repr("u128"), Repr("i128")
_SCALARS = ((U64, unsigned(64)), (I64, signed(64)), (U128, unsigned(128)), (I128, signed(128)))


def big(bits: int) -> Repr:
    """Return the big-integer representation of at least `bits` bits, the sign included."""
    needed = (bits + 63) // 64
    count = next((n for n in BIG_LIMBS if n >= needed), needed)
    return Repr(f"b{count}", count)


def repr_for(values: Range) -> Repr:
    """Return the cheapest representation that holds every value."""
    for scalar, bounds in _SCALARS:
        if values.within(bounds.low, bounds.high):
            return scalar
    return big(values.signed_bits)


def wrapping(bits: int) -> Repr:
    """Return the representation for arithmetic modulo 2**bits."""
    return U64 if bits <= 64 else U128 if bits <= 128 else big(bits + 1)


def binary_range(op: str, a: Range, b: Range) -> Range:
    """Return the range of `a op b` for the operations that have no width argument."""
    match op:
        case "+":
            return Range(a.low + b.low, a.high + b.high)
        case "-":
            return Range(a.low - b.high, a.high - b.low)
        case "*":
            ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Range(min(ends), max(ends))
        case "/":
            most = max(abs(a.low), abs(a.high))
            return Range(0 if a.low >= 0 and b.low >= 0 else -most, most)
        case "%":
            most = min(max(abs(a.low), abs(a.high)), max(abs(b.low), abs(b.high), 1) - 1)
            return Range(0 if a.low >= 0 else -most, most)
        case "&":
            if a.low >= 0 or b.low >= 0:
                return Range(0, min(r.high for r in (a, b) if r.low >= 0))
            return signed(max(a.signed_bits, b.signed_bits))
        case "|" | "^":
            if a.low >= 0 and b.low >= 0:
                return unsigned(max(a.high.bit_length(), b.high.bit_length()))
            return signed(max(a.signed_bits, b.signed_bits))
        case "<<":
            most, least = (min(max(x, 0), MAX_SHIFT) for x in (b.high, b.low))
            return Range(
                a.low << (most if a.low < 0 else least), a.high << (most if a.high > 0 else least)
            )
        case _:  # >>
            most, least = (min(max(x, 0), MAX_SHIFT * 2) for x in (b.high, b.low))
            return Range(
                a.low >> (least if a.low < 0 else most), a.high >> (most if a.high < 0 else least)
            )


def compared(op: str, a: Range, b: Range) -> bool | None:
    """Return what `a op b` yields for all values; None when it depends on them."""
    match op:
        case "<" | ">=":
            less = True if a.high < b.low else False if a.low >= b.high else None
            return less if op == "<" or less is None else not less
        case ">" | "<=":
            more = True if a.low > b.high else False if a.high <= b.low else None
            return more if op == ">" or more is None else not more
        case _:
            if a.high < b.low or b.high < a.low:
                return op == "!="
            return (op == "==") if a == b and a.low == a.high else None
