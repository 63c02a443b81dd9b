"""P4Runtime's binary strings: big endian, unsigned, the shortest form is the canonical one."""

from __future__ import annotations

from softswitch.p4runtime.status import Code, EntityError


def encode(value: int) -> bytes:
    """Return the shortest binary string of `value` (>= 0); zero is one zero byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(data: bytes, bitwidth: int, what: str, code: Code = Code.OUT_OF_RANGE) -> int:
    """Return the value of `data`, which must fit `bitwidth` bits; leading zeros are accepted.

    Raises EntityError with `code` when the string is empty or too wide (specification,
    "Bytestrings": OUT_OF_RANGE, except that action parameters give INVALID_ARGUMENT).
    """
    if not data:
        raise EntityError(code, f"{what}: the value is empty, {bitwidth} bits expected")
    value = int.from_bytes(data, "big")
    if value.bit_length() > bitwidth:
        raise EntityError(code, f"{what}: 0x{value:x} does not fit in {bitwidth} bits")
    return value
