"""What a test in p4c's simple test format can say: one class a kind of statement.

Numbers in keys keep their text until the key's width and kind are known: `0x0a**` means a ternary
value, a prefix or nothing at all, by the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class StfError(Exception):
    """A test that can't be understood or carried out; `line` is where, 0 for the whole of it."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


CELL_BITS = 63
"""P4Runtime's indices are signed numbers of 64 bits."""


def number(text: str, what: str = "a number", bits: int = 0) -> int:
    """Parse a decimal, 0x or 0b number; with `bits`, one from 0 that fits. Raises StfError."""
    try:
        value = int(text) if text.isdecimal() else int(text, 0)
    except ValueError:
        raise StfError(f"{text!r} is not {what}") from None
    if bits and not 0 <= value < 1 << bits:
        raise StfError(f"{text} is not {what} of at most {bits} bits")
    return value


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: the line that it begins at, and its words."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """An action with its arguments by name, as text."""

    action: str
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Add(Statement):
    """`add TABLE [PRIORITY] KEY:VALUE... ACTION(ARGUMENT:VALUE, ...) [= LABEL]`."""

    table: str
    priority: int | None
    match: tuple[tuple[str, str], ...]
    call: Call
    label: str | None


@dataclass(frozen=True, slots=True)
class SetDefault(Statement):
    """`setdefault TABLE ACTION(...)`."""

    table: str
    call: Call


@dataclass(frozen=True, slots=True)
class Remove(Statement):
    """`remove all`, or one entry by its label."""

    label: str | None


@dataclass(frozen=True, slots=True)
class Packet(Statement):
    """`packet PORT HEX`."""

    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Expect(Statement):
    """`expect PORT [HEX]`; `digits` None: any packet, `*`: any digit, `exact`: nothing follows."""

    port: int
    digits: str | None
    exact: bool


@dataclass(frozen=True, slots=True)
class NoPacket(Statement):
    """`no_packet`: the last packet sent makes nothing come out."""


@dataclass(frozen=True, slots=True)
class Wait(Statement):
    """`wait`: let everything that is under way happen."""


@dataclass(frozen=True, slots=True)
class CheckCounter(Statement):
    """`check_counter NAME(INDEX or LABEL) [packets|bytes CONDITION NUMBER]`."""

    counter: str
    cell: int | str
    unit: str | None
    condition: str
    number: int


@dataclass(frozen=True, slots=True)
class Command(Statement):
    """A command of BMv2's command line; `name` with its `words`."""

    name: str
    words: tuple[str, ...] = field(default=())
