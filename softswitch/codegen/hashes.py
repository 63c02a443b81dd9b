"""The C side of BMv2's hash algorithms: CRC tables and the functions that use them."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.codegen.model import CustomCrc


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
    # the parameters that they begin with; `CustomCrc` stands for others
    "crc8_custom": Crc(8, 0x07, 0, 0, False),
    "crc16_custom": Crc(16, 0x8005, 0, 0, True),
    "crc32_custom": Crc(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc64_custom": Crc(64, 0x1B, 0, 0, True),
}


def call_name(algorithm: str) -> str:
    """Return the name of the C function of an algorithm."""
    return "wpx_csum16" if algorithm == "cksum16" else f"wpx_{algorithm}"


def crc_table(crc: Crc) -> list[int]:
    """Return the CRC remainders of the 256 values of a byte."""
    table = []
    mask = (1 << crc.bits) - 1
    reflection = mirrored(crc.polynomial, crc.bits)
    for byte in range(256):
        if crc.reflected:
            rest = byte
            for _ in range(8):
                rest = (rest >> 1) ^ (reflection if rest & 1 else 0)
        else:
            rest = byte << (crc.bits - 8)
            for _ in range(8):
                top = rest >> (crc.bits - 1)
                rest = ((rest << 1) & mask) ^ (crc.polynomial if top else 0)
        table.append(rest)
    return table


def hash_code(algorithms: set[str]) -> list[str]:
    """Return the C tables and functions for the CRCs among `algorithms`."""
    return [
        part for name in sorted(algorithms & CRCS.keys()) for part in _crc_code(name, CRCS[name])
    ]


def custom_crc_code(name: str, algorithm: str, crc: CustomCrc) -> list[str]:
    """Return the C table and functions of a custom CRC with other parameters, called
    `wpx_<name>`.
    """
    bits = CRCS[algorithm].bits
    initial = mirrored(crc.initial, bits) if crc.reflects_data else crc.initial
    inner = Crc(bits, crc.polynomial, initial, 0, crc.reflects_data)
    result = f"wpx_{name}_inner(a, n, b, m)"
    if crc.reflects_data != crc.reflects_remainder:
        result = f"wpx_mirrored({result}, {bits})"
    function = (
        f"static inline uint64_t wpx_{name}"
        "(const uint8_t *a, size_t n, const uint8_t *b, size_t m)\n"
        f"{{\n    return {result} ^ {crc.final:#x};\n}}"
    )
    return [*_crc_code(f"{name}_inner", inner), function]


def mirrored(number: int, bits: int) -> int:
    """Return the low `bits` bits of `number` in reverse order."""
    return int(f"{number:0{bits}b}"[::-1], 2)


def _crc_code(name: str, crc: Crc) -> list[str]:
    ctype = f"uint{crc.bits}_t"
    values = [f"{value:#x}" for value in crc_table(crc)]
    rows = ",\n    ".join(", ".join(values[i : i + 8]) for i in range(0, 256, 8))
    table = f"wpx_table_{name}"
    numbers = f"{crc.initial:#x}, {crc.final:#x}"
    if crc.reflected:
        function = f"WPX_CRC_REFLECTED({name}, {ctype}, {table}, {numbers})"
    else:
        function = f"WPX_CRC_STRAIGHT({name}, {ctype}, {crc.bits}, {table}, {numbers})"
    return [f"static const {ctype} {table}[256] = {{\n    {rows}}};", function]
