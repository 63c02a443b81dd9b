"""Keys and values of a test as P4Runtime's, by the key's kind and the value's text."""

from __future__ import annotations

import pytest

from compat.stf.entries import find, match_value
from compat.stf.statements import StfError
from softswitch.p4runtime.schema import Field, MatchKind

EXACT, LPM, TERNARY = MatchKind.EXACT, MatchKind.LPM, MatchKind.TERNARY


def field(kind: MatchKind, bits: int = 32) -> Field:
    return Field(id=1, name="h.f", kind=kind, bitwidth=bits, offset=0, size=4)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (EXACT, "12", 12),
        (EXACT, "007", 7),
        (EXACT, "0x1F", 31),
        (EXACT, "0b101", 5),
        (LPM, "0x0a000000/8", (0x0A000000, 8)),
        (LPM, "0x0a01****", (0x0A010000, 16)),
        (LPM, "0x0a010203", (0x0A010203, 32)),
        (LPM, "0x0a", (0x0A, 8)),
        (LPM, "10", (10, 32)),
        (TERNARY, "0x12**34**", (0x12003400, 0xFF00FF00)),
        (TERNARY, "0b1*0", (0b100, 0b101)),
        (TERNARY, "0x1", (1, 0xF)),
        (TERNARY, "7", (7, 0xFFFFFFFF)),
        (MatchKind.RANGE, "7", (7, 7)),
        (MatchKind.OPTIONAL, "7", 7),
        (MatchKind.OPTIONAL, "0b*", None),
        (MatchKind.OPTIONAL, "0x****", None),
    ],
)
def test_value(kind: MatchKind, text: str, wanted: object) -> None:
    assert match_value(field(kind), text) == wanted


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (EXACT, "0x1*", "h.f is exact: no digit may be"),
        (EXACT, "0x1/8", "h.f is exact: it takes no prefix length"),
        (LPM, "0x*1", "only its last digits"),
        (MatchKind.OPTIONAL, "0b1*", "h.f is optional: no digit may be"),
    ],
)
def test_value_that_the_key_can_not_have(kind: MatchKind, text: str, message: str) -> None:
    with pytest.raises(StfError, match=message):
        match_value(field(kind), text)


class Thing:
    """Something with a name."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_names_are_found_by_their_ends() -> None:
    things = [Thing("C.t"), Thing("C.D.t"), Thing("C.other"), Thing("t")]
    assert find(things, "other", "table").name == "C.other"
    assert find(things, "D.t", "table").name == "C.D.t"
    assert find(things, "t", "table").name == "t"  # the full name of one
    with pytest.raises(StfError, match=r"table 't' may be C\.t, C\.D\.t"):
        find(things[:3], "t", "table")
    with pytest.raises(StfError, match=r"no table 'x'; there are: C\.t"):
        find(things, "x", "table")
