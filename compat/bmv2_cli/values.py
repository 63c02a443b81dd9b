"""Values as simple_switch_CLI writes them, and as it prints them.

Widths are in bits. A value is a number (decimal, 0x, 0b, 0o), of 32 bits also an IPv4 address, of
48 a MAC address, of 128 an IPv6 address. A key is `value`, `value/length`, `value&&&mask` or
`low->high` by its match kind. As in BMv2 a value may fill the whole bytes of its field; what is
beyond the field's bits is cut off where it is written (`cut`), not where it is shown.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


class CommandError(Exception):
    """A command that can't be done; printed as one line: `prefix`: message.

    `why` says more than BMv2's CLI does; it goes to standard error.
    """

    prefix = "Error"

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why

    def line(self) -> str:
        """Return the line to print."""
        return f"{self.prefix}: {self}"


class KeyValueError(CommandError):
    """A match key that can't be one."""

    prefix = "Invalid match key"


class ArgumentValueError(CommandError):
    """An action's argument that can't be one."""

    prefix = "Invalid runtime data"


class OperationError(CommandError):
    """What the switch does not do: "Invalid `kind` operation (`code`)", with BMv2's names."""

    def __init__(self, kind: str, code: str, why: str = "") -> None:
        super().__init__(f"Invalid {kind} operation ({code})", why)

    def line(self) -> str:
        """Return the line to print."""
        return str(self)


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
    """One field of a key: the value and the prefix length, the mask or the upper end, as given."""

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
                return self.first == 0 and self.second >= full(self.field.bitwidth)
            case _:
                return False

    @classmethod
    def anything(cls, field: KeyField) -> KeyValue:
        """Return the value of an omitted field."""
        return cls(field, 0, full(field.bitwidth) if field.kind == "range" else 0)

    def written(self) -> tuple[int, int]:
        """Return both numbers as the switch takes them. Raises OperationError."""
        width = self.field.bitwidth
        first = cut(self.first, width)
        match self.field.kind:
            case "lpm":
                if not 0 <= self.second <= width:
                    raise OperationError(
                        *("table", "BAD_MATCH_KEY"),
                        f"prefix length {self.second}: {self.field.name} has {width} bits",
                    )
                return first >> (width - self.second) << (width - self.second), self.second
            case "ternary":
                mask = cut(self.second, width)
                return first & mask, mask
            case "optional":
                mask = cut(self.second, width)
                if mask not in (0, full(width)):
                    raise OperationError(
                        *("table", "BAD_MATCH_KEY"),
                        f"the mask of {self.field.name} is neither 0 nor all ones: it is optional",
                    )
                return first, mask
            case _:
                return first, cut(self.second, width)

    def added(self) -> str:
        """Format the value as `table_add` does: `LPM-0a:00:00:00/8`."""
        kind = self.field.shown_kind
        return f"{kind.upper()}-{self._text(':')}"

    def dumped(self) -> str:
        """Format the value as `table_dump` does: `0a000000/8`."""
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
    """Return the number that `text` stands for, of as many bytes as `bitwidth` needs.

    Raises CommandError.
    """
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
    if number.bit_length() > 8 * byte_count(bitwidth):
        raise CommandError("Parameter is too large")
    return number


def key_value(field: KeyField, text: str) -> KeyValue:
    """Parse one field of a key. Raises KeyValueError."""
    width = field.bitwidth
    match field.shown_kind:
        case "lpm":
            first, length = _two(text, "/", "LPM", "prefix and length")
            try:
                return KeyValue(field, _key(first, width), int(length))
            except ValueError:
                raise KeyValueError(f"Invalid prefix length in {text}") from None
        case "ternary":
            first, second = _two(text, "&&&", "ternary", "key and mask")
            return KeyValue(field, _key(first, width), _key(second, width))
        case "range":
            first, second = _two(text, "->", "range", "range start and range end")
            low, high = _key(first, width), _key(second, width)
            if low > high:
                raise KeyValueError(f"start is greater than end in expression {text}")
            return KeyValue(field, low, high)
        case _:
            return KeyValue(field, _key(text, width))


def argument(text: str, bitwidth: int) -> int:
    """Parse an action's argument. Raises ArgumentValueError."""
    try:
        return value(text, bitwidth)
    except CommandError as error:
        raise ArgumentValueError(f"Error while parsing {text} - {error}") from None


def whole(text: str, what: str, bits: int = 64) -> int:
    """Parse a decimal number that fits into `bits` with its sign. Raises CommandError."""
    try:
        number = int(text)
    except ValueError:
        raise CommandError(f"Bad format for {what}") from None
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise CommandError(f"Bad format for {what}", f"{number} does not fit into {bits} bits")
    return number


def true_or_false(text: str) -> bool:
    """Parse true, True, false, False or a number. Raises CommandError."""
    if text in ("true", "True", "false", "False"):
        return text.lower() == "true"
    try:
        return bool(int(text, 0))
    except ValueError:
        raise CommandError("Invalid bool parameter") from None


def digits(number: int, bitwidth: int, separator: str) -> str:
    """Format a number as two hexadecimal digits a byte, all bytes that `bitwidth` needs."""
    data = number.to_bytes(max(byte_count(bitwidth), byte_count(number.bit_length())), "big")
    return data.hex(separator) if separator else data.hex()


def short_digits(number: int) -> str:
    """Format a number as two hexadecimal digits a byte without leading zero bytes, as in dumps."""
    return digits(number, max(1, number.bit_length()), "")


def byte_count(bitwidth: int) -> int:
    """Return the number of bytes that so many bits need."""
    return (bitwidth + 7) // 8


def full(bitwidth: int) -> int:
    """Return the highest number of that width."""
    return (1 << bitwidth) - 1


def cut(number: int, bitwidth: int) -> int:
    """Return the lowest `bitwidth` bits."""
    return number & full(bitwidth)


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
    if bitwidth == 32 and "." in text:
        octets = text.split(".")
        if len(octets) == 4 and all(part.isdecimal() and int(part) <= 0xFF for part in octets):
            return int.from_bytes(bytes(int(part) for part in octets), "big")
        raise CommandError("Invalid IPv4 address")
    if bitwidth == 128 and ":" in text:
        try:
            return int(ipaddress.IPv6Address(text))
        except ValueError:
            raise CommandError("Invalid IPv6 address") from None
    if bitwidth == 48 and ":" in text:
        try:
            numbers = [int(part, 16) for part in text.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) != 6 or not all(0 <= octet <= 0xFF for octet in numbers):
            raise CommandError("Invalid MAC address")
        return int.from_bytes(bytes(numbers), "big")
    return None
