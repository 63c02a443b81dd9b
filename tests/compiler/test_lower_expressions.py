"""Expressions mean what P4 says: run on the in-process switch, compared with a plain evaluator.

    packet in:  | inputs (bytes of fields a..x) | results (32 bits each, to be filled) |

The evaluator below works on Python numbers and knows nothing of the compiler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from softswitch import Switch

FIELDS = {"a": 8, "b": 8, "w": 16, "v": 16, "n": 4, "m": 4, "x": 48, "s": 8, "t": 8}
SIGNED = {"s", "t"}

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header in_t { %(fields)s }
header out_t { %(results)s }
struct headers { in_t i; out_t o; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { p.extract(hdr.i); p.extract(hdr.o); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 1; %(body)s }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

Values = Mapping[str, int]


@dataclass(frozen=True)
class Expression:
    """P4 text, its type (`width` 0: bool) and what it should be."""

    text: str
    width: int
    signed: bool
    value: Callable[[Values], int]


def wrap(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def clamp(value: int, width: int, signed: bool) -> int:
    low = -(1 << (width - 1)) if signed else 0
    return max(low, min(low + (1 << width) - 1, value))


class Generator:
    """Random well-typed expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, width: int, signed: bool, depth: int) -> Expression:
        choices = [self.leaf]
        if depth > 0:
            choices = [
                self.arithmetic, self.arithmetic, self.saturating, self.bitwise, self.shift,
                self.unary, self.ternary, self.sign_change, self.widen,
            ]  # fmt: skip
            if not signed:
                choices += [self.narrow, self.slice, self.concat, self.from_bool]
        return self.random.choice(choices)(width, signed, depth - 1)

    def leaf(self, width: int, signed: bool, depth: int) -> Expression:
        fits = [f for f, w in FIELDS.items() if w == width and (f in SIGNED) == signed]
        if fits and self.random.random() < 0.8:
            name = self.random.choice(fits)
            return Expression(f"hdr.i.{name}", width, signed, lambda v: v[name])
        if signed:
            number = self.random.randrange(1 << (width - 1))
            return Expression(f"{width}s{number}", width, True, lambda v: number)
        if self.random.random() < 0.5:
            name = self.random.choice([f for f in FIELDS if f not in SIGNED])
            text = f"(bit<{width}>)hdr.i.{name}"
            return Expression(text, width, False, lambda v: wrap(v[name], width, False))
        number = self.random.randrange(1 << width)
        return Expression(f"{width}w{number}", width, False, lambda v: number)

    def arithmetic(self, width: int, signed: bool, depth: int) -> Expression:
        op = self.random.choice("+-*")
        a, b = self.number(width, signed, depth), self.number(width, signed, depth)
        apply = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[op]
        text = f"({a.text} {op} {b.text})"
        return Expression(
            text, width, signed, lambda v: wrap(apply(a.value(v), b.value(v)), width, signed)
        )

    def saturating(self, width: int, signed: bool, depth: int) -> Expression:
        op = self.random.choice("+-")
        a, b = self.number(width, signed, depth), self.number(width, signed, depth)
        sign = 1 if op == "+" else -1
        return Expression(
            f"({a.text} |{op}| {b.text})",
            width,
            signed,
            lambda v: clamp(a.value(v) + sign * b.value(v), width, signed),
        )

    def bitwise(self, width: int, signed: bool, depth: int) -> Expression:
        op = self.random.choice("&|^")
        a, b = self.number(width, signed, depth), self.number(width, signed, depth)
        apply = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}[op]
        return Expression(
            f"({a.text} {op} {b.text})", width, signed, lambda v: apply(a.value(v), b.value(v))
        )

    def shift(self, width: int, signed: bool, depth: int) -> Expression:
        a = self.number(width, signed, depth)
        if self.random.random() < 0.5:
            amount = self.random.choice([0, 1, 3, width - 1, width, width + 5])
            by = Expression(str(amount), 32, False, lambda v: amount)
        else:
            by = self.number(self.random.choice([4, 8, 16]), False, 0)
        if self.random.random() < 0.5:
            return Expression(
                f"({a.text} << {by.text})",
                width,
                signed,
                lambda v: wrap(a.value(v) << min(by.value(v), 200), width, signed),
            )
        return Expression(
            f"({a.text} >> {by.text})", width, signed, lambda v: a.value(v) >> by.value(v)
        )

    def unary(self, width: int, signed: bool, depth: int) -> Expression:
        a = self.number(width, signed, depth)
        if self.random.random() < 0.5:
            return Expression(
                f"(~{a.text})", width, signed, lambda v: wrap(~a.value(v), width, signed)
            )
        return Expression(f"(-{a.text})", width, signed, lambda v: wrap(-a.value(v), width, signed))

    def ternary(self, width: int, signed: bool, depth: int) -> Expression:
        c, a, b = self.boolean(depth), *(self.number(width, signed, depth) for _ in range(2))
        return Expression(
            f"({c.text} ? {a.text} : {b.text})",
            width,
            signed,
            lambda v: a.value(v) if c.value(v) else b.value(v),
        )

    def sign_change(self, width: int, signed: bool, depth: int) -> Expression:
        a = self.number(width, not signed, depth)
        word = "int" if signed else "bit"
        return Expression(
            f"(({word}<{width}>){a.text})", width, signed, lambda v: wrap(a.value(v), width, signed)
        )

    def widen(self, width: int, signed: bool, depth: int) -> Expression:
        if width < 3:
            return self.leaf(width, signed, depth)
        a = self.number(self.random.randint(2, width), signed, depth)
        word = "int" if signed else "bit"
        return Expression(f"(({word}<{width}>){a.text})", width, signed, a.value)

    def narrow(self, width: int, signed: bool, depth: int) -> Expression:
        a = self.number(width + self.random.randint(0, 9), False, depth)
        return Expression(
            f"((bit<{width}>){a.text})", width, False, lambda v: wrap(a.value(v), width, False)
        )

    def slice(self, width: int, signed: bool, depth: int) -> Expression:
        low = self.random.randint(0, 7)
        a = self.number(width + low + self.random.randint(0, 3), False, depth)
        return Expression(
            f"({a.text})[{low + width - 1}:{low}]",
            width,
            False,
            lambda v: wrap(a.value(v) >> low, width, False),
        )

    def concat(self, width: int, signed: bool, depth: int) -> Expression:
        if width < 2:
            return self.leaf(width, False, depth)
        low = self.random.randint(1, width - 1)
        a, b = self.number(width - low, False, depth), self.number(low, False, depth)
        return Expression(
            f"({a.text} ++ {b.text})", width, False, lambda v: (a.value(v) << low) | b.value(v)
        )

    def from_bool(self, width: int, signed: bool, depth: int) -> Expression:
        a = self.boolean(depth)
        return Expression(f"((bit<{width}>)(bit<1>)({a.text}))", width, False, a.value)

    def boolean(self, depth: int) -> Expression:
        if depth > 0 and self.random.random() < 0.4:
            a, b = self.boolean(depth - 1), self.boolean(depth - 1)
            op = self.random.choice(["&&", "||", "!", "=="])
            if op == "!":
                return Expression(f"(!{a.text})", 0, False, lambda v: int(not a.value(v)))
            apply: Callable[[int, int], int] = {
                "&&": lambda p, q: p & q, "||": lambda p, q: p | q, "==": lambda p, q: int(p == q)
            }[op]  # fmt: skip
            return Expression(
                f"({a.text} {op} {b.text})", 0, False, lambda v: apply(a.value(v), b.value(v))
            )
        width, signed = self.random.choice([(8, False), (16, False), (8, True), (4, False)])
        x, y = self.number(width, signed, depth - 1), self.number(width, signed, depth - 1)
        op = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        compare: Callable[[int, int], bool] = {
            "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
            "==": int.__eq__, "!=": int.__ne__,
        }[op]  # fmt: skip
        return Expression(
            f"({x.text} {op} {y.text})", 0, False, lambda v: int(compare(x.value(v), y.value(v)))
        )

    def any(self) -> Expression:
        if self.random.random() < 0.2:
            return self.boolean(3)
        width, signed = self.random.choice(
            [(8, False), (8, True), (16, False), (4, False), (32, False), (12, True), (1, False)]
        )
        if width == 1:
            return self.number(1, False, 2)
        return self.number(width, signed, 3)


def result_of(e: Expression, number: int) -> str:
    """Statement that stores `e`, sign-extended for `int`, in result field `number`."""
    if e.width == 0:
        return f"hdr.o.r{number} = {e.text} ? 32w1 : 32w0;"
    value = f"(bit<32>)(int<32>)({e.text})" if e.signed else f"(bit<32>)({e.text})"
    return f"hdr.o.r{number} = {value};"


def run(tmp_path: Path, expressions: list[Expression], inputs: list[dict[str, int]]) -> None:
    fields = " ".join(f"{'int' if f in SIGNED else 'bit'}<{w}> {f};" for f, w in FIELDS.items())
    results = " ".join(f"bit<32> r{i};" for i in range(len(expressions)))
    body = "\n".join(result_of(e, i) for i, e in enumerate(expressions))
    source = tmp_path / "expressions.p4"
    source.write_text(PROGRAM % {"fields": fields, "results": results, "body": body})
    size = sum(FIELDS.values()) // 8
    wrong: list[str] = []
    with Switch.from_p4(source) as switch:
        for port in (1, 2):
            switch.set_port(port)
        for round_number, values in enumerate(inputs):
            packed = 0
            for name, width in FIELDS.items():
                packed = (packed << width) | (values[name] & ((1 << width) - 1))
            packet = packed.to_bytes(size, "big") + bytes(4 * len(expressions))
            switch.inject(2, packet, at_ns=(round_number + 1) * 1_000_000)
            (output,) = switch.run_until((round_number + 1) * 1_000_000 + 900_000)
            for i, e in enumerate(expressions):
                got = int.from_bytes(output.packet[size + 4 * i : size + 4 * i + 4], "big")
                want = e.value(values) & 0xFFFFFFFF
                if got != want:
                    wrong.append(f"{e.text}: {got:#x}, not {want:#x}, with {values}")
    assert not wrong, "\n".join(wrong[:5])


def inputs_for(seed: int, count: int) -> list[dict[str, int]]:
    chooser = random.Random(seed)
    rounds = []
    for _ in range(count):
        values = {}
        for name, width in FIELDS.items():
            edge = chooser.choice([0, 1, (1 << width) - 1, 1 << (width - 1), None, None, None])
            raw = chooser.randrange(1 << width) if edge is None else edge
            values[name] = wrap(raw, width, name in SIGNED)
        rounds.append(values)
    return rounds


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(tmp_path: Path, seed: int) -> None:
    generator = Generator(seed)
    run(tmp_path, [generator.any() for _ in range(60)], inputs_for(seed, 40))


def test_the_evaluator_is_not_blind(tmp_path: Path) -> None:
    wrong = Expression("(hdr.i.a + 8w1)", 8, False, lambda v: v["a"] + 1)  # forgets to wrap
    with pytest.raises(AssertionError, match="not 0x100"):
        run(tmp_path, [wrong], [dict.fromkeys(FIELDS, 0) | {"a": 255}])
