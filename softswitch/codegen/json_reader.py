"""Reading JSON with a path at hand: each error says where it is and what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEX = re.compile(r"(-?)(?:0[xX])?([0-9a-fA-F]+)")

MOST_BITS = 1 << 16
"""Of one value; p4c itself stops at 2048."""
MOST_COUNT = (1 << 32) - 1


class JsonError(Exception):
    """The document is no BMv2 JSON, or asks for what the switch can't do.

    `path` names the place (`pipelines[0].tables[3].key[0]`), `problem` what is wrong there.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


def describe(value: object) -> str:
    """Describe a JSON value in a message: its type, and the value when it is small."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the string "{value[:40]}"'
        case list():
            return f"an array of {len(value)}"
        case _:
            return "an object"


class Node:
    """One value of the document together with its path."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str = "") -> None:
        self.value = value
        self.path = path

    def error(self, problem: str) -> JsonError:
        """Return the error that reports `problem` at this place."""
        return JsonError(self.path or "document", problem)

    def _child(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def object(self) -> dict[str, Any]:
        """Return the value as an object. Raises JsonError if it is none."""
        if not isinstance(self.value, dict):
            raise self.error(f"expected an object, found {describe(self.value)}")
        return self.value

    def __getitem__(self, key: str) -> Node:
        """Return the member `key`, which must be there."""
        members = self.object()
        if key not in members:
            raise self.error(f'missing key "{key}"')
        return Node(members[key], self._child(key))

    def opt(self, key: str) -> Node | None:
        """Return the member `key`, or None where it is missing or null."""
        value = self.object().get(key)
        return None if value is None else Node(value, self._child(key))

    def items(self, exactly: int | None = None) -> list[Node]:
        """Return the elements of an array; `exactly` is the length it must have."""
        if not isinstance(self.value, list):
            raise self.error(f"expected an array, found {describe(self.value)}")
        if exactly is not None and len(self.value) != exactly:
            raise self.error(f"expected {exactly} elements, found {len(self.value)}")
        return [Node(item, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def list_of(self, key: str) -> Iterator[Node]:
        """Iterate over the elements of the array member `key`; none where it is missing or null."""
        child = self.opt(key)
        return iter(()) if child is None else iter(child.items())

    def text(self) -> str:
        """Return the value as a string."""
        if not isinstance(self.value, str):
            raise self.error(f"expected a string, found {describe(self.value)}")
        return self.value

    def number(self, low: int | None = None, high: int | None = None) -> int:
        """Return the value as an integer within [low, high]."""
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"expected an integer, found {describe(value)}")
        if low is not None and value < low:
            raise self.error(f"expected an integer of at least {low}, found {value}")
        if high is not None and value > high:
            raise self.error(f"expected an integer of at most {high}, found {value}")
        return value

    def width(self, low: int = 1) -> int:
        """Return the value as a number of bits, bounded so that no field can exhaust the memory."""
        return self.number(low, MOST_BITS)

    def count(self, low: int = 0) -> int:
        """Return the value as a number of entries or cells, which the core keeps in 32 bits."""
        return self.number(low, MOST_COUNT)

    def flag(self) -> bool:
        """Return the value as a boolean."""
        if not isinstance(self.value, bool):
            raise self.error(f"expected true or false, found {describe(self.value)}")
        return self.value

    def hex_number(self) -> int:
        """Return the value of a hexadecimal string such as "0x1f", "1f" or "-0x1f"."""
        text = self.text()
        match = _HEX.fullmatch(text)
        if match is None:
            raise self.error(f'expected a hexadecimal string such as "0x1f", found "{text[:40]}"')
        value = int(match.group(2), 16)
        return -value if match.group(1) else value

    def hex_bytes(self, length: int) -> bytes:
        """Return the value of a hexadecimal string that is `length` bytes wide."""
        value = self.hex_number()
        digits = self.text().lower().removeprefix("0x")
        if value < 0 or (len(digits) + 1) // 2 != length:
            raise self.error(
                f'expected a hexadecimal string of {length} bytes, found "{self.value[:40]}"'
            )
        return value.to_bytes(length, "big")


def read_document(source: dict[str, Any] | str | bytes | Path) -> Node:
    """Return the root of a JSON document given as an object, as text, or as a path.

    Raises JsonError when the text is not JSON or its root is no object, OSError when the file can't
    be read.
    """
    if isinstance(source, dict):
        return Node(source)
    where = str(source) if isinstance(source, Path) else "document"
    try:
        value = json.loads(source.read_bytes() if isinstance(source, Path) else source)
    except ValueError as error:
        raise JsonError(where, f"not JSON: {error}") from None
    except RecursionError:
        raise JsonError(where, "nested too deeply") from None
    if not isinstance(value, dict):
        raise JsonError(where, f"expected an object, found {describe(value)}")
    return Node(value)
