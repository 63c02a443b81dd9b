"""Draws statements, functions and actions."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_programs import model as m
from tests.random_programs.draw_expressions import ARITHMETIC, ExpressionDraw, Leaf, Sight
from tests.random_programs.interpreter import HASHES
from tests.random_programs.types import (
    BOOL,
    Bits,
    Stack,
    Struct,
    Type,
    Varbit,
    bit,
    has_varbit,
    width_of,
)


def leaves_of(expr: m.Expr, type_: Type, needs: str = "", writable: bool = True) -> list[Leaf]:
    """Return the readable parts of a variable: of structs, headers and stacks each field."""
    match type_:
        case Struct(kind="header", fields=fields):
            name = key_of(expr)
            return [
                Leaf(m.Field(of, expr, field), of, writable, name)
                for field, of in fields
                if not isinstance(of, Varbit)
            ]
        case Struct(fields=fields):
            return [
                leaf
                for field, of in fields
                for leaf in leaves_of(m.Field(of, expr, field), of, needs, writable)
            ]
        case Stack(element=element, size=size):
            return [
                leaf
                for at in range(size)
                for leaf in leaves_of(
                    m.Index(element, expr, m.Lit(bit(8), at, bare=True)), element, "", writable
                )
            ]
    return [Leaf(expr, type_, writable, needs)]


def headers_of(expr: m.Expr, type_: Type) -> dict[str, m.Expr]:
    """All headers in a variable, by what they are called here."""
    match type_:
        case Struct(kind="header"):
            return {key_of(expr): expr}
        case Struct(fields=fields):
            found: dict[str, m.Expr] = {}
            for field, of in fields:
                found |= headers_of(m.Field(of, expr, field), of)
            return found
        case Stack(element=element, size=size):
            found = {}
            for at in range(size):
                item = m.Index(element, expr, m.Lit(bit(8), at, bare=True))
                found |= headers_of(item, element)
            return found
    return {}


def key_of(expr: m.Expr) -> str:
    """Return a name for a place that has no index drawn at run time."""
    match expr:
        case m.Var(name=name):
            return name
        case m.Field(base=base, name=name):
            return f"{key_of(base)}.{name}"
        case m.Index(base=base, index=m.Lit(value=at)):
            return f"{key_of(base)}[{at}]"
    raise TypeError(f"no name for {expr}")


class StatementDraw(ExpressionDraw):
    """Draws statements; names that it declares are new in the whole program."""

    names = 0

    def name(self, lead: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{lead}{self.names}"

    def body(self, sight: Sight, count: int, depth: int) -> list[m.Stmt]:
        """About so many statements."""
        made: list[m.Stmt] = []
        for _ in range(count):
            made += self.statement(sight, depth)
        return made

    def statement(self, sight: Sight, depth: int) -> list[m.Stmt]:
        """One statement, sometimes with what it needs before it."""
        options: list[tuple[int, Callable[[], list[m.Stmt]]]] = [
            (34, lambda: self._assign(sight)),
            (6, lambda: self._op_assign(sight)),
            (8, lambda: self._declare(sight)),
            (5, lambda: self._call_stmt(sight, sight.functions)),
        ]
        if depth > 0:
            options.append((12, lambda: self._if(sight, depth - 1)))
            options.append((4, lambda: self._copy(sight)))
        if depth > 0 and not sight.in_parser:
            options += [
                (6, lambda: self._guarded(sight, depth - 1)),
            ]
            if not self.portable:
                options.append((3, lambda: self._for(sight)))
            if not sight.in_action:
                options.append((4, lambda: self._switch(sight, depth - 1)))
        if sight.control is not None:
            options += [
                (9, lambda: self._call_stmt(sight, sight.actions)),
                (8, lambda: self._validity(sight)),
                (6, lambda: self._register(sight)),
                (5 if sight.stacks else 0, lambda: self._stack(sight)),
                (3, lambda: self._count(sight)),
                (4, lambda: self._hash(sight)),
            ]
            if not (self.portable and sight.in_loop):
                options.append((1, lambda: [m.Drop()]))
            if sight.tables and depth > 0 and not sight.in_loop:
                options.append((26, lambda: self._apply(sight, depth - 1)))
        options += self.more(sight)
        if sight.may_exit and depth == 0:
            options.append((2, lambda: [m.Jump("exit")]))
        weights = [weight for weight, _ in options]
        return self.random.choices([draw for _, draw in options], weights)[0]()

    def more(self, sight: Sight) -> list[tuple[int, Callable[[], list[m.Stmt]]]]:
        """Other kinds of statements with their weights."""
        return []

    # --- assignments ----------------------------------------------------------------------------

    def _target(self, sight: Sight) -> m.Expr | None:
        found = [leaf for leaf in sight.readable() if leaf.writable]
        if not found:
            return None
        leaf = self.random.choice(found)
        if (
            isinstance(leaf.type, Bits)
            and leaf.type.width > 1
            and not (self.portable and leaf.type.signed)
            and self.chance(15)
        ):
            low = self.random.randrange(leaf.type.width)
            high = self.random.randrange(low, leaf.type.width)
            return m.Slice(bit(high - low + 1), leaf.expr, high, low)
        return leaf.expr

    def _assign(self, sight: Sight) -> list[m.Stmt]:
        target = self._target(sight)
        if target is None:
            return []
        assert target.type is not None
        value = self.expr(target.type, sight)
        if self.portable and sight.in_loop and value == target:
            return []
        return [m.Assign(target, value)]

    def _op_assign(self, sight: Sight) -> list[m.Stmt]:
        target = self._target(sight)
        if target is None or not isinstance(target.type, Bits):
            return []
        if self.chance(25):
            by = m.Lit(bit(8), self.random.randrange(target.type.width + 1), bare=True)
            return [m.Assign(target, by, self.random.choice(("<<", ">>")))]
        op = self.random.choice(ARITHMETIC)
        return [m.Assign(target, self.expr(target.type, sight, 2), op)]

    def _declare(self, sight: Sight) -> list[m.Stmt]:
        type_, name = self.leaf_type(), self.name("v")
        made = m.Declare(name, type_, self.expr(type_, sight))
        sight.leaves.append(Leaf(m.Var(type_, name), type_))
        return [made]

    def _copy(self, sight: Sight) -> list[m.Stmt]:
        """Return a header assigned to another of its type."""
        names = [name for name in sight.headers if name in sight.valid]
        if not names:
            return []
        source = sight.headers[self.random.choice(names)]
        same = [
            name for name, header in sight.headers.items()
            if header.type == source.type and ".u" not in name
        ]  # fmt: skip
        target = self.random.choice(same) if same else None
        if target is None or sight.in_parser or sight.headers[target] is source:
            return []
        sight.valid.add(target)
        return [m.Assign(sight.headers[target], source)]

    # --- branches -------------------------------------------------------------------------------

    def _block(self, sight: Sight, depth: int, add: str = "") -> list[m.Stmt]:
        inner = sight.inner()
        if add:
            inner.valid.add(add)
        made = self.body(inner, self.random.randint(1, 3), depth)
        sight.valid &= inner.valid
        return made or self._declare(sight.inner())

    def _if(self, sight: Sight, depth: int) -> list[m.Stmt]:
        condition = self.expr(BOOL, sight)
        if sight.tables and not sight.in_loop and self.chance(15):
            condition = m.Hit(self._take_table(sight), self.chance(30))
        yes = self._block(sight, depth)
        return [m.If(condition, yes, self._block(sight, depth) if self.chance(50) else [])]

    def _guarded(self, sight: Sight, depth: int) -> list[m.Stmt]:
        """Something about a header that is there only sometimes."""
        names = [name for name in sight.headers if name not in sight.valid]
        if not names:
            return []
        name = self.random.choice(names)
        yes = self._block(sight, depth, add=name)
        return [m.If(m.IsValid(sight.headers[name]), yes)]

    def _switch(self, sight: Sight, depth: int) -> list[m.Stmt]:
        widths = [width for width in self.widths if width <= 16] or [8]
        of = bit(self.random.choice(widths))
        value = self.expr(of, sight)
        if isinstance(value, m.Lit):
            return []
        labels = {self.random.randrange(1 << min(of.width, 3)) for _ in range(4)}
        cases = self._cases([*labels], sight, depth)
        return [m.Switch(value, "", cases)]

    def _cases(self, labels: list[int | str], sight: Sight, depth: int) -> list[m.Case]:
        cases: list[m.Case] = []
        rest: list[int | str | None] = list(labels)
        while rest:
            falls = len(rest) > 1 and self.chance(20)
            cases.append(m.Case([rest.pop(0)], None if falls else self._block(sight, depth)))
        if self.chance(60):
            cases.append(m.Case([None], self._block(sight, depth)))
        return cases

    def _for(self, sight: Sight) -> list[m.Stmt]:
        of, name = bit(self.random.choice((4, 8, 16))), self.name("i")
        low = self.random.randrange(3)
        inner = sight.inner()
        inner.in_loop = True
        inner.leaves.append(Leaf(m.Var(of, name), of, writable=False))
        body = self.body(inner, self.random.randint(1, 2), 0)
        if self.chance(25):
            body.append(m.If(self.expr(BOOL, inner, 2), [m.Jump(self._leave())]))
            body += self.body(inner, 1, 0)
        sight.valid &= inner.valid
        if not body:
            return []
        return [m.For(name, of, low, low + self.random.randrange(3), body, ranged=False)]

    def _leave(self) -> str:
        return self.random.choice(("break", "continue"))

    # --- calls, tables, externs -----------------------------------------------------------------

    def _call_stmt(self, sight: Sight, of: list[m.Function]) -> list[m.Stmt]:
        if not of:
            return []
        function = self.random.choice(of)
        args = self.args(function, sight, 2)
        if args is None:
            return []
        return [m.CallStmt(m.Call(function.result, function.name, args))]

    def _take_table(self, sight: Sight) -> str:
        return sight.tables.pop(self.random.randrange(len(sight.tables)))

    def _apply(self, sight: Sight, depth: int) -> list[m.Stmt]:
        table = self._take_table(sight)
        if self.chance(65):
            return [m.Apply(table)]
        assert sight.control is not None
        made = next(known for known in sight.control.tables if known.name == table)
        labels = [name for name in made.actions if self.chance(70)]
        if not labels:
            return [m.Apply(table)]
        return [m.Switch(None, table, self._cases([*labels], sight, depth))]

    def _validity(self, sight: Sight) -> list[m.Stmt]:
        names = [name for name in sight.headers if name != "hdr.h0" and ".u" not in name]
        if not names:
            return []
        name = self.random.choice(names)
        header = sight.headers[name]
        assert isinstance(header.type, Struct)
        if self.chance(30):
            sight.valid.discard(name)
            return [m.SetValidity(header, False)]
        if has_varbit(header.type):
            return []
        items = [self.expr(of, sight, 1) for _, of in header.type.fields]
        sight.valid.add(name)
        if not self.portable and self.chance(50):
            return [m.Assign(header, m.Tuple(header.type, items, named=self.chance(50)))]
        pairs = zip(header.type.fields, items, strict=True)
        fields: list[m.Stmt] = [m.Assign(m.Field(f[1], header, f[0]), item) for f, item in pairs]
        return [m.SetValidity(header, True), *fields]

    def _stack(self, sight: Sight) -> list[m.Stmt]:
        """Move a stack by some, or use an element that is found only when it runs."""
        stack = self.random.choice(sight.stacks)
        assert isinstance(stack.type, Stack)
        element, size = stack.type.element, stack.type.size
        if self.chance(40):
            sight.valid = {name for name in sight.valid if not name.startswith(key_of(stack))}
            return [m.Push(stack, self.random.choice((1, -1, 1, -1, size)))]
        index = self.expr(bit((size - 1).bit_length()), sight, 1)
        if isinstance(index, m.Lit):
            return []
        names = [(name, of) for name, of in element.fields if isinstance(of, Bits)]
        name, of = self.random.choice(names)
        place = m.Field(of, m.Index(element, stack, index), name)
        return [m.Assign(place, self.expr(of, sight, 2))]

    def _register(self, sight: Sight) -> list[m.Stmt]:
        assert sight.control is not None
        if not sight.control.registers:
            return []
        register = self.random.choice(sight.control.registers)
        index = self.expr(bit((register.size - 1).bit_length()), sight, 1)
        if self.chance(50):
            target = self.leaf(register.type, sight, writable=True)
            if target is not None:
                return [m.RegisterRead(register.name, target.expr, index)]
        return [m.RegisterWrite(register.name, index, self.expr(register.type, sight, 2))]

    def _count(self, sight: Sight) -> list[m.Stmt]:
        assert sight.control is not None
        if not sight.control.counters:
            return []
        counter = self.random.choice(sight.control.counters)
        index = self.expr(bit((counter.size - 1).bit_length()), sight, 1)
        return [m.Count(counter.name, index)]

    def _hash(self, sight: Sight) -> list[m.Stmt]:
        algorithm = self.random.choice(sorted(HASHES))
        items: list[m.Expr] = [self.expr(self.bits_type(), sight, 1) for _ in range(2)]
        if algorithm == "identity":
            items = items[:1]
        missing = -sum(width_of(item.type) for item in items) % 8  # type: ignore[arg-type]
        if missing:
            items.append(m.Lit(bit(missing), 0))
        if sum(width_of(item.type) for item in items) > 64 and algorithm == "identity":  # type: ignore[arg-type]
            return []
        targets = [
            leaf for leaf in sight.readable()
            if leaf.writable and isinstance(leaf.type, Bits)
            and 8 < leaf.type.width <= 64 and not leaf.type.signed
        ]  # fmt: skip
        if not targets:
            return []
        leaf = self.random.choice(targets)
        of = bit(16)
        base = m.Lit(of, self.random.choice((0, 0, 3)))
        limit = m.Lit(of, self.random.choice((1, 7, 256, 1000, 65535)))
        return [m.Hash(leaf.expr, algorithm, base, items, limit)]

    # --- functions and actions ------------------------------------------------------------------

    def params(self, directions: str) -> list[m.Param]:
        """One to three parameters, by the directions' initials; "d": data of the control plane."""
        words = {"i": "in", "o": "out", "b": "inout", "d": ""}
        drawn = [words[self.random.choice(directions)] for _ in range(self.random.randint(1, 3))]
        drawn.sort(key=lambda direction: direction == "")
        return [
            m.Param(direction, self.name("p"), self.leaf_type() if direction else self.data_type())
            for direction in drawn
        ]

    def data_type(self) -> Type:
        """Return the type of an action's data."""
        return bit(self.random.choice(self.widths))

    def open_body(self, params: list[m.Param], sight: Sight) -> list[m.Stmt]:
        """Give what is `out` a value, and make the parameters visible."""
        made: list[m.Stmt] = []
        for param in params:
            if param.direction != "out":
                place = m.Var(param.type, param.name)
                sight.leaves.append(Leaf(place, param.type, param.direction == "inout"))
        for param in params:
            if param.direction == "out":
                place = m.Var(param.type, param.name)
                made.append(m.Assign(place, self.expr(param.type, sight, 2)))
                sight.leaves.append(Leaf(place, param.type))
        return made

    def function(self, functions: list[m.Function]) -> m.Function:
        """Draw a function that may call those before it."""
        params = self.params("iiob")
        result = self.leaf_type() if self.chance(75) else None
        sight = Sight(functions=list(functions), in_action=True)  # actions may call it
        body = self.open_body(params, sight)
        body += self.body(sight, self.random.randint(1, 3), 1)
        if self.chance(40):
            value = None if result is None else self.expr(result, sight, 2)
            jump = m.Jump("return", value)
            body.append(m.If(self.expr(BOOL, sight, 2), [jump]))
            body += self.body(sight, 1, 1)
        if result is not None:
            body.append(m.Jump("return", self.expr(result, sight, 2)))
        return m.Function(self.name("f"), params, result, body)

    def action(self, sight: Sight) -> m.Function:
        """Draw an action of a control; it sees what the control declares."""
        inner = sight.inner()
        inner.in_action = True
        params = self.params("dd") if self.chance(60) else self.params("iobd")
        body = self.open_body(params, inner)
        body += self.body(inner, self.random.randint(1, 3), 1 if self.chance(50) else 0)
        if self.chance(15):
            may_exit = not self.portable or all(param.direction == "" for param in params)
            word = self.random.choice(("return", "exit") if may_exit else ("return",))
            body.append(m.If(self.expr(BOOL, inner, 2), [m.Jump(word)]))
            body += self.body(inner, 1, 0)
        return m.Function(self.name("a"), params, None, body)
