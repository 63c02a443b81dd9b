"""The C side of BMv2's hash algorithms: CRC tables and the functions that use them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Crc:
    """A CRC by its parameters; `reflected` covers input and result, as in all of BMv2's."""

    bits: int
    polynomial: int
    initial: int
    final: int
    reflected: bool


CRCS = {
    "crc16": Crc(16, 0x8005, 0, 0, True),
    "crc32": Crc(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crcCCITT": Crc(16, 0x1021, 0xFFFF, 0, False),
    # the parameters that BMv2 starts with; only its Thrift interface changes them
    "crc8_custom": Crc(8, 0x07, 0, 0, False),
    "crc16_custom": Crc(16, 0x8005, 0, 0, True),
    "crc32_custom": Crc(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc64_custom": Crc(64, 0x1B, 0, 0, True),
}


def call_name(algorithm: str) -> str:
    """The C function of an algorithm."""
    return "wpx_csum16" if algorithm == "cksum16" else f"wpx_{algorithm}"


def crc_table(crc: Crc) -> list[int]:
    """The 256 remainders of one byte."""
    table = []
    mask = (1 << crc.bits) - 1
    mirrored = int(f"{crc.polynomial:0{crc.bits}b}"[::-1], 2)
    for byte in range(256):
        if crc.reflected:
            rest = byte
            for _ in range(8):
                rest = (rest >> 1) ^ (mirrored if rest & 1 else 0)
        else:
            rest = byte << (crc.bits - 8)
            for _ in range(8):
                top = rest >> (crc.bits - 1)
                rest = ((rest << 1) & mask) ^ (crc.polynomial if top else 0)
        table.append(rest)
    return table


def hash_code(algorithms: set[str]) -> list[str]:
    """C tables and functions for the CRCs among `algorithms`."""
    parts = []
    for name in sorted(algorithms & CRCS.keys()):
        crc = CRCS[name]
        ctype = f"uint{crc.bits}_t"
        values = [f"{value:#x}" for value in crc_table(crc)]
        rows = ",\n    ".join(", ".join(values[i : i + 8]) for i in range(0, 256, 8))
        table = f"wpx_table_{name}"
        parts.append(f"static const {ctype} {table}[256] = {{\n    {rows}}};")
        numbers = f"{crc.initial:#x}, {crc.final:#x}"
        if crc.reflected:
            parts.append(f"WPX_CRC_REFLECTED({name}, {ctype}, {table}, {numbers})")
        else:
            parts.append(f"WPX_CRC_STRAIGHT({name}, {ctype}, {crc.bits}, {table}, {numbers})")
    return parts
