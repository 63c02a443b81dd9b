"""Bit layouts in C: taking fields out of packet bytes and putting them together again.

Both work on whole words: a field is loaded with the fewest bytes that hold it, and consecutive
fields are merged into words of up to eight bytes before they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.codegen.layout import LIMB, Layout, Place, limbs
from softswitch.codegen.model import Field, HeaderType


@dataclass(frozen=True)
class Piece:
    """Up to 64 bits to store: `code` is a C expression of uint64_t without bits above `bits`."""

    code: str
    bits: int


def load(base: str, bit: int, bits: int) -> str:
    """Return an expression for `bits` (0..64) bits at bit offset `bit` of the bytes at `base`."""
    if not bits:
        return "0"
    first, last = bit // 8, (bit + bits - 1) // 8
    count = last - first + 1
    tail = (last + 1) * 8 - (bit + bits)
    at = f"{base} + {first}" if first else base
    if count == 9:  # an unaligned 64-bit field: its low byte is loaded apart
        head = bits - (8 - tail)
        mask = f" & {(1 << head) - 1:#x}" if head < 64 and bit % 8 else ""
        return f"((wpx_ld64({at}){mask}) << {8 - tail} | wpx_ld8({base} + {last}) >> {tail})"
    code = f"wpx_ld{count * 8}({at})"
    if tail:
        code = f"({code} >> {tail})"
    if bit % 8:
        code = f"({code} & {(1 << bits) - 1:#x})"
    return code


def extract_field(place: Place, base: str, bit: int) -> list[str]:
    """Return the statements that load a field from bit offset `bit` of the bytes at `base`."""
    if place.bits <= LIMB:
        return [f"{place.code} = {load(base, bit, place.bits)};"]
    lines = []
    for i in range(limbs(place.bits)):
        width = min(LIMB, place.bits - i * LIMB)
        lines.append(
            f"{place.code}[{i}] = {load(base, bit + place.bits - i * LIMB - width, width)};"
        )
    return lines


def field_pieces(place: Place) -> list[Piece]:
    """Return a field of fixed width as pieces, the most significant first."""
    if not place.bits:
        return []
    if place.bits <= LIMB:
        return [Piece(f"(uint64_t){place.code}", place.bits)]
    return [
        Piece(f"{place.code}[{i}]", min(LIMB, place.bits - i * LIMB))
        for i in reversed(range(limbs(place.bits)))
    ]


def const_pieces(value: int, bits: int) -> list[Piece]:
    """Return a literal of `bits` bits as pieces, the most significant first."""
    return [
        Piece(f"UINT64_C({(value >> (i * LIMB)) & (2**LIMB - 1):#x})", min(LIMB, bits - i * LIMB))
        for i in reversed(range(limbs(bits)))
    ]


def store(pieces: list[Piece], base: str) -> list[str]:
    """Return the statements that store pieces one after the other from `base` on, which is byte
    aligned.

    The last byte is filled up with zero bits.
    """
    total = sum(piece.bits for piece in pieces)
    size = (total + 7) // 8
    lines = []
    for start in range(0, size, 8):
        count = min(8, size - start)
        low, high = start * 8, (start + count) * 8
        terms = []
        at = 0
        for piece in pieces:
            end = at + piece.bits
            if at < high and end > low:
                shift = high - end
                if shift > 0:
                    terms.append(f"{piece.code} << {shift}")
                elif shift < 0:
                    terms.append(f"{piece.code} >> {-shift}")
                else:
                    terms.append(piece.code)
            at = end
        address = f"{base} + {start}" if start else base
        lines.append(f"wpx_st{count * 8}({address}, {' | '.join(terms)});")
    return lines


class HeaderCode:
    """Functions that take one header type off the wire and put it back."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def _split(self, of: HeaderType) -> tuple[list[Field], Field | None, list[Field]]:
        index = next((i for i, f in enumerate(of.fields) if f.varbit), None)
        if index is None:
            return list(of.fields), None, []
        return list(of.fields[:index]), of.fields[index], list(of.fields[index + 1 :])

    def extract_function(self, of: HeaderType) -> str:
        """Return `extract_<type>(h, d[, bits])`: the caller has checked that the bytes are
        there.
        """
        name = self.layout.type_name(of)
        head, varbit, tail = self._split(of)
        args = ", uint32_t bits" if varbit is not None else ""
        lines = [
            f"static inline void extract_{name}(struct {name} *h, const uint8_t *d{args})",
            "{",
        ]
        bit = 0
        for field in head:
            lines += self._one(of, field, bit)
            bit += field.bits
        if varbit is not None:
            place = self.layout.type_field(of, varbit, "(*h)")
            lines.append(f"    {place.length} = bits;")
            lines.append(f"    wpx_extract_bytes({place.code}, d, {bit}, bits / 8);")
            if tail:
                lines.append("    d += bits / 8;")
            for field in tail:
                lines += self._one(of, field, bit)
                bit += field.bits
        if bit == 0 and varbit is None:
            lines.append("    (void)d;")
        lines += ["    h->valid = 1;", "}"]
        return "\n".join(lines).replace("(*h).", "h->")

    def _one(self, of: HeaderType, field: Field, bit: int) -> list[str]:
        place = self.layout.type_field(of, field, "(*h)")
        return ["    " + line for line in extract_field(place, "d", bit)]

    def emit_function(self, of: HeaderType) -> str:
        """Return `emit_<type>(h, o)`, which writes the header at `o` and returns where it ends."""
        name = self.layout.type_name(of)
        head, varbit, tail = self._split(of)
        lines = [f"static inline uint8_t *emit_{name}(const struct {name} *h, uint8_t *o)", "{"]
        if not of.fields:
            lines.append("    (void)h;")
        before = sum(field.bits for field in head)
        if varbit is None or before % 8 == 0:
            lines += self._stores(of, head)
            if varbit is not None:
                place = self.layout.type_field(of, varbit, "(*h)")
                lines.append(f"    memcpy(o + {before // 8}, {place.code}, {place.length} / 8);")
                lines.append(f"    o += {before // 8} + {place.length} / 8;")
                lines += self._stores(of, tail)
            size = sum(field.bits for field in (tail if varbit is not None else head)) // 8
            lines.append(f"    return o + {size};" if size else "    return o;")
        else:
            lines += self._appended(of)
        return "\n".join([*lines, "}"]).replace("(*h).", "h->")

    def _stores(self, of: HeaderType, fields: list[Field]) -> list[str]:
        pieces = [
            piece
            for field in fields
            for piece in field_pieces(self.layout.type_field(of, field, "(*h)"))
        ]
        return ["    " + line for line in store(pieces, "o")]

    def _appended(self, of: HeaderType) -> list[str]:
        """Return the code that appends an unaligned varbit field, bit by bit."""
        lines = [
            "    uint32_t bit = 0;",
            f"    uint32_t size = {self.size(of, '(*h)')};",
            "    memset(o, 0, size);",
        ]
        for field in of.fields:
            place = self.layout.type_field(of, field, "(*h)")
            lines += ["    " + line for line in append(place, "o")]
        return [*lines, "    return o + size;"]

    def size(self, of: HeaderType, base: str) -> str:
        """Return an expression for the present size in bytes of a header of this type."""
        fixed = str(of.fixed_bits // 8)
        if of.varbit is None:
            return fixed
        return f"{fixed} + {self.layout.type_field(of, of.varbit, base).length} / 8"

    def equal_function(self, of: HeaderType) -> str:
        """Return `equal_<type>(a, b)`: whether both are valid and all fields are equal."""
        name = self.layout.type_name(of)
        terms = ["a->valid && b->valid"]
        for field in of.fields:
            a, b = (self.layout.type_field(of, field, f"(*{x})") for x in "ab")
            if a.varbit:
                terms.append(f"{a.length} == {b.length}")
                terms.append(f"memcmp({a.code}, {b.code}, {a.length} / 8) == 0")
            elif a.bits <= LIMB:
                terms.append(f"{a.code} == {b.code}")
            else:
                terms.append(f"memcmp({a.code}, {b.code}, sizeof {a.code}) == 0")
        body = "\n        && ".join(terms).replace("(*a).", "a->").replace("(*b).", "b->")
        return (
            f"static inline int equal_{name}(const struct {name} *a, const struct {name} *b)\n"
            f"{{\n    return {body};\n}}"
        )


def append(place: Place, base: str) -> list[str]:
    """Return the statements that append a field at the run-time bit offset `bit`."""
    if place.varbit:
        return [f"wpx_append_bytes({base}, &bit, {place.code}, {place.length} / 8);"]
    return [
        f"wpx_append({base}, &bit, {piece.code}, {piece.bits});" for piece in field_pieces(place)
    ]
