"""Parser of types and expressions (spec sections 7 and 8)."""

from __future__ import annotations

from compiler.errors import CompileError, Pos
from compiler.syntax import ast
from compiler.syntax.lexer import parse_integer
from compiler.syntax.parser_base import BASE_TYPES, NAME_KINDS, ParserBase

# Binding strength; `|` binds tighter than `==`, unlike in C.
_PRECEDENCE: dict[str, int] = {
    "||": 1,
    "&&": 2,
    "==": 3, "!=": 3,
    "<": 4, ">": 4, "<=": 4, ">=": 4,
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8, ">>": 8,
    "+": 9, "-": 9, "|+|": 9, "|-|": 9, "++": 9,
    "*": 10, "/": 10, "%": 10,
}  # fmt: skip

_UNARY = {op.value: op for op in ast.UnaryOp}
_BINARY = {op.value: op for op in ast.BinaryOp}

# Tokens that can start an operand: what may follow the `)` of a cast.
_OPERAND_STARTS = NAME_KINDS | BASE_TYPES | frozenset(
    {"integer", "str", "true", "false", "this", "(", "{", "{#}", "...", ".", "!", "~", "-", "+"}
)  # fmt: skip


class ExpressionParser(ParserBase):
    """Types, expressions, keysets and arguments."""

    # ------------------------------------------------------------ types

    def type_ref(self) -> ast.TypeRef:
        """Parse `typeRef`: any type, with `[size]` suffixes."""
        ref = self._simple_type()
        while self._kind == "[":
            pos = self._advance().pos
            size = self.expression()
            self._expect("]")
            ref = ast.StackTypeRef(ref.pos if ref.pos else pos, ref, size)
        return ref

    def _simple_type(self) -> ast.TypeRef:
        token = self._tok
        kind = token.kind
        if kind in ("bit", "int", "varbit"):
            self._advance()
            return ast.BaseTypeRef(token.pos, kind, self._width(kind))
        if kind in ("bool", "error", "string", "match_kind", "void"):
            self._advance()
            return ast.BaseTypeRef(token.pos, kind)
        if kind == "tuple":
            self._advance()
            return ast.TupleTypeRef(token.pos, self.type_args())
        if kind == "list" and self._peek().kind == "<":
            self._advance()
            args = self.type_args()
            if len(args) != 1:
                raise CompileError.at(token.pos, f"list takes 1 type argument, not {len(args)}")
            return ast.ListTypeRef(token.pos, args[0])
        absolute = self._accept(".") is not None
        name = self._name("a type")
        ref = ast.NamedTypeRef(token.pos, name.text, [], absolute)
        if self._kind == "<":
            ref.args = self.type_args()
        return ref

    def _width(self, kind: str) -> ast.Expr | None:
        """Parse the `<width>` of bit, int and varbit.

        A bare `bit` is `bit<1>`, a bare `int` has none.
        """
        if self._kind != "<":
            if kind == "varbit":
                self._fail('"<"')
            if kind == "bit":
                return ast.IntLiteral(self._pos, 1, text="1")
            return None
        self._advance()
        width = self._ternary(allow_greater=False)
        self._expect(">")
        return width

    def type_args(self) -> list[ast.TypeRef]:
        """Parse `<T, ...>`; `_` and `void` are arguments too."""
        self._expect("<")
        args: list[ast.TypeRef] = []
        while self._kind != ">":
            if self._kind == "_":
                args.append(ast.BaseTypeRef(self._advance().pos, "_"))
            else:
                args.append(self.type_ref())
            if not self._accept(","):
                break
        self._expect(">")
        return args

    # ------------------------------------------------------------ expressions

    def expression(self) -> ast.Expr:
        """Parse `expression`."""
        return self._ternary(allow_greater=True)

    def _ternary(self, *, allow_greater: bool) -> ast.Expr:
        """Parse `cond ? then : otherwise`.

        In p4c's grammar `:` binds tighter than `?`, so `a ? x : b ? y : z` is
        `(a ? x : b) ? y : z`, unlike in C.
        """
        cond = self._binary(0, allow_greater=allow_greater)
        while self._accept("?"):
            then = self.expression()
            self._expect(":")
            otherwise = self._binary(0, allow_greater=allow_greater)
            cond = ast.Ternary(cond.pos, cond, then, otherwise)
        return cond

    def _binary(self, minimum: int, *, allow_greater: bool) -> ast.Expr:
        left = self._unary()
        while True:
            op = self._kind
            shift = op == ">" and self._touches_next() and self._peek().kind == ">"
            if shift:
                op = ">>"
            strength = _PRECEDENCE.get(op, 0)
            if strength <= minimum or (not allow_greater and op in (">", ">>")):
                return left
            if shift and self._peek(2).kind == ">=":
                return left
            if op == ">>" and self._peek().kind != ">":
                return left
            self._advance()
            if shift:
                self._advance()
            right = self._binary(strength, allow_greater=allow_greater)
            left = ast.Binary(left.pos, _BINARY[op], left, right)

    def _unary(self) -> ast.Expr:
        token = self._tok
        if token.kind in _UNARY:
            self._advance()
            return ast.Unary(token.pos, _UNARY[token.kind], self._unary())
        if token.kind == "(":
            cast = self._cast()
            if cast is not None:
                return cast
        return self._postfix(self._primary())

    def _cast(self) -> ast.Expr | None:
        """Parse `(type) operand`; None with the cursor unmoved where there is none."""
        start = self._index
        pos = self._advance().pos
        if self._at_type():
            ref = self._try(self.type_ref)
            if ref is not None and self._kind == ")" and self._peek().kind in _OPERAND_STARTS:
                self._advance()
                return ast.Cast(pos, ref, self._unary())
        self._index = start
        return None

    def _postfix(self, expr: ast.Expr) -> ast.Expr:
        while True:
            kind = self._kind
            if kind == ".":
                self._advance()
                member = self._name("the name of a member")
                expr = ast.Member(expr.pos, expr, member.text, member.pos)
            elif kind == "[":
                expr = self._subscript(expr)
            elif kind == "(":
                expr = ast.Call(expr.pos, expr, [], self.arguments())
            elif kind == "<":
                call = self._generic_call(expr)
                if call is None:
                    return expr
                expr = call
            else:
                return expr

    def _subscript(self, base: ast.Expr) -> ast.Expr:
        self._expect("[")
        first = self.expression()
        if self._accept(":"):
            low = self.expression()
            self._expect("]")
            return ast.Slice(base.pos, base, first, low)
        if self._accept("+:"):
            width = self.expression()
            self._expect("]")
            return ast.Slice(base.pos, base, width, first, plus=True)
        self._expect("]")
        return ast.Index(base.pos, base, first)

    def _generic_call(self, callee: ast.Expr) -> ast.Expr | None:
        """Parse `callee<types>(args)`; None where `<` is "less than"."""
        if not isinstance(callee, ast.Name | ast.Member):
            return None
        following = self._peek()
        starts_type = following.kind in BASE_TYPES or following.kind in ("_", "void", ".", ">")
        if not starts_type and not (
            following.kind in NAME_KINDS and self._is_type_name(following.text)
        ):
            return None
        start = self._index
        args = self._try(self.type_args)
        of_type = isinstance(callee, ast.Name) and self._is_type_name(callee.name)
        if args is None or not (self._kind == "(" or (of_type and self._kind == ".")):
            self._index = start
            return None
        if isinstance(callee, ast.Name) and of_type:
            ref = ast.NamedTypeRef(callee.pos, callee.name, args, callee.absolute)
            specialised = ast.TypeExpr(callee.pos, ref)
            if self._kind == ".":
                return specialised
            return ast.Call(callee.pos, specialised, [], self.arguments())
        return ast.Call(callee.pos, callee, args, self.arguments())

    def _primary(self) -> ast.Expr:
        token = self._tok
        kind = token.kind
        if kind == "id" or (kind in NAME_KINDS and kind != "list"):
            self._advance()
            return ast.Name(token.pos, token.text)
        if kind == "integer":
            self._advance()
            return self._integer(token.text, token.pos)
        if kind == "str":
            return ast.StringLiteral(token.pos, _unescape(self._advance().text))
        if kind in ("true", "false"):
            self._advance()
            return ast.BoolLiteral(token.pos, kind == "true")
        if kind == "(":
            self._advance()
            inner = self.expression()
            self._expect(")")
            return inner
        if kind == "{":
            return self._braces()
        if kind == "{#}":
            self._advance()
            return ast.InvalidExpr(token.pos)
        if kind == "...":
            self._advance()
            return ast.DefaultExpr(token.pos)
        if kind == ".":
            self._advance()
            return ast.Name(token.pos, self._name().text, absolute=True)
        if kind == "error" and self._peek().kind == ".":
            self._advance()
            return ast.Name(token.pos, "error")
        if kind == "this":
            self._advance()
            return ast.ThisExpr(token.pos)
        if kind in BASE_TYPES:
            return ast.TypeExpr(token.pos, self.type_ref())
        return self._fail("an expression")

    def _integer(self, text: str, pos: Pos) -> ast.IntLiteral:
        try:
            value, width, signed = parse_integer(text)
        except ValueError:
            raise CompileError.at(pos, f'"{text}" is no number') from None
        if self._kind == "id" and self._tok.start == self._tokens[self._index - 1].end:
            raise CompileError.at(pos, f'"{text}{self._tok.text}" is no number')
        return ast.IntLiteral(pos, value, width, signed, text)

    def _braces(self) -> ast.Expr:
        """Parse `{a, b}` or `{x = a, y = b}`, each with an optional final `...`."""
        pos = self._expect("{").pos
        if self._kind in NAME_KINDS and self._peek().kind == "=":
            struct = ast.StructExpr(pos, [])
            while self._kind != "}":
                if self._accept("..."):
                    struct.rest = True
                    self._accept(",")
                    break
                name = self._name("the name of a field")
                self._expect("=")
                struct.fields.append(ast.NamedExpr(name.pos, name.text, self.expression()))
                if not self._accept(","):
                    break
            self._expect("}")
            return struct
        items = ast.ListExpr(pos, [])
        while self._kind != "}":
            if self._kind == "..." and self._peek().kind in ("}", ","):
                self._advance()
                items.rest = True
                self._accept(",")
                break
            items.elements.append(self.expression())
            if not self._accept(","):
                break
        self._expect("}", '"," or "}"')
        return items

    # ------------------------------------------------------------ arguments, keysets

    def arguments(self) -> list[ast.Argument]:
        """Parse `(argument, ...)`, with the parentheses."""
        self._expect("(")
        args: list[ast.Argument] = []
        while self._kind != ")":
            pos = self._pos
            name = None
            if self._kind in NAME_KINDS and self._peek().kind == "=":
                name = self._advance().text
                self._advance()
            value: ast.Expr
            value = ast.Wildcard(self._advance().pos) if self._kind == "_" else self.expression()
            args.append(ast.Argument(pos, name, value))
            if not self._accept(","):
                break
        self._expect(")", '"," or ")"')
        return args

    def keysets(self) -> list[ast.Expr]:
        """Parse `keysetExpression` up to (not including) the `:`; one item a key."""
        if self._kind == "(":
            start = self._index
            many = self._try(self._tuple_keyset)
            if many is not None and self._kind == ":":
                return many
            self._index = start
        return [self._keyset()]

    def _tuple_keyset(self) -> list[ast.Expr]:
        self._expect("(")
        items = [self._keyset()]
        while self._accept(","):
            if self._kind == ")":
                break
            items.append(self._keyset())
        self._expect(")")
        return items

    def _keyset(self) -> ast.Expr:
        token = self._tok
        if token.kind == "_":
            self._advance()
            return ast.Wildcard(token.pos)
        if token.kind == "default":
            self._advance()
            return ast.DefaultKey(token.pos)
        first = self.expression()
        if self._accept("&&&"):
            return ast.Mask(first.pos, first, self.expression())
        if self._accept(".."):
            return ast.Range(first.pos, first, self.expression())
        return first


def _unescape(literal: str) -> str:
    r"""Return the value of a string literal: `\"` and `\\` lose their backslash, others stay."""
    body = literal[1:-1]
    return body.replace('\\"', '"').replace("\\\\", "\\") if "\\" in body else body
