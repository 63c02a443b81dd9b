"""Expressions in C with the meaning of unbounded integers.

Two ways to compute: `exact` picks a representation from the value's range, which no result can
leave; `modulo` keeps only the low bits, which is all that a store, a mask or a cast looks at, and
lets sums, products and shifts wrap. Both agree with BMv2's unbounded arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.codegen.expressions import (
    BoolConst,
    Const,
    Expr,
    FieldRef,
    HeaderField,
    HeaderRef,
    LastField,
    LastUnionField,
    Local,
    Lookahead,
    Op,
    RegisterRef,
    StackCount,
    Ternary,
)
from softswitch.codegen.layout import Layout, Place, limbs
from softswitch.codegen.model import HeaderType
from softswitch.codegen.pack import load
from softswitch.codegen.places import PlaceGen
from softswitch.codegen.ranges import (
    MAX_SHIFT,
    U64,
    U128,
    Range,
    Repr,
    big,
    binary_range,
    compared,
    repr_for,
    signed,
    unsigned,
    wrapping,
)

LOW_CLOSED = frozenset({"+", "-", "*", "&", "|", "^"})
_INFIX = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_COMPARE = frozenset({"==", "!=", ">", ">=", "<", "<="})


@dataclass(frozen=True)
class Value:
    """A C expression: its representation, and the range of what it yields."""

    code: str
    repr: Repr
    range: Range


class ExprGen(PlaceGen):
    """Writes expressions of one program.

    `bigs` collects the limb counts in use, `compared` the header types that are compared.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.bigs: set[int] = set()
        self.compared: dict[str, HeaderType] = {}
        self._ranges: dict[int, tuple[Expr, Range]] = {}

    # --- ranges -----------------------------------------------------------------------------

    def range(self, expr: Expr) -> Range:
        """Return the bounds of an integer expression."""
        known = self._ranges.get(id(expr))
        if known is None or known[0] is not expr:
            known = (expr, self._range(expr))
            self._ranges[id(expr)] = known
        return known[1]

    def _width(self, expr: Expr) -> int:
        if not isinstance(expr, Const) or not 1 <= expr.value <= 1 << 16:
            raise self.error("a cast's width must be a constant of 1 to 65536 bits")
        return expr.value

    def _range(self, expr: Expr) -> Range:
        match expr:
            case Const(value):
                return Range(value, value)
            case FieldRef() | LastField() | LastUnionField() | HeaderField():
                return self._place_range(self.place(expr))
            case Local(index):
                return self._place_range(self.local(index))
            case Lookahead(_, bits):
                return unsigned(bits)
            case RegisterRef(name, _):
                return unsigned(self.register(name)[1])
            case StackCount(stack, last):
                return unsigned(64) if last else Range(0, self.layout.stack_size(stack))
            case Ternary(_, left, right):
                return self.range(left) | self.range(right)
            case Op("b2d", _, _):
                return Range(0, 1)
            case Op("~", _, right):
                of = self.range(right)
                return Range(-of.high - 1, -of.low - 1)
            case Op("two_comp_mod" | "sat_cast" | "usat_cast" as op, left, right):
                assert left is not None
                of, width = self.range(left), self._width(right)
                bounds = unsigned(width) if op == "usat_cast" else signed(width)
                if op == "two_comp_mod":
                    return of if of.within(bounds.low, bounds.high) else bounds
                low, high = (min(max(end, bounds.low), bounds.high) for end in (of.low, of.high))
                return Range(low, high)
            case Op(op, left, right) if left is not None and op not in _COMPARE:
                return binary_range(op, self.range(left), self.range(right))
            case _:
                raise self.error("expected an integer expression")

    @staticmethod
    def _place_range(place: Place) -> Range:
        if place.varbit:
            return unsigned(max(1, place.bound * 8))
        return signed(place.bits) if place.signed else unsigned(place.bits)

    def register(self, name: str) -> tuple[int, int, int]:
        """Return the index, bits per cell and size of a register array."""
        found = next(r for r in self.program.registers if r.name == name)
        return found.index, found.bits, found.size

    # --- conversions ------------------------------------------------------------------------

    def _use(self, of: Repr) -> Repr:
        if of.limbs:
            self.bigs.add(of.limbs)
        return of

    def convert(self, value: Value, to: Repr) -> str:
        """Return `value` in another representation; exact if it fits, else its low bits."""
        self._use(to)
        if value.repr == to:
            return value.code
        if not to.limbs:
            if value.repr.limbs:
                code = f"{value.code}.l"
                narrow = f"{code}[0]" if to.bits == 64 else f"wpx_ld128({code})"
                return narrow if to in (U64, U128) else f"({to.ctype}){narrow}"
            return f"({to.ctype})({value.code})"
        if value.repr.limbs:
            return f"wpx_{to.name}_convert({value.code}.l, {value.repr.limbs})"
        return f"wpx_{to.name}_{value.repr.name}({value.code})"

    def const(self, number: int, to: Repr) -> str:
        """Return a literal of representation `to`."""
        if to.limbs:
            self._use(to)
            words = ", ".join(
                f"UINT64_C({(number >> (64 * i)) & (2**64 - 1):#x})" for i in range(to.limbs)
            )
            return f"(wpx_{to.name}){{{{{words}}}}}"
        if to.bits == 128:
            pattern = number & (2**128 - 1)
            return f"({to.ctype})wpx_make128({pattern >> 64:#x}, {pattern & (2**64 - 1):#x})"
        if to == U64:
            return f"UINT64_C({number:#x})" if number > 9 else f"UINT64_C({number})"
        return "INT64_MIN" if number == -(2**63) else f"INT64_C({number})"

    def index(self, expr: Expr) -> str:
        """Return an expression as a non-negative 64-bit number: an index, a shift amount, a count.

        Larger values saturate; negative ones, which BMv2 refuses, give 0 for shifts.
        """
        value = self.exact(expr)
        if value.repr == U64:
            return value.code
        return f"wpx_amount_{value.repr.name}({value.code})"

    # --- exact values -----------------------------------------------------------------------

    def exact(self, expr: Expr) -> Value:
        """Return an integer expression whose result is exact."""
        values = self.range(expr)
        to = self._use(repr_for(values))
        return Value(self._exact(expr, to), to, values)

    def _exact(self, expr: Expr, to: Repr) -> str:
        match expr:
            case Const(value):
                return self.const(value, to)
            case FieldRef() | LastField() | LastUnionField() | HeaderField():
                return self._load(self.place(expr), to)
            case Local(index):
                return self._load(self.local(index), to)
            case Lookahead(offset, bits):
                return self._lookahead(offset, bits, to)
            case RegisterRef(name, index):
                return self._register(name, index, to)
            case StackCount(stack, last):
                count = f"(uint64_t){self.layout.stack_next(stack)}"
                return f"({count} - 1)" if last else count
            case Ternary(cond, left, right):
                arms = [self.convert(self.exact(arm), to) for arm in (left, right)]
                return f"({self.condition(cond)} ? {arms[0]} : {arms[1]})"
            case Op("b2d", _, right):
                return f"(uint64_t){self._paren(self.condition(right))}"
            case Op("~", _, right):
                return self._not(self.convert(self.exact(right), to), to)
            case Op("two_comp_mod", left, right):
                assert left is not None
                return self._sign_extended(left, self._width(right), to)
            case Op("sat_cast" | "usat_cast" as op, left, right):
                assert left is not None
                return self._saturated(left, self._width(right), op == "sat_cast", to)
            case Op(op, left, right):
                assert left is not None
                return self._binary(op, left, right, to)
            case _:
                raise self.error("expected an integer expression")

    @staticmethod
    def _paren(code: str) -> str:
        return f"({code})"

    def _load(self, place: Place, to: Repr) -> str:
        """Load a field; signed ones are kept as bits and extended here."""
        if place.varbit:
            size = f"{place.length} / 8"
            whole = self._use(big(place.bound * 8 + 1))
            loaded = Value(
                f"wpx_{whole.name}_bytes({place.code}, {size})", whole, self._place_range(place)
            )
            return self.convert(loaded, to)
        if place.bits <= 64:
            if place.signed:
                return f"wpx_sext64({place.code}, {place.bits})"
            return f"(uint64_t){place.code}"
        if place.bits <= 128:
            loaded_code = f"wpx_ld128({place.code})"
            return f"wpx_sext128({loaded_code}, {place.bits})" if place.signed else loaded_code
        loaded_code = f"wpx_{to.name}_limbs({place.code}, {limbs(place.bits)})"
        return f"wpx_low_{to.name}({loaded_code}, {place.bits}, 1)" if place.signed else loaded_code

    def _lookahead(self, offset: int, bits: int, to: Repr) -> str:
        parts = []
        for i in range(limbs(bits)):
            width = min(64, bits - 64 * i)
            bit = offset + bits - 64 * i - width
            needed = (bit + width + 7) // 8
            parts.append(
                f"(len - pos >= {needed} ? {load('(d + pos)', bit, width)} "
                f": wpx_peek(d + pos, len - pos, {bit}, {width}))"
            )
        if len(parts) == 1:
            return parts[0]
        if to == U128:
            return f"wpx_make128({parts[1]}, {parts[0]})"
        return f"(wpx_{to.name}){{{{{', '.join(parts)}}}}}"

    def _register(self, name: str, index: Expr, to: Repr) -> str:
        number, bits, size = self.register(name)
        cells = f"ctx->env->registers[{number}].cells"
        words = limbs(bits)
        if isinstance(index, Const) and not 0 <= index.value < size:
            return self.const(0, to)
        at = self.index(index)
        known = self.range(index).high < size
        if words == 1:
            code = f"{cells}[{at}]"
        elif words == 2:
            code = f"wpx_ld128({cells} + ({at}) * 2)"
        else:
            code = f"wpx_{to.name}_limbs({cells} + ({at}) * {words}, {words})"
        return code if known else f"({at} < {size} ? {code} : {self.const(0, to)})"

    @staticmethod
    def _not(code: str, to: Repr) -> str:
        if to.limbs:
            return f"wpx_sub_{to.name}(wpx_{to.name}_i64(-1), {code})"
        return f"(({to.ctype})-1 ^ {code})"  # ~ of a comparison would be warned of

    def _sign_extended(self, of: Expr, width: int, to: Repr) -> str:
        bounds = signed(width)
        if self.range(of).within(bounds.low, bounds.high):
            return self.convert(self.exact(of), to)
        whole = wrapping(width)
        low = self._low(of, whole)
        if whole.limbs:
            extended = Value(f"wpx_low_{whole.name}({low}, {width}, 1)", whole, bounds)
        else:
            into = Repr("i64" if whole == U64 else "i128")
            extended = Value(f"wpx_sext{whole.bits}({low}, {width})", into, bounds)
        return self.convert(extended, to)

    def _saturated(self, of: Expr, width: int, with_sign: bool, to: Repr) -> str:
        bounds = signed(width) if with_sign else unsigned(width)
        value = self.exact(of)
        if value.range.within(bounds.low, bounds.high):
            return self.convert(value, to)
        into = self._use(repr_for(value.range | bounds))
        low, high = self.const(bounds.low, into), self.const(bounds.high, into)
        code = f"wpx_clamp_{into.name}({self.convert(value, into)}, {low}, {high})"
        return self.convert(Value(code, into, bounds), to)

    def _binary(self, op: str, left: Expr, right: Expr, to: Repr) -> str:
        if op in ("<<", ">>"):
            return self._shift(op, left, right, to)
        if op in ("/", "%"):
            both = self._use(repr_for(self.range(left) | self.range(right)))
            if both.name == "i64":
                both = Repr("i128")
            a, b = (self.convert(self.exact(x), both) for x in (left, right))
            name = "div" if op == "/" else "mod"
            result = Value(f"wpx_{name}_{both.name}({a}, {b})", both, Range(0, 0))
            return self.convert(result, to)
        if op == "&":  # a mask needs only the other side's low bits
            for mask, other in ((right, left), (left, right)):
                bounds = self.range(mask)
                if bounds.low >= 0 and bounds.high.bit_length() <= to.bits:
                    width = max(1, bounds.high.bit_length())
                    whole = wrapping(width)
                    low = Value(self._low(other, whole), whole, unsigned(width))
                    kept = Value(self.convert(self.exact(mask), whole), whole, bounds)
                    if (
                        isinstance(mask, Const)
                        and self.range(other).within(0, mask.value)
                        and (mask.value & (mask.value + 1) == 0)
                    ):
                        return self.convert(low, to)
                    code = self._infix("&", low.code, kept.code, whole)
                    return self.convert(Value(code, whole, bounds), to)
        wide = repr_for(self.range(left) | self.range(right)) if op in "&|^" else to
        wide = self._use(wide)
        a, b = (self.convert(self.exact(x), wide.unsigned) for x in (left, right))
        code = self._infix(op, a, b, wide)
        if wide.unsigned != wide:
            code = f"({wide.ctype}){code}"
        return self.convert(Value(code, wide, Range(0, 0)), to)

    @staticmethod
    def _infix(op: str, a: str, b: str, of: Repr) -> str:
        return f"wpx_{_INFIX[op]}_{of.name}({a}, {b})" if of.limbs else f"({a} {op} {b})"

    def _shift(self, op: str, left: Expr, right: Expr, to: Repr) -> str:
        value = self.exact(left)
        amounts = self.range(right)
        name = "shl" if op == "<<" else "shr"
        if name == "shl" and amounts.high > MAX_SHIFT:
            if value.range == Range(0, 0):
                return self.const(0, to)
            amount = f"wpx_clamp_u64({self.index(right)}, 0, {MAX_SHIFT})"
        else:
            amount = self.index(right)
        of = to if name == "shl" else value.repr
        code = self.convert(value, of)
        if isinstance(right, Const) and not of.limbs and 0 <= right.value < of.bits:
            sign = "<<" if name == "shl" else ">>"
            if name == "shl" and of.unsigned != of:
                shifted = f"({of.ctype})(({of.unsigned.ctype}){code} << {right.value})"
            else:
                shifted = f"({code} {sign} {right.value})"
        else:
            shifted = f"wpx_{name}_{of.name}({code}, {amount})"
        return self.convert(Value(shifted, of, Range(0, 0)), to)

    # --- low bits ---------------------------------------------------------------------------

    def modulo(self, expr: Expr, bits: int) -> Value:
        """Return an integer expression modulo 2**bits, in the wrapping representation of that
        width.
        """
        whole = self._use(wrapping(bits))
        code = self._low(expr, whole)
        if self.range(expr).within(0, (1 << bits) - 1) or bits == whole.bits:
            return Value(code, whole, unsigned(bits))
        if whole.limbs:
            return Value(f"wpx_low_{whole.name}({code}, {bits}, 0)", whole, unsigned(bits))
        mask = self.const((1 << bits) - 1, whole)
        return Value(f"({code} & {mask})", whole, unsigned(bits))

    def _low(self, expr: Expr, whole: Repr) -> str:
        """Code for an integer expression modulo 2**whole.bits."""
        self._use(whole)
        values = self.range(expr)
        if repr_for(values).bits <= 64 and not repr_for(values).limbs:
            return self.convert(self.exact(expr), whole)
        match expr:
            case Const(value):
                return self.const(value & ((1 << whole.bits) - 1), whole)
            case Op(op, left, right) if op in LOW_CLOSED and left is not None:
                return self._infix(op, self._low(left, whole), self._low(right, whole), whole)
            case Op("~", _, right):
                return self._not(self._low(right, whole), whole)
            case Op("<<", left, right) if left is not None:
                low = self._low(left, whole)
                return f"wpx_shl_{whole.name}({low}, {self.index(right)})"
            case Op("two_comp_mod", left, right) if left is not None and (
                self._width(right) >= whole.bits
            ):
                return self._low(left, whole)
            case Ternary(cond, left, right):
                arms = (self._low(left, whole), self._low(right, whole))
                return f"({self.condition(cond)} ? {arms[0]} : {arms[1]})"
            case _:
                return self.convert(self.exact(expr), whole)

    # --- conditions -------------------------------------------------------------------------

    def condition(self, expr: Expr) -> str:
        """Return a boolean expression as a C condition."""
        match expr:
            case BoolConst(value):
                return "1" if value else "0"
            case Op("and", left, right):
                assert left is not None
                return f"({self.condition(left)} && {self.condition(right)})"
            case Op("or", left, right):
                assert left is not None
                return f"({self.condition(left)} || {self.condition(right)})"
            case Op("not", _, right):
                return f"!{self._paren(self.condition(right))}"
            case Op("d2b", _, right):
                known = compared("!=", self.range(right), Range(0, 0))
                if known is not None:
                    return "1" if known else "0"
                data = self.exact(right)
                if data.repr.limbs:
                    return f"wpx_nonzero_{data.repr.name}({data.code})"
                return f"({data.code} != 0)"
            case Op("valid", _, right):
                return f"({self.valid(right)} != 0)"
            case Op("valid_union", _, right):
                return self.union_valid(right)
            case Op("==b" | "!=b" as op, left, right):
                assert left is not None
                return f"(!{self.condition(left)} {op[:2]} !{self.condition(right)})"
            case Op("==h" | "!=h" as op, left, right):
                assert left is not None
                equal = self._headers_equal(left, right)
                return equal if op == "==h" else f"!{equal}"
            case Op("==u" | "!=u" as op, left, right):
                assert left is not None
                equal = self._unions_equal(left, right)
                return equal if op == "==u" else f"!{equal}"
            case Op(op, left, right) if op in _COMPARE:
                assert left is not None
                return self._compare(op, left, right)
            case Ternary(cond, left, right):
                arms = (self.condition(left), self.condition(right))
                return f"({self.condition(cond)} ? {arms[0]} : {arms[1]})"
            case _:
                raise self.error("expected a boolean expression")

    def _compare(self, op: str, left: Expr, right: Expr) -> str:
        known = compared(op, self.range(left), self.range(right))
        if known is not None:  # compilers warn of comparisons that can't fail
            return "1" if known else "0"
        both = self._use(repr_for(self.range(left) | self.range(right)))
        a, b = (self.convert(self.exact(x), both) for x in (left, right))
        return f"(wpx_cmp_{both.name}({a}, {b}) {op} 0)" if both.limbs else f"({a} {op} {b})"

    def union_valid(self, expr: Expr) -> str:
        """Return the C condition that some member of a union is valid."""
        name = self.program_union_type(expr)[0]
        base = self.union(expr)
        return "(" + " || ".join(f"{base}.{m}.valid" for m in self.layout.union_members(name)) + ")"

    def _equal_call(self, of: HeaderType, a: str, b: str) -> str:
        self.compared[of.name] = of
        return f"equal_{self.layout.type_name(of)}(&{a}, &{b})"

    def _headers_equal(self, left: Expr, right: Expr) -> str:
        of = self.header_type(left)
        if of is not self.header_type(right):
            return "0"
        for expr in (left, right):
            if isinstance(expr, HeaderRef) and self.program.headers[expr.name].metadata:
                raise self.error("metadata can't be compared as a whole")
        return self._equal_call(of, self.header(left), self.header(right))

    def _unions_equal(self, left: Expr, right: Expr) -> str:
        (name, members), (other, _) = (self.program_union_type(x) for x in (left, right))
        if name != other:
            return "0"
        a, b = self.union(left), self.union(right)
        names = self.layout.union_members(name)
        return (
            "("
            + " || ".join(
                self._equal_call(of, f"{a}.{m}", f"{b}.{m}")
                for m, (_, of) in zip(names, members, strict=True)
            )
            + ")"
        )
