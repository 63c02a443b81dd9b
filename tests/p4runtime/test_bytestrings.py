"""P4Runtime's binary strings, with the specification's own examples."""

from __future__ import annotations

import pytest

from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.status import Code, EntityError


@pytest.mark.parametrize(
    ("bitwidth", "data", "value"),
    [
        (8, b"\x63", 0x63),
        (16, b"\x00\x63", 0x63),
        (16, b"\x63", 0x63),
        (16, b"\x30\x64", 0x3064),
        (16, b"\x00\x30\x64", 0x3064),
        (12, b"\x00\x63", 0x63),
        (12, b"\x63", 0x63),
        (12, b"\x00\x00\x63", 0x63),
        (9, b"\x01\xff", 511),
        (16, b"\x00", 0),
        (128, b"\xff" * 16, (1 << 128) - 1),
    ],
)
def test_accepts_every_length_of_a_value_that_fits(bitwidth: int, data: bytes, value: int) -> None:
    assert decode(data, bitwidth, "x") == value
    assert decode(encode(value), bitwidth, "x") == value


@pytest.mark.parametrize(
    ("bitwidth", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
    ],
)
def test_refuses_what_does_not_fit(bitwidth: int, data: bytes) -> None:
    with pytest.raises(EntityError) as refused:
        decode(data, bitwidth, "the field")
    assert refused.value.code is Code.OUT_OF_RANGE
    assert "the field" in refused.value.message


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, b"\x00"), (1, b"\x01"), (255, b"\xff"), (256, b"\x01\x00"), (0x0A000000, b"\n\0\0\0")],
)
def test_writes_the_shortest_form(value: int, data: bytes) -> None:
    assert encode(value) == data
