"""Breaks programs: tokens and bytes taken out, doubled, exchanged, replaced."""

from __future__ import annotations

import random
import re

_TOKEN = re.compile(r"\s+|\w+|<<|>>|&&&|&&|\|\||==|!=|<=|>=|\+\+|\.\.|.", re.DOTALL)
_SPARE = (
    "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",", ".", "=", "+", "-", "!", "&&&", "..",
    "0", "1", "8w255", "-1", "4294967296", "1w2", "8s127", "in", "out", "inout", "bit", "int", "_",
    "bool",
    "bit<8>", "int<0>", "bit<0>", "varbit<8>", "error", "true", "default", "select", "transition",
    "accept", "state", "if", "else", "switch", "return", "exit", "for", "apply", "table", "action",
    "key", "entries", "const", "header", "header_union", "struct", "enum", "typedef", "type",
    "control", "parser", "extern", "package", "tuple", "list", "string", "match_kind", "this",
    "setValid", "isValid", "next", "last", "lastIndex", "extract", "emit", "hdr", "meta", "hit",
    '"', "'", "/*", "//", "#if", "#define x x\n", "@", "@name", "@pragma", "\\", "\0", "\x7f", "é",
)  # fmt: skip


def mutate(text: str, chance: random.Random) -> str:
    """One to three changes, mostly of tokens."""
    for _ in range(chance.randint(1, 3)):
        text = _bytes(text, chance) if chance.randrange(8) == 0 else _tokens(text, chance)
    return text


def _tokens(text: str, chance: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    solid = [at for at, token in enumerate(tokens) if not token.isspace()]
    if not solid:
        return text
    at, other = chance.choice(solid), chance.choice(solid)
    match chance.randrange(7):
        case 0:
            tokens[at] = ""
        case 1:
            tokens[at] = f"{tokens[at]} {tokens[at]}"
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens[at] = tokens[other]
        case 4:
            tokens[at] = chance.choice(_SPARE)
        case 5:
            tokens[at] = f"{tokens[at]} {chance.choice(_SPARE)}"
        case 6:
            _lines(tokens, chance)
    return "".join(tokens)


def _lines(tokens: list[str], chance: random.Random) -> None:
    """Copy a line to another place, or take it away."""
    lines = "".join(tokens).split("\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    line = lines.pop(at) if chance.randrange(2) else lines[at]
    lines.insert(to, line if chance.randrange(3) else "")
    tokens[:] = ["\n".join(lines)]


def _bytes(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    length = chance.choice((1, 1, 2, 5, 40))
    match chance.randrange(3):
        case 0:
            return text[:at] + text[at + length :]
        case 1:
            return text[:at] + chr(chance.randrange(256)) + text[at:]
    return text[:at]
