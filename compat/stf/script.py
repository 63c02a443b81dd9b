"""Reads a test in p4c's simple test format.

One statement a line; a line that does not begin with the name of a statement goes on with the one
before, which may be an `add`, `setdefault` or `check_counter`. `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from compat.stf.statements import (
    CELL_BITS,
    Add,
    Call,
    CheckCounter,
    Command,
    Expect,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    Statement,
    StfError,
    Wait,
    number,
)

COMMANDS: dict[str, tuple[int, int | None]] = {
    "mirroring_add": (2, 2),
    "mirroring_add_mc": (2, 2),
    "mirroring_delete": (1, 1),
    "mirroring_get": (1, 1),
    "mc_mgrp_create": (1, 1),
    "mc_mgrp_destroy": (1, 1),
    "mc_node_create": (2, None),
    "mc_node_update": (2, None),
    "mc_node_associate": (2, 2),
    "mc_node_dissociate": (2, 2),
    "mc_node_destroy": (1, 1),
    "counter_read": (2, 2),
    "counter_write": (4, 4),
    "counter_reset": (1, 1),
    "register_read": (1, 2),
    "register_write": (3, 3),
    "register_reset": (1, 1),
    "meter_get_rates": (2, 2),
    "meter_set_rates": (3, None),
    "meter_array_set_rates": (2, None),
}
"""Commands of BMv2's command line that a test may hold, with the least and most words after."""

CONDITIONS = ("==", "!=", "<=", "<", ">=", ">")

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>"[^"]+"|[A-Za-z_$][A-Za-z_$0-9]*)
      | (?P<number>0[xX][0-9a-fA-F*]+|0[bB][01*]+|[0-9]+)
      | (?P<sign>==|!=|<=|>=|[<>=:,./()\[\]])
    )""",
    re.VERBOSE,
)
_BEFORE_COMMENT = re.compile(r'(?:"[^"]*"|[^#"]|"(?![^"]*"))*')
"""A name in quotes may hold a `#`."""
_HEX = re.compile(r"[0-9a-fA-F]*")
_EXPECTED = re.compile(r"[0-9a-fA-F*]*")


def parse(text: str) -> list[Statement]:
    """Parse the statements of a test. Raises StfError with the line of the first mistake."""
    return [_statement(line, words) for line, words in _lines(text)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each statement, without comments."""
    current: tuple[int, str] | None = None
    for at, raw in enumerate(text.splitlines(), 1):
        found = _BEFORE_COMMENT.match(raw)
        line = found[0].strip() if found else ""
        if not line:
            continue
        if current is not None and _continues(current[1], line):
            current = (current[0], f"{current[1]} {line}")
            continue
        if current is not None:
            yield current
        current = (at, line)
    if current is not None:
        yield current


def _continues(before: str, line: str) -> bool:
    return _word(before) in ("add", "setdefault", "check_counter") and not _is_known(_word(line))


def _word(line: str) -> str:
    return line.split(None, 1)[0].lower()


def _is_known(word: str) -> bool:
    return word in _STATEMENTS or word in COMMANDS


def _statement(line: int, text: str) -> Statement:
    word, *others = text.split(None, 1)
    name, rest = word.lower(), others[0] if others else ""
    try:
        if name in COMMANDS:
            return _command(line, text, name, rest)
        if name in _STATEMENTS:
            return _STATEMENTS[name](line, text, rest)
    except StfError as error:
        raise StfError(str(error), line) from None
    raise StfError(f"{word!r} is no statement; available: {', '.join(_STATEMENTS)} and "
                   f"{', '.join(COMMANDS)}", line)  # fmt: skip


def _command(line: int, text: str, name: str, rest: str) -> Command:
    words = tuple(rest.split())
    least, most = COMMANDS[name]
    if len(words) < least or (most is not None and len(words) > most):
        wanted = (
            str(least) if least == most else f"{least} to {most}" if most else f"{least} or more"
        )
        raise StfError(f"{name} takes {wanted} words, found {len(words)}")
    return Command(line, text, name, words)


def _packet(line: int, text: str, rest: str) -> Packet:
    port, digits = _port_and_digits(rest)
    if not _HEX.fullmatch(digits):
        raise StfError(f"packet data is hexadecimal digits, found {_odd(digits, _HEX)!r}")
    if not digits or len(digits) % 2:
        raise StfError(f"packet data is whole bytes, found {len(digits)} digits")
    return Packet(line, text, port, bytes.fromhex(digits))


def _expect(line: int, text: str, rest: str) -> Expect:
    port, digits = _port_and_digits(rest)
    exact = digits.endswith("$")
    digits = digits.removesuffix("$")
    if not _EXPECTED.fullmatch(digits):
        raise StfError(
            f"expected data is hexadecimal digits and *, with $ at its end, found "
            f"{_odd(digits, _EXPECTED)!r}"
        )
    return Expect(line, text, port, digits.upper() if digits or exact else None, exact)


def _odd(digits: str, wanted: re.Pattern[str]) -> str:
    found = wanted.match(digits)
    return digits[found.end() if found else 0]


def _port_and_digits(rest: str) -> tuple[int, str]:
    port, *data = rest.split() or [""]
    if not port.isdecimal():
        raise StfError(f"a port is a decimal number, found {port!r}")
    return number(port, "a port", 32), "".join(data)


def _no_packet(line: int, text: str, rest: str) -> NoPacket:
    _nothing("no_packet", rest)
    return NoPacket(line, text)


def _wait(line: int, text: str, rest: str) -> Wait:
    _nothing("wait", rest)
    return Wait(line, text)


def _nothing(name: str, rest: str) -> None:
    if rest.strip():
        raise StfError(f"nothing follows {name}, found {rest.strip()!r}")


def _remove(line: int, text: str, rest: str) -> Remove:
    word = rest.strip()
    if not word or len(word.split()) != 1:
        raise StfError("remove takes `all` or the label of an entry")
    return Remove(line, text, None if word.lower() == "all" else word)


class _Tokens:
    """The tokens of one statement."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise StfError(f"can't read {text[at:].strip()!r:.40}")
            value = found[found.lastgroup]
            self._tokens.append((found.lastgroup, value.strip('"')))
            at = found.end()
        self._at = 0

    def kind(self) -> str:
        """Return the next token's kind, "" at the end."""
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def take(self, kind: str, what: str, sign: str = "") -> str:
        """Take the next token, which must be of that kind. Raises StfError."""
        if self.kind() != kind or (sign and self._tokens[self._at][1] != sign):
            found = repr(self._tokens[self._at][1]) if self.kind() else "the end"
            raise StfError(f"expected {what}, found {found}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def skip(self, sign: str) -> bool:
        """Take that sign if it comes next."""
        if self.kind() == "sign" and self._tokens[self._at][1] == sign:
            self._at += 1
            return True
        return False

    def comes_call(self) -> bool:
        """Return whether a name follows that is called: `a.b(`."""
        at = self._at
        while at < len(self._tokens) and self._tokens[at] != ("sign", ":"):
            if self._tokens[at] == ("sign", "("):
                return True
            at += 1
        return at == len(self._tokens)

    def name(self, what: str) -> str:
        """Parse a name with dots and indices."""
        parts = [self.take("name", what)]
        while True:
            if self.skip("."):
                parts.append("." + self.take("name", f"more of {what}"))
            elif self.skip("["):
                parts.append(f"[{self.take('number', 'an index')}]")
                self.take("sign", "]", "]")
            else:
                return "".join(parts)

    def end(self) -> None:
        """Check that nothing follows."""
        if self.kind():
            raise StfError(f"nothing may follow here, found {self._tokens[self._at][1]!r}")


def _add(line: int, text: str, rest: str) -> Add:
    tokens = _Tokens(rest)
    table = tokens.name("a table")
    priority = None
    if tokens.kind() == "number":
        priority = number(tokens.take("number", "a priority"), "a priority", 30)
    match = []
    while not tokens.comes_call():
        key = tokens.name("a key field")
        tokens.take("sign", f": after {key}", ":")
        value = tokens.take("number", f"a value of {key}")
        if tokens.skip("/"):
            value += "/" + tokens.take("number", "a prefix length")
        match.append((key, value))
    call = _call(tokens)
    label = tokens.take("name", "a label") if tokens.skip("=") else None
    tokens.end()
    return Add(line, text, table, priority, tuple(match), call, label)


def _set_default(line: int, text: str, rest: str) -> SetDefault:
    tokens = _Tokens(rest)
    table = tokens.name("a table")
    call = _call(tokens)
    tokens.end()
    return SetDefault(line, text, table, call)


def _call(tokens: _Tokens) -> Call:
    action = tokens.name("an action")
    tokens.take("sign", f"( after {action}", "(")
    arguments: list[tuple[str, str]] = []
    while not tokens.skip(")"):
        if arguments:
            tokens.take("sign", ", or )", ",")
        name = tokens.take("name", "an argument")
        tokens.take("sign", f": after {name}", ":")
        arguments.append((name, tokens.take("number", f"a value of {name}")))
    return Call(action, tuple(arguments))


def _check_counter(line: int, text: str, rest: str) -> CheckCounter:
    tokens = _Tokens(rest)
    counter = tokens.name("a counter")
    tokens.take("sign", "(", "(")
    cell: int | str
    if tokens.kind() == "number":
        cell = number(tokens.take("number", "an index"), "an index", CELL_BITS)
    else:
        cell = tokens.take("name", "an index or a label")
    tokens.take("sign", ")", ")")
    unit, condition, wanted = None, "==", 0
    if tokens.kind():
        unit = tokens.take("name", "packets or bytes").lower()
        if unit not in ("packets", "bytes"):
            raise StfError(f"expected packets or bytes, found {unit!r}")
        condition = tokens.take("sign", "a condition")
        if condition not in CONDITIONS:
            raise StfError(f"a condition is one of {' '.join(CONDITIONS)}, found {condition!r}")
        wanted = number(tokens.take("number", "a number"))
    tokens.end()
    return CheckCounter(line, text, counter, cell, unit, condition, wanted)


_STATEMENTS: dict[str, Callable[[int, str, str], Statement]] = {
    "add": _add,
    "setdefault": _set_default,
    "remove": _remove,
    "packet": _packet,
    "expect": _expect,
    "no_packet": _no_packet,
    "wait": _wait,
    "check_counter": _check_counter,
}
