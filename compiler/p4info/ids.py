"""P4Info object ids and aliases, as p4c assigns them.

An id is an 8-bit resource type before a 24-bit hash of the object's name (Bob Jenkins's
one-at-a-time); taken ids are stepped over. `@id` overrides. An alias is the shortest suffix
(in dot-separated parts) of a name that no other object's name shares.
P4Runtime specification 1.4, sections 6.3 and 6.4.
"""

from __future__ import annotations

from enum import IntEnum

from compiler.errors import CompileError, Pos

_HASH_BITS = 24
_HASH_MASK = (1 << _HASH_BITS) - 1


class ResourceType(IntEnum):
    """The 8-bit id prefixes (p4info.proto, `P4Ids.Prefix`)."""

    ACTION = 0x01
    TABLE = 0x02
    VALUE_SET = 0x03
    CONTROLLER_HEADER = 0x04
    ACTION_PROFILE = 0x11
    COUNTER = 0x12
    DIRECT_COUNTER = 0x13
    METER = 0x14
    DIRECT_METER = 0x15
    REGISTER = 0x16
    DIGEST = 0x17


def name_hash(name: str) -> int:
    """Return the 32-bit one-at-a-time hash of the UTF-8 bytes of `name`."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class SymbolTable:
    """All objects that the control plane sees. First `add` all of them, then `assign`, then ask."""

    def __init__(self) -> None:
        self._symbols: dict[ResourceType, dict[str, int | None]] = {}
        self._taken: set[int] = set()
        self._suffixes: dict[str, int] = {}
        self._names: set[str] = set()

    def add(self, kind: ResourceType, name: str, user_id: int | None, pos: Pos) -> None:
        """Enter an object; entering it twice is harmless (an action used in two controls).

        `user_id` is the value of `@id`, with or without the type prefix. Raises `CompileError`
        if its prefix is of another type or the id is taken.
        """
        symbols = self._symbols.setdefault(kind, {})
        if name in symbols:
            return
        symbols[name] = self._claim(kind, user_id, pos) if user_id is not None else None
        self._add_suffixes(name)

    def _claim(self, kind: ResourceType, user_id: int, pos: Pos) -> int:
        prefix = user_id >> _HASH_BITS
        if user_id < 0 or prefix not in (0, kind):
            raise CompileError.at(
                pos,
                f"@id({user_id:#x}) has the wrong 8-bit prefix: expected 0x00 or {int(kind):#04x}",
            )
        full = user_id | (kind << _HASH_BITS)
        if full in self._taken:
            raise CompileError.at(pos, f"@id({user_id:#x}) is assigned to more than one object")
        self._taken.add(full)
        return full

    def _add_suffixes(self, name: str) -> None:
        if name in self._names:
            return
        self._names.add(name)
        parts = name.split(".")
        for start in range(len(parts)):
            suffix = ".".join(parts[start:])
            self._suffixes[suffix] = self._suffixes.get(suffix, 0) + 1

    def assign(self) -> None:
        """Give an id to every object without one: by type, then by name, probing linearly."""
        for kind in sorted(self._symbols):
            symbols = self._symbols[kind]
            for name in sorted(n for n, number in symbols.items() if number is None):
                value = name_hash(name)
                while (kind << _HASH_BITS | value & _HASH_MASK) in self._taken:
                    value += 1
                full = kind << _HASH_BITS | value & _HASH_MASK
                self._taken.add(full)
                symbols[name] = full

    def id_of(self, kind: ResourceType, name: str) -> int:
        """Return the id of an object that was added, after `assign`."""
        number = self._symbols[kind][name]
        assert number is not None, f"{name} asked for before assign()"
        return number

    def alias_of(self, name: str) -> str:
        """Return the shortest suffix of `name` that is a suffix of no other name (else `name`)."""
        parts = name.split(".")
        for start in range(len(parts) - 1, -1, -1):
            suffix = ".".join(parts[start:])
            if self._suffixes[suffix] < 2:
                return suffix
        return name


def number_members(user_ids: list[int | None]) -> list[int]:
    """Return the ids of match fields, action parameters or packet metadata, in order.

    `user_ids` are their `@id` values. The others take the smallest free number, where an
    explicitly numbered member uses up its place in the sequence (as p4c counts).
    """
    taken = {number for number in user_ids if number is not None}
    result: list[int] = []
    index = 1
    for number in user_ids:
        if number is not None:
            result.append(number)
            index += 1
            continue
        while index in taken:
            index += 1
        taken.add(index)
        result.append(index)
    return result
