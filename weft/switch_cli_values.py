"""Values as simple_switch_CLI writes them, and as it prints them.

Widths are in bits. A value is a number (decimal, 0x, 0b, 0o), of 32 bits also an IPv4 address, of
48 a MAC address, of 128 an IPv6 address. A key is `value`, `value/length`, `value&&&mask` or
`low->high` by its match kind.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


class CommandError(Exception):
    """A command that can't be done; printed as one line: `prefix`: message."""

    prefix = "Error"


class KeyValueError(CommandError):
    """A match key that can't be one."""

    prefix = "Invalid match key"


class ArgumentValueError(CommandError):
    """An action's argument that can't be one."""

    prefix = "Invalid runtime data"


@dataclass(frozen=True, slots=True)
class KeyField:
    """A match field. `kind`: "exact", "lpm", "ternary", "range", or "optional"."""

    id: int
    name: str
    kind: str
    bitwidth: int

    @property
    def shown_kind(self) -> str:
        """The kind in BMv2's words: to it, optional is ternary."""
        return "ternary" if self.kind == "optional" else self.kind


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One field of a key: the value and the prefix length, the mask or the upper end."""

    field: KeyField
    first: int
    second: int = 0

    @property
    def matches_all(self) -> bool:
        """Whether any value matches: P4Runtime leaves such a field out."""
        match self.field.kind:
            case "lpm" | "ternary" | "optional":
                return self.second == 0
            case "range":
                return self.first == 0 and self.second == _full(self.field.bitwidth)
            case _:
                return False

    @classmethod
    def anything(cls, field: KeyField) -> KeyValue:
        """The value of a field that was left out."""
        return cls(field, 0, _full(field.bitwidth) if field.kind == "range" else 0)

    def added(self) -> str:
        """As `table_add` shows it: `LPM-0a:00:00:00/8`."""
        kind = self.field.shown_kind
        return f"{kind.upper()}-{self._text(':')}"

    def dumped(self) -> str:
        """As `table_dump` shows it: `0a000000/8`."""
        return self._text("")

    def _text(self, separator: str) -> str:
        width = self.field.bitwidth
        first, second = digits(self.first, width, separator), digits(self.second, width, separator)
        match self.field.shown_kind:
            case "lpm":
                return f"{first}/{self.second}"
            case "ternary":
                return f"{first} &&& {second}"
            case "range":
                return f"{first} -> {second}"
            case _:
                return first


def value(text: str, bitwidth: int) -> int:
    """The number that `text` stands for. Raises CommandError."""
    number = _address(text, bitwidth)
    if number is None:
        try:
            number = int(text, 0)
        except ValueError:
            raise CommandError(
                "Invalid input, could not cast to integer, try in hex with 0x prefix"
            ) from None
    if number < 0:
        raise CommandError("Parameter is negative")
    if number > _full(bitwidth):
        raise CommandError(f"Parameter is too large, it has {bitwidth} bits")
    return number


def key_value(field: KeyField, text: str) -> KeyValue:
    """One field of a key. Raises KeyValueError."""
    width = field.bitwidth
    match field.shown_kind:
        case "lpm":
            first, length = _two(text, "/", "LPM", "prefix and length")
            prefix = _key(first, width)
            bits = whole(length, "prefix length")
            if not 0 <= bits <= width:
                raise KeyValueError(f"Prefix length {bits} in {text}, the field has {width} bits")
            return KeyValue(field, prefix >> (width - bits) << (width - bits), bits)
        case "ternary":
            first, second = _two(text, "&&&", "ternary", "key and mask")
            mask = _key(second, width)
            if field.kind == "optional" and mask not in (0, _full(width)):
                raise KeyValueError(f"Mask of {text} is neither 0 nor all ones: key is optional")
            return KeyValue(field, _key(first, width) & mask, mask)
        case "range":
            first, second = _two(text, "->", "range", "range start and range end")
            low, high = _key(first, width), _key(second, width)
            if low > high:
                raise KeyValueError(f"start is greater than end in expression {text}")
            return KeyValue(field, low, high)
        case _:
            return KeyValue(field, _key(text, width))


def argument(text: str, bitwidth: int) -> int:
    """An action's argument. Raises ArgumentValueError."""
    try:
        return value(text, bitwidth)
    except CommandError as error:
        raise ArgumentValueError(f"Error while parsing {text} - {error}") from None


def whole(text: str, what: str) -> int:
    """A number of decimal digits. Raises CommandError."""
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"Bad format for {what}, expected integer") from None


def digits(number: int, bitwidth: int, separator: str) -> str:
    """Two hexadecimal digits a byte."""
    data = number.to_bytes((max(bitwidth, number.bit_length()) + 7) // 8, "big")
    return data.hex(separator) if separator else data.hex()


def _full(bitwidth: int) -> int:
    return (1 << bitwidth) - 1


def _key(text: str, bitwidth: int) -> int:
    try:
        return value(text, bitwidth)
    except CommandError as error:
        raise KeyValueError(f"Error while parsing {text} - {error}") from None


def _two(text: str, separator: str, kind: str, parts: str) -> tuple[str, str]:
    first, found, second = text.partition(separator)
    if not found or separator in second:
        raise KeyValueError(f"Invalid {kind} value {text}, use '{separator}' to separate {parts}")
    return first, second


def _address(text: str, bitwidth: int) -> int | None:
    try:
        if bitwidth == 32 and "." in text:
            return int(ipaddress.IPv4Address(text))
        if bitwidth == 128 and ":" in text:
            return int(ipaddress.IPv6Address(text))
    except ValueError:
        raise CommandError(f"Invalid IPv{4 if bitwidth == 32 else 6} address") from None
    if bitwidth == 48 and ":" in text:
        parts = text.split(":")
        try:
            octets = [int(part, 16) for part in parts]
        except ValueError:
            octets = []
        if len(octets) != 6 or not all(0 <= octet <= 0xFF for octet in octets):
            raise CommandError("Invalid MAC address")
        return int.from_bytes(bytes(octets), "big")
    return None
