"""Preprocessed P4_16 text -> tokens (spec section 6.4).

One compiled regular expression does the work. Line markers of the preprocessor (`# 12 "f.p4"`)
set file and line. The preprocessor squeezes white space, so columns are taken from the user's
file, which is tokenised as well and aligned line by line; tokens that came out of a macro get the
column of the macro's use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.errors import CompileError, Pos

KEYWORDS = frozenset(
    {
        "_", "abstract", "action", "actions", "apply", "bit", "bool", "break", "const",
        "continue", "control", "default", "else", "entries", "enum", "error", "exit",
        "extern", "false", "for", "header", "header_union", "if", "in", "inout", "int",
        "key", "list", "match_kind", "out", "package", "parser", "priority", "return",
        "select", "state", "string", "struct", "switch", "table", "this", "transition",
        "true", "tuple", "type", "typedef", "value_set", "varbit", "void",
    }
)  # fmt: skip

# Longest first. `>>` is never a token: `a<b<c>>` closes twice; the expression parser joins them.
_PUNCTUATION = (
    "|+|=", "|-|=", "<<=", "&&&", "...", "|+|", "|-|", "{#}", "..", "<<", "&&", "||", "==",
    "!=", ">=", "<=", "++", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "+:", "+", "-",
    "*", "/", "%", "|", "&", "^", "~", "(", ")", "[", "]", "{", "}", "<", ">", "!", ":",
    ",", "?", ".", "=", ";", "@",
)  # fmt: skip


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<pragma>@pragma\b(?:"(?:\\.|[^"\\])*"|[^\n"])*)
  | (?P<id>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<integer>(?:[0-9]+[ws])?0[xX][0-9a-fA-F_]+|(?:[0-9]+[ws])?0[bB][01_]+
       |(?:[0-9]+[ws])?0[oO][0-7_]+|(?:[0-9]+[ws])?0[dD][0-9_]+|(?:[0-9]+[ws])?[0-9][0-9_]*)
  | (?P<str>"(?:\\.|[^"\\])*")
  | (?P<marker>(?<![^\n])\#[ \t]*(?:line[ \t]+)?(?P<line>[0-9]+)
       (?:[ \t]+"(?P<file>[^"\n]*)")?[^\n]*)
  | (?P<directive>(?<![^\n])[ \t]*\#[^\n]*)
  | (?P<punct>"""
    + "|".join(re.escape(p) for p in _PUNCTUATION)
    + r""")
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)

ReadSource = Callable[[str], "str | None"]


@dataclass(slots=True)
class Token:
    """`kind` is "id", "integer", "str", "pragma", "bad" (no P4 outside annotations), "end",
    or the text of a keyword or punctuation.

    `end` is the column after the token in the preprocessed line: equal to the start of the next
    token where they touch.
    """

    kind: str
    text: str
    pos: Pos
    start: int
    end: int


def tokenize(text: str, file: str, read_source: ReadSource = lambda _: None) -> list[Token]:
    """Return the tokens of `text`, closed by one of kind "end".

    `read_source` returns the text of a file named in a line marker, or None where columns can't
    be corrected (built-in text). Raises `CompileError` at a string that is not closed.
    """
    tokens: list[Token] = []
    line, line_start = 1, 0
    columns = _Columns(read_source)
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            continue
        start = match.start()
        value = match.group()
        if kind == "newline":
            line += 1
            line_start = match.end()
            continue
        if kind == "comment":
            newlines = value.count("\n")
            if newlines:
                line += newlines
                line_start = start + value.rindex("\n") + 1
            continue
        if kind == "marker":
            line = int(match["line"]) - 1
            file = _unescape_file(match["file"]) if match["file"] is not None else file
            continue
        column = start - line_start + 1
        if kind == "directive":
            continue
        pos = Pos(file, line, columns.of(file, line, column, value))
        if kind == "id":
            kind = value if value in KEYWORDS else "id"
        elif kind == "punct":
            kind = value
        elif kind is None or (kind == "bad" and value == '"'):
            raise CompileError.at(pos, "string without a closing quote")
        tokens.append(Token(kind, value, pos, start, match.end()))
        if kind in ("str", "pragma") and "\n" in value:
            line += value.count("\n")
            line_start = start + value.rindex("\n") + 1
    end = tokens[-1].pos if tokens else Pos(file, line, 1)
    tokens.append(Token("end", "end of file", end, len(text), len(text)))
    return tokens


def _unescape_file(name: str) -> str:
    return name.replace("\\\\", "\\").replace('\\"', '"')


class _Columns:
    """Aligns preprocessed tokens with those of the original line."""

    def __init__(self, read_source: ReadSource) -> None:
        self._read_source = read_source
        self._files: dict[str, dict[int, list[tuple[str, int]]]] = {}
        self._at: tuple[str, int] = ("", 0)
        self._line: list[tuple[str, int]] = []
        self._next = 0

    def of(self, file: str, line: int, column: int, value: str) -> int:
        """Return the column of token `value` in the user's file.

        Called in the order of the tokens.
        """
        if self._at != (file, line):
            self._at = (file, line)
            self._line = self._source(file).get(line, [])
            self._next = 0
        for ahead in range(self._next, len(self._line)):
            if self._line[ahead][0] == value:
                self._next = ahead + 1
                return self._line[ahead][1]
        if self._next < len(self._line):
            return self._line[self._next][1]
        return self._line[-1][1] if self._line else column

    def _source(self, file: str) -> dict[int, list[tuple[str, int]]]:
        if file not in self._files:
            text = self._read_source(file)
            self._files[file] = {} if text is None else _by_line(text)
        return self._files[file]


def _by_line(text: str) -> dict[int, list[tuple[str, int]]]:
    """Return the texts and columns of the tokens of each line of a source file."""
    lines: dict[int, list[tuple[str, int]]] = {}
    for line, column, value in _raw_tokens(text):
        lines.setdefault(line, []).append((value, column))
    return lines


def _raw_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    line, line_start = 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            continue
        value = match.group()
        if kind not in ("newline", "comment"):
            yield line, match.start() - line_start + 1, value
        newlines = value.count("\n")
        if newlines:
            line += newlines
            line_start = match.start() + value.rindex("\n") + 1


_BASES = {"x": 16, "o": 8, "b": 2, "d": 10}


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """Return the value, width (None: `int`) and signedness of an integer literal such as `8w0x1F`.

    Raises ValueError where no digit is left.
    """
    width: int | None = None
    signed = False
    digits = text
    for mark in ("w", "s"):
        head, found, tail = text.partition(mark)
        if found and head.isdigit():
            width, signed, digits = int(head), mark == "s", tail
            break
    base = 10
    if len(digits) > 1 and digits[0] == "0" and digits[1].lower() in _BASES:
        base = _BASES[digits[1].lower()]
        digits = digits[2:]
    return int(digits.replace("_", ""), base), width, signed
