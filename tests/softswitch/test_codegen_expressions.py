"""Random BMv2 expressions: generated C against Python's unbounded integers.

The evaluator below knows nothing of ranges or representations; it is BMv2's arithmetic as
docs/JSON_format.md and the operators' definitions give it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.softswitch import tiny_program as tiny

Json = dict[str, Any]
Values = dict[str, int]

# name, width, signed: every class of representation, and the widths at its borders
FIELDS = [
    ("u1", 1, False),
    ("u7", 7, False),
    ("u8", 8, False),
    ("i8", 8, True),
    ("u16", 16, False),
    ("i31", 31, True),
    ("u32", 32, False),
    ("u63", 63, False),
    ("u64", 64, False),
    ("i64", 64, True),
    ("u65", 65, False),
    ("i100", 100, True),
    ("u127", 127, False),
    ("u128", 128, False),
    ("i128", 128, True),
    ("u129", 129, False),
    ("i200", 200, True),
    ("u193", 193, False),
]
PADDING = -sum(width for _, width, _ in FIELDS) % 8
WIDTHS = {name: width for name, width, _ in FIELDS}
SIGNED = {name for name, _, signed in FIELDS if signed}
ARITHMETIC = ("+", "-", "*", "&", "|", "^")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def to_signed(value: int, width: int) -> int:
    """Return the low bits of a number as two's complement."""
    low = value & ((1 << width) - 1)
    return low - (1 << width) if low >> (width - 1) else low


def evaluate(node: Json, values: Values) -> int:
    """Return the value of an expression; booleans are 0 and 1."""
    kind, value = node["type"], node["value"]
    if kind == "hexstr":
        return int(value, 16)
    if kind == "bool":
        return int(value)
    if kind == "field":
        return values[value[1]]
    name = value["op"]
    if name == "?":
        return evaluate(value["left" if evaluate(value["cond"], values) else "right"], values)
    right = evaluate(value["right"], values)
    if name in ("~", "not", "d2b", "b2d"):
        return {"~": ~right, "not": int(not right), "d2b": int(right != 0), "b2d": right}[name]
    left = evaluate(value["left"], values)
    if name in ("two_comp_mod", "sat_cast", "usat_cast"):
        low, high = (
            (0, 2**right - 1)
            if name == "usat_cast"
            else (-(2 ** (right - 1)), 2 ** (right - 1) - 1)
        )
        return to_signed(left, right) if name == "two_comp_mod" else min(max(left, low), high)
    if name in ("<<", ">>"):
        return left << right if name == "<<" else left >> right
    if name in ("/", "%"):
        quotient = abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)
        return quotient if name == "/" else left - quotient * right
    functions = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "&": left & right,
        "|": left | right,
        "^": left ^ right,
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "and": bool(left) and bool(right),
        "or": bool(left) or bool(right),
    }
    return int(functions[name])


class Maker:
    """Makes random expressions; `depth` bounds how deep they nest."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self) -> int:
        """Return a literal, likely one at a border."""
        r = self.random
        bits = r.choice((1, 4, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200))
        value = r.choice(((1 << bits) - 1, 1 << (bits - 1), r.getrandbits(bits), 1, 0))
        return -value if r.random() < 0.2 else value

    def data(self, depth: int) -> Json:
        """Return an integer expression."""
        r = self.random
        if depth <= 0 or r.random() < 0.1:
            if r.random() < 0.7:
                return tiny.field("h", r.choice(FIELDS)[0])
            return tiny.const(self.number())
        pick = r.random()
        if pick < 0.45:
            return tiny.op(r.choice(ARITHMETIC), self.data(depth - 1), self.data(depth - 1))
        if pick < 0.55:  # the way p4c writes arithmetic
            mask = tiny.const((1 << r.choice((8, 32, 48, 64, 100, 128, 160))) - 1)
            return tiny.op("&", self.data(depth - 1), mask)
        if pick < 0.7:
            return tiny.op(r.choice(("<<", ">>")), self.data(depth - 1), self.amount())
        if pick < 0.82:
            width = tiny.const(r.choice((1, 2, 8, 31, 32, 63, 64, 65, 127, 128, 129, 180)))
            cast = r.choice(("two_comp_mod", "sat_cast", "usat_cast"))
            return tiny.op(cast, self.data(depth - 1), width)
        if pick < 0.87:
            return tiny.op("~", None, self.data(depth - 1))
        if pick < 0.9:
            positive = tiny.op(
                "|", tiny.field("h", r.choice(("u8", "u32", "u64", "u129"))), tiny.const(1)
            )
            return tiny.op(r.choice(("/", "%")), self.data(depth - 1), positive)
        if pick < 0.95:
            return tiny.op("b2d", None, self.condition(depth - 1))
        return tiny.op(
            "?", self.data(depth - 1), self.data(depth - 1), cond=self.condition(depth - 1)
        )

    def amount(self) -> Json:
        """Return a shift amount: up to 255, so that exact results stay of a testable size."""
        r = self.random
        if r.random() < 0.5:
            return tiny.const(r.choice((0, 1, 7, 8, 31, 32, 63, 64, 65, 127, 128, 129, 255)))
        return tiny.field("h", r.choice(("u1", "u7", "u8")))

    def condition(self, depth: int) -> Json:
        """Return a boolean expression."""
        r = self.random
        if depth <= 0 or r.random() < 0.6:
            return tiny.op(r.choice(COMPARISONS), self.data(depth - 1), self.data(depth - 1))
        pick = r.randrange(4)
        if pick == 0:
            return tiny.op("not", None, self.condition(depth - 1))
        if pick == 1:
            return tiny.op("d2b", None, self.data(depth - 1))
        if pick == 2:
            return tiny.op(
                r.choice(("==", "!=")), self.condition(depth - 1), self.condition(depth - 1)
            )
        return tiny.op(
            r.choice(("and", "or")), self.condition(depth - 1), self.condition(depth - 1)
        )

    def values(self) -> Values:
        """Field contents, likely at a border."""
        r = self.random
        values = {}
        for name, width, signed in FIELDS:
            bits = r.choice(
                (
                    0,
                    (1 << width) - 1,
                    1 << (width - 1),
                    (1 << (width - 1)) - 1,
                    1,
                    r.getrandbits(width),
                    r.getrandbits(width),
                    r.getrandbits(width),
                )
            )
            values[name] = to_signed(bits, width) if signed else bits
        return values


def packet(values: Values) -> bytes:
    """Return the header that holds these values."""
    bits = 0
    for name, width, _ in FIELDS:
        bits = bits << width | (values[name] & ((1 << width) - 1))
    total = sum(WIDTHS.values()) + PADDING
    return (bits << PADDING).to_bytes(total // 8, "big")


def program(expressions: list[tuple[Json, int, bool]]) -> Json:
    """Each expression is assigned to an output field of its width and sign."""
    made = tiny.Tiny()
    made.type(
        "h_t",
        [*([n, w, s] for n, w, s in FIELDS), ["pad", PADDING, False]]
        if PADDING
        else [[n, w, s] for n, w, s in FIELDS],
    )
    fields: list[list[Any]] = []
    for i, (_, width, signed) in enumerate(expressions):
        fields.append([f"o{i}", width, signed])
        if width % 8:
            fields.append([f"p{i}", -width % 8, False])
    made.type("o_t", fields)
    made.header("h", "h_t")
    made.header("o", "o_t")
    made.state("start", [tiny.extract("h")])
    made.emit("o")
    made.action("begin", tiny.call("add_header", tiny.header("o")))
    for i, (expression, _, _) in enumerate(expressions):
        made.action(f"a{i}", tiny.call("assign", tiny.field("o", f"o{i}"), tiny.arg(expression)))
    document: Json = made.json()
    return document


def check(expressions: list[tuple[Json, int, bool]], inputs: list[Values], work: Path) -> None:
    """Every output of every input is the expression's value, cut to the field."""
    ran = tiny.run(program(expressions), [packet(values) for values in inputs], work)
    for values, result in zip(inputs, ran, strict=True):
        at = 0
        for i, (expression, width, _) in enumerate(expressions):
            size = (width + 7) // 8
            got = int.from_bytes(result.headers[at : at + size], "big") >> (-width % 8)
            at += size
            wanted = evaluate(expression, values) & ((1 << width) - 1)
            assert got == wanted, f"o{i}: {got:#x}, not {wanted:#x}: {expression} with {values}"


@settings(
    max_examples=4,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    database=None,
    derandomize=True,
)
@given(seed=st.integers(0, 2**32))
def test_random_expressions(seed: int, tmp_path: Path) -> None:
    maker = Maker(seed)
    expressions = []
    for _ in range(60):
        width = maker.random.choice((1, 8, 13, 32, 48, 64, 65, 100, 128, 129, 200))
        signed = width > 1 and maker.random.random() < 0.3
        expressions.append((maker.data(maker.random.randint(1, 5)), width, signed))
    check(expressions, [maker.values() for _ in range(30)], tmp_path)


u8, u64, u128, i8 = (tiny.field("h", name) for name in ("u8", "u64", "u128", "i8"))
HUGE = tiny.field("h", "u64")
MASK64 = tiny.const(2**64 - 1)


def huge_shifts(values: Values) -> list[int]:
    """Return what the expressions of `test_shift_amounts_beyond_any_width` yield."""
    left = values["u64"] << min(values["u64"], 4096)
    return [
        left & (2**64 - 1),
        values["u128"] >> values["u64"],
        values["i8"] >> values["u64"],
        int(values["u64"] == 0),
    ]


def test_shift_amounts_beyond_any_width(tmp_path: Path) -> None:
    """Amounts of 2**64 - 1: nothing is left of the number but its sign."""
    expressions = [
        (tiny.op("&", tiny.op("<<", u64, HUGE), MASK64), 64, False),
        (tiny.op(">>", u128, HUGE), 128, False),
        (tiny.op(">>", i8, HUGE), 8, True),
        (tiny.op("b2d", None, tiny.op("==", tiny.op("<<", u64, HUGE), tiny.const(0))), 1, False),
    ]
    zero = dict.fromkeys(WIDTHS, 0)
    inputs = [
        zero | {"u64": amount, "u128": 2**128 - 1, "i8": -128}
        for amount in (0, 1, 63, 64, 65, 127, 128, 2**32 - 1, 2**32, 2**64 - 1)
    ]
    ran = tiny.run(program(expressions), [packet(values) for values in inputs], tmp_path)
    for values, result in zip(inputs, ran, strict=True):
        data = result.headers
        got = [
            int.from_bytes(data[:8], "big"),
            int.from_bytes(data[8:24], "big"),
            data[24],
            data[25] >> 7,
        ]
        wanted = huge_shifts(values)
        wanted[2] &= 0xFF
        assert got == wanted, values


@pytest.mark.parametrize(
    ("expression", "inputs", "wanted"),
    [
        # the examples of docs/JSON_format.md
        (tiny.op("two_comp_mod", tiny.const(257), tiny.const(8)), {}, 1),
        (tiny.op("two_comp_mod", tiny.const(-129), tiny.const(8)), {}, 127),
        # |-| and |+| as p4c writes them
        (tiny.op("usat_cast", tiny.op("-", u8, tiny.const(1)), tiny.const(8)), {"u8": 0}, 0),
        (tiny.op("usat_cast", tiny.op("+", u8, u8), tiny.const(8)), {"u8": 200}, 255),
        (
            tiny.op("sat_cast", tiny.op("-", i8, tiny.const(100)), tiny.const(8)),
            {"i8": -100},
            2**200 - 128,
        ),
        # unary minus has no left side
        (tiny.op("-", None, u8), {"u8": 1}, 2**200 - 1),
        # an intermediate value of 256 bits decides
        (
            tiny.op(">>", tiny.op("*", u128, u128), tiny.const(128)),
            {"u128": 2**128 - 1},
            2**128 - 2,
        ),
    ],
)
def test_known_values(expression: Json, inputs: Values, wanted: int, tmp_path: Path) -> None:
    values = dict.fromkeys(WIDTHS, 0) | inputs
    result = tiny.run(program([(expression, 200, False)]), [packet(values)], tmp_path)[0]
    assert int.from_bytes(result.headers, "big") == wanted
