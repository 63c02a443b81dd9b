"""Foundation of the parser: the token cursor, names, annotations and recovery from errors.

P4's grammar needs to know which names are types (`(T) x` is a cast, `(v) - x` is none), so the
cursor carries a stack of scopes that say of each declared name whether it is a type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from compiler.errors import CompileError, Pos, Reporter
from compiler.syntax import ast
from compiler.syntax.lexer import KEYWORDS, Token, tokenize

T = TypeVar("T")

# Keywords that are also good names (the grammar's `name`).
SOFT_KEYWORDS = frozenset({"actions", "apply", "entries", "key", "priority", "state", "type"})
NAME_KINDS = SOFT_KEYWORDS | {"id", "list"}

BASE_TYPES = frozenset(
    {"bit", "int", "varbit", "bool", "error", "string", "match_kind", "tuple", "list"}
)

# Tokens with which a top-level declaration starts; where to go on after an error.
_DECLARATION_STARTS = frozenset(
    {
        "const", "extern", "action", "parser", "header", "struct", "header_union", "enum",
        "typedef", "type", "control", "package", "error", "match_kind", "@",
    }
)  # fmt: skip

# Bodies of these annotations are expression lists; all others stay as they are written.
_EXPRESSION_ANNOTATIONS = frozenset(
    {
        "name", "id", "field_list", "priority", "alias", "match", "length", "deprecated", "noWarn",
        "brief", "description", "controller_header", "format", "p4runtime_translation",
        "pkginfo", "platform_property", "max_group_size", "selector_size_semantics",
        "max_member_weight", "diagnostic",
    }
)  # fmt: skip


class ParserBase(ABC):
    """Cursor over tokens. `reporter` receives the syntax errors after which parsing goes on."""

    def __init__(self, tokens: list[Token], reporter: Reporter) -> None:
        self._tokens = tokens
        self._index = 0
        self._scopes: list[dict[str, bool]] = [{}]
        self.reporter = reporter

    # ------------------------------------------------------------ cursor

    @property
    def _tok(self) -> Token:
        return self._tokens[self._index]

    @property
    def _kind(self) -> str:
        return self._tokens[self._index].kind

    @property
    def _pos(self) -> Pos:
        return self._tokens[self._index].pos

    def _peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        token = self._tokens[self._index]
        if token.kind != "end":
            self._index += 1
        return token

    def _accept(self, kind: str) -> Token | None:
        if self._tokens[self._index].kind == kind:
            return self._advance()
        return None

    def _expect(self, kind: str, what: str = "") -> Token:
        token = self._tokens[self._index]
        if token.kind != kind:
            self._fail(what or f'"{kind}"')
        self._index += kind != "end"
        return token

    def _fail(self, wanted: str) -> NoReturn:
        token = self._tok
        if token.kind == "bad":
            raise CompileError.at(token.pos, f"unexpected character {token.text!r}")
        found = token.text if token.kind == "end" else f'"{token.text}"'
        if wanted == '";"' and self._index:
            # A missing semicolon belongs to the end of the line before, not to what follows.
            before = self._tokens[self._index - 1]
            if before.pos.line != token.pos.line:
                pos = Pos(
                    before.pos.file, before.pos.line, before.pos.column + before.end - before.start
                )
                raise CompileError.at(pos, f"syntax error: expected {wanted} before {found}")
        raise CompileError.at(token.pos, f"syntax error: expected {wanted}, found {found}")

    def _try(self, parse: Callable[[], T]) -> T | None:
        """Return what `parse` returns, or None with the cursor put back where it fails."""
        start = self._index
        try:
            return parse()
        except CompileError:
            self._index = start
            return None

    def _touches_next(self) -> bool:
        """Return whether no space stands between the current token and the next one."""
        return self._tok.end == self._peek().start

    # ------------------------------------------------------------ names and scopes

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _declare(self, name: str, *, is_type: bool = False) -> None:
        self._scopes[-1][name] = is_type

    def _is_type_name(self, name: str) -> bool:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return False

    def _at_type_name(self) -> bool:
        token = self._tok
        if token.kind == ".":
            following = self._peek()
            return following.kind in NAME_KINDS and self._scopes[0].get(following.text, False)
        return token.kind in NAME_KINDS and self._is_type_name(token.text)

    def _at_type(self) -> bool:
        """Return whether a type starts here, as far as the declarations so far tell."""
        return self._kind in BASE_TYPES or self._at_type_name()

    def _name(self, what: str = "a name") -> Token:
        token = self._tok
        if token.kind not in NAME_KINDS:
            if token.kind in KEYWORDS and token.kind != "_":
                self._fail(f"{what} (a keyword can't be one)")
            self._fail(what)
        return self._advance()

    # ------------------------------------------------------------ recovery

    def _skip_statement(self, start: int) -> None:
        """Recover from an error: go behind the next `;` or balanced block, or before the closing
        `}`.
        """
        depth = 0
        self._index = max(self._index, start)
        while self._kind != "end":
            kind = self._kind
            if kind == "}":
                if depth == 0:
                    break
                depth -= 1
                if depth == 0:
                    self._advance()
                    break
            elif kind == "{":
                depth += 1
            elif kind == ";" and depth == 0:
                self._advance()
                break
            self._advance()
        if self._index == start and self._kind not in ("}", "end"):
            self._advance()

    def _skip_declaration(self, start: int) -> None:
        """Recover from an error at top level: go to where the next declaration seems to start.

        A declaration's keyword in the first column counts as a start even inside braces, so that
        one missing brace does not swallow the rest of the file.
        """
        depth = sum(
            {"{": 1, "}": -1}.get(token.kind, 0) for token in self._tokens[start : self._index]
        )
        while self._kind != "end":
            kind = self._kind
            if self._index > start and kind in _DECLARATION_STARTS and self._pos.column == 1:
                return
            if kind == "{":
                depth += 1
            elif kind == "}":
                depth -= 1
            self._advance()
            if (kind == "}" or kind == ";") and depth <= 0:
                return

    # ------------------------------------------------------------ annotations

    def _annotations(self) -> list[ast.Annotation]:
        found: list[ast.Annotation] = []
        while True:
            if self._kind == "@":
                found.append(self._annotation())
            elif self._kind == "pragma":
                found.append(self._pragma())
            else:
                return found

    def _annotation(self) -> ast.Annotation:
        at = self._expect("@")
        name = self._tok
        if name.kind not in KEYWORDS and name.kind != "id":
            self._fail("the name of an annotation")
        self._advance()
        if self._kind == "[":
            return self._structured_annotation(at.pos, name.text)
        if self._kind != "(":
            return ast.Annotation(at.pos, name.text)
        self._advance()
        first = self._index
        depth = 0
        while self._kind != ")" or depth:
            if self._kind == "end":
                self._fail('")" to close the annotation')
            depth += {"(": 1, ")": -1}.get(self._kind, 0)
            self._advance()
        body = self._tokens[first : self._index]
        self._advance()
        return self._unstructured(at.pos, name.text, body)

    def _pragma(self) -> ast.Annotation:
        """Parse `@pragma name words`: the words reach to the end of the line."""
        token = self._advance()
        tokens = tokenize(token.text[len("@pragma") :], token.pos.file)[:-1]
        if not tokens:
            raise CompileError.at(token.pos, "@pragma needs a name")
        for each in tokens:
            column = token.pos.column + len("@pragma") + each.pos.column - 1
            each.pos = Pos(token.pos.file, token.pos.line, column)
        return self._unstructured(token.pos, tokens[0].text, tokens[1:])

    def _unstructured(self, pos: Pos, name: str, body: list[Token]) -> ast.Annotation:
        annotation = ast.Annotation(pos, name, _joined(body), [token.text for token in body])
        if name in _EXPRESSION_ANNOTATIONS and body:
            outer, self._tokens = self._tokens, [*body, _end_token(body[-1])]
            outer_index, self._index = self._index, 0
            try:
                self._annotation_items(annotation, "end")
            except CompileError:
                annotation.exprs, annotation.pairs = [], []
            finally:
                self._tokens, self._index = outer, outer_index
        return annotation

    def _structured_annotation(self, pos: Pos, name: str) -> ast.Annotation:
        self._expect("[")
        first = self._index
        annotation = ast.Annotation(pos, name, structured=True)
        self._annotation_items(annotation, "]")
        body = self._tokens[first : self._index]
        annotation.text, annotation.tokens = _joined(body), [token.text for token in body]
        self._expect("]")
        return annotation

    def _annotation_items(self, annotation: ast.Annotation, close: str) -> None:
        while self._kind != close:
            if self._kind in NAME_KINDS and self._peek().kind == "=":
                key = self._advance()
                if annotation.exprs:
                    self._fail("an expression: items and name = value don't mix")
                self._expect("=")
                if any(key.text == other for other, _ in annotation.pairs):
                    raise CompileError.at(key.pos, f'duplicate key "{key.text}" in annotation')
                annotation.pairs.append((key.text, self.expression()))
            else:
                if annotation.pairs:
                    self._fail("name = value: items and name = value don't mix")
                annotation.exprs.append(self.expression())
            if not self._accept(","):
                break
        if self._kind != close:
            self._fail(f'"{close}"')

    @abstractmethod
    def expression(self) -> ast.Expr:
        """Parse an expression; see `parser_expr`."""


def _joined(tokens: list[Token]) -> str:
    """Join the tokens' text, with one space where the source had any."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        if index and tokens[index - 1].end != token.start:
            parts.append(" ")
        parts.append(token.text)
    return "".join(parts)


def _end_token(last: Token) -> Token:
    return Token("end", "end of annotation", last.pos, last.end, last.end)
