"""Draws expressions of a wanted type out of what may be read where they stand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.random_programs import model as m
from tests.random_programs.types import BOOL, ERROR, Bits, Bool, Enum, Error, Type, bit

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "&", "|", "^", "|+|", "|-|")
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 20, 24, 31, 32, 33, 40, 48, 63, 64, 65, 72, 96,
          100, 127, 128, 129, 160, 200)  # fmt: skip
SHIFT_BITS = 8
"""BMv2 computes shifts on numbers without end: by 2**32 they would take all memory."""
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds")


@dataclass(frozen=True)
class Leaf:
    """Something that can be read; `needs`: the header that has to be valid, "" for none."""

    expr: m.Expr
    type: Type
    writable: bool = True
    needs: str = ""


@dataclass
class Sight:
    """What the code at one place may use."""

    leaves: list[Leaf] = field(default_factory=list)
    headers: dict[str, m.Expr] = field(default_factory=dict)
    stacks: list[m.Field] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    functions: list[m.Function] = field(default_factory=list)
    actions: list[m.Function] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    control: m.Control | None = None
    in_parser: bool = False
    in_action: bool = False
    in_loop: bool = False
    may_exit: bool = False

    def inner(self) -> Sight:
        """Return the sight within a block: its declarations end with it, tables are used up."""
        return replace(self, leaves=list(self.leaves), valid=set(self.valid))

    def readable(self) -> list[Leaf]:
        """Leaves that hold something."""
        return [leaf for leaf in self.leaves if not leaf.needs or leaf.needs in self.valid]


class ExpressionDraw:
    """Draws expressions; `random` decides everything."""

    def __init__(
        self,
        chance: random.Random,
        widths: list[int],
        enums: list[Enum],
        portable: bool = False,
    ) -> None:
        self.random, self.portable = chance, portable
        self.widths, self.enums = widths, enums

    def chance(self, percent: int) -> bool:
        """Return True with a chance of `percent`."""
        return self.random.randrange(100) < percent

    def bits_type(self) -> Bits:
        """One of the program's widths, sometimes signed."""
        width = self.random.choice(self.widths)
        return Bits(width, width > 1 and self.chance(25))

    def leaf_type(self) -> Type:
        """Return the type of a variable."""
        at = self.random.randrange(10)
        if at == 0:
            return BOOL
        if at == 1 and self.enums:
            return self.random.choice(self.enums)
        return self.bits_type()

    # --- leaves ---------------------------------------------------------------------------------

    def literal(self, type_: Type, bare: bool = False) -> m.Lit:
        """Draw a constant, with a liking for ends of the range."""
        match type_:
            case Bool():
                return m.Lit(BOOL, self.chance(50))
            case Enum(members=members):
                return m.Lit(type_, self.random.choice(members)[1])
            case Error():
                return m.Lit(ERROR, self.random.choice(ERRORS))
            case Bits():
                return m.Lit(type_, self.number(type_), bare)
        raise TypeError(f"no literals of {type_}")

    def number(self, type_: Bits) -> int:
        """Return a value of the type."""
        low = -(1 << (type_.width - 1)) if type_.signed else 0
        high = low + (1 << type_.width) - 1
        match self.random.randrange(6):
            case 0:
                return self.random.choice((low, high, 0, max(low, min(high, 1)), high - 1))
            case 1 | 2 | 3:
                return max(low, min(high, self.random.randrange(-4 if type_.signed else 0, 12)))
        return self.random.randint(low, high)

    def leaf(self, type_: Type, sight: Sight, writable: bool = False) -> Leaf | None:
        """Return a variable of exactly that type, if there is one."""
        found = [
            leaf
            for leaf in sight.readable()
            if leaf.type == type_ and (leaf.writable or not writable)
        ]
        return self.random.choice(found) if found else None

    # --- expressions ----------------------------------------------------------------------------

    def expr(self, type_: Type, sight: Sight, depth: int = 3) -> m.Expr:
        """Return an expression of that type, of at most so many levels."""
        if depth <= 0 or self.chance(12):
            leaf = self.leaf(type_, sight)
            if leaf is not None and self.chance(85):
                return leaf.expr
            converted = self._converted(type_, sight) if isinstance(type_, Bits) else None
            return converted or self.literal(type_)
        match type_:
            case Bits():
                return self._bits(type_, sight, depth - 1)
            case Bool():
                return self._bool(sight, depth - 1)
            case Enum():
                return self._enum(type_, sight, depth - 1)
        return self.literal(type_)

    def _bits(self, type_: Bits, sight: Sight, depth: int) -> m.Expr:
        options: list[Callable[[], m.Expr | None]] = [
            lambda: self._arithmetic(type_, sight, depth),
            lambda: self._arithmetic(type_, sight, depth),
            lambda: self._shift(type_, sight, depth),
            lambda: m.Unary(type_, self.random.choice("-~"), self.expr(type_, sight, depth)),
            lambda: self._mux(type_, sight, depth),
            lambda: self._converted(type_, sight),
            lambda: self._cast(type_, sight, depth),
            lambda: self._call(type_, sight, depth),
        ]
        if not type_.signed:
            options += [
                lambda: self._divided(type_, sight, depth),
                lambda: self._concat(type_, sight, depth),
                lambda: self._sliced(type_, sight, depth),
            ]
        return self.random.choice(options)() or self.expr(type_, sight, depth)

    def _arithmetic(self, type_: Bits, sight: Sight, depth: int) -> m.Expr:
        op = self.random.choice(ARITHMETIC)
        left = self.expr(type_, sight, depth)
        if not isinstance(left, m.Lit) and self.chance(20):
            return m.Binary(type_, op, left, self.literal(type_, bare=True))
        return m.Binary(type_, op, left, self.expr(type_, sight, depth))

    def _shift(self, type_: Bits, sight: Sight, depth: int) -> m.Expr:
        op, left = self.random.choice(("<<", ">>")), self.expr(type_, sight, depth)
        if self.chance(50):
            count = self.random.randrange(min(type_.width + 2, 1 << SHIFT_BITS))
            return m.Binary(type_, op, left, m.Lit(bit(SHIFT_BITS), count, bare=self.chance(50)))
        widths = [width for width in self.widths if width <= SHIFT_BITS] or [SHIFT_BITS]
        by = bit(self.random.choice(widths))
        return m.Binary(type_, op, left, self.expr(by, sight, depth))

    def _divided(self, type_: Bits, sight: Sight, depth: int) -> m.Expr | None:
        power = self.random.randrange(min(type_.width, 12))
        divisor = m.Lit(type_, 1 << power, bare=self.chance(50))
        left = self.expr(type_, sight, depth)
        if isinstance(left, m.Lit):
            return None
        return m.Binary(type_, self.random.choice("/%"), left, divisor)

    def _concat(self, type_: Bits, sight: Sight, depth: int) -> m.Expr | None:
        if type_.width < 2:
            return None
        known = [width for width in self.widths if width < type_.width]
        first = self.random.choice(known) if known else 1
        parts = bit(first), bit(type_.width - first)
        if self.chance(50):
            parts = parts[1], parts[0]
        left, right = (self.expr(part, sight, depth) for part in parts)
        return m.Binary(type_, "++", left, right)

    def _sliced(self, type_: Bits, sight: Sight, depth: int) -> m.Expr | None:
        wide = [width for width in self.widths if width > type_.width]
        if not wide:
            return None
        of = Bits(self.random.choice(wide), self.chance(15))
        low = self.random.randrange(of.width - type_.width + 1)
        base = self.expr(of, sight, depth)
        if isinstance(base, m.Lit):
            return None
        return m.Slice(type_, base, low + type_.width - 1, low)

    def _mux(self, type_: Type, sight: Sight, depth: int) -> m.Expr:
        yes, no = self.expr(type_, sight, depth), self.expr(type_, sight, depth)
        return m.Mux(type_, self.expr(BOOL, sight, depth), yes, no)

    def _converted(self, type_: Bits, sight: Sight) -> m.Expr | None:
        """Return a variable of another bit type, cast."""
        found = [leaf for leaf in sight.readable() if isinstance(leaf.type, Bits)]
        if not found:
            return None
        leaf = self.random.choice(found)
        assert isinstance(leaf.type, Bits)
        return self.convert(leaf.expr, leaf.type, type_)

    def _cast(self, type_: Bits, sight: Sight, depth: int) -> m.Expr | None:
        enums = [enum for enum in self.enums if enum.width == type_.width]
        if enums and not type_.signed and self.chance(50):
            return m.Cast(type_, self.expr(self.random.choice(enums), sight, depth))
        if type_ == bit(1) and self.chance(60):
            return m.Cast(type_, self.expr(BOOL, sight, depth))
        of = self.bits_type()
        return self.convert(self.expr(of, sight, depth), of, type_)

    def convert(self, node: m.Expr, of: Bits, to: Bits) -> m.Expr:
        """Return a cast in the steps that P4 asks for: sign and width one after the other."""
        if of == to:
            return node
        if of.signed != to.signed and of.width != to.width:
            if self.portable or self.chance(50):
                node = m.Cast(Bits(to.width, of.signed), node)
            else:
                node = m.Cast(Bits(of.width, to.signed), node)
        return m.Cast(to, node)

    def _bool(self, sight: Sight, depth: int) -> m.Expr:
        at = self.random.randrange(14)
        if at < 6:
            return self._comparison(sight, depth)
        if at < 8:
            left, right = self.expr(BOOL, sight, depth), self.expr(BOOL, sight, depth)
            return m.Binary(BOOL, self.random.choice(("&&", "||")), left, right)
        if at == 8:
            return m.Unary(BOOL, "!", self.expr(BOOL, sight, depth))
        if at == 9 and sight.headers and not sight.in_parser:
            return m.IsValid(self.random.choice(list(sight.headers.values())))
        if at == 10:
            return m.Cast(BOOL, self.expr(bit(1), sight, depth))
        if at == 11:
            return self._mux(BOOL, sight, depth)
        if at == 12:
            return self._call(BOOL, sight, depth) or self._comparison(sight, depth)
        return self._leaf_or_literal(BOOL, sight)

    def _leaf_or_literal(self, type_: Type, sight: Sight) -> m.Expr:
        leaf = self.leaf(type_, sight)
        return leaf.expr if leaf is not None else self.literal(type_)

    def _comparison(self, sight: Sight, depth: int) -> m.Expr:
        of: Type = self.bits_type()
        ops = COMPARISONS
        if self.chance(15):
            of, ops = self.leaf_type(), COMPARISONS[:2]
        errors = [leaf for leaf in sight.readable() if leaf.type == ERROR]
        if errors and self.chance(10):
            right = self.literal(ERROR)
            return m.Binary(BOOL, self.random.choice(COMPARISONS[:2]), errors[0].expr, right)
        left = self.expr(of, sight, depth)
        bare = isinstance(of, Bits) and not isinstance(left, m.Lit) and self.chance(30)
        right_side = self.literal(of, bare=True) if bare else self.expr(of, sight, depth)
        return m.Binary(BOOL, self.random.choice(ops), left, right_side)

    def _enum(self, type_: Enum, sight: Sight, depth: int) -> m.Expr:
        if self.chance(30):
            return self._mux(type_, sight, depth)
        if type_.width and self.chance(50):
            return m.Cast(type_, self.expr(bit(type_.width), sight, depth))
        return self._leaf_or_literal(type_, sight)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, type_: Type, sight: Sight, depth: int) -> m.Expr | None:
        found = [function for function in sight.functions if function.result == type_]
        if not found:
            return None
        function = self.random.choice(found)
        args = self.args(function, sight, depth)
        return None if args is None else m.Call(type_, function.name, args)

    def args(self, function: m.Function, sight: Sight, depth: int) -> list[m.Expr] | None:
        """Arguments for all its parameters; None where one that it changes can't be had."""
        made: list[m.Expr] = []
        for param in function.params:
            if param.direction in ("out", "inout"):
                place = self.target(param.type, sight)
                if place is None:
                    return None
                made.append(place)
            elif param.direction == "":
                made.append(self.literal(param.type))
            else:
                made.append(self.expr(param.type, sight, depth))
        return made

    def target(self, type_: Type, sight: Sight) -> m.Expr | None:
        """Something of that type that can be assigned to, sometimes a slice of a wider one."""
        if isinstance(type_, Bits) and not type_.signed and self.chance(15):
            wide = [
                leaf
                for leaf in sight.readable()
                if isinstance(leaf.type, Bits) and leaf.writable and leaf.type.width > type_.width
            ]
            if wide:
                leaf = self.random.choice(wide)
                assert isinstance(leaf.type, Bits)
                low = self.random.randrange(leaf.type.width - type_.width + 1)
                return m.Slice(type_, leaf.expr, low + type_.width - 1, low)
        found = self.leaf(type_, sight, writable=True)
        return None if found is None else found.expr
