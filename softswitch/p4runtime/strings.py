"""Values that the controller calls by strings: types with `@p4runtime_translation(uri, string)`.

Programs know numbers only, so each string of a type stands for a number (specification, "User-
defined types"). A decimal number stands for itself, so that "7" is port 7 in the program too; any
other string gets a number of its own, from the type's greatest down. What is refused, or only read,
gives back the numbers that it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from softswitch.codegen.model import Bmv2Program
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.protos import p4i
from softswitch.p4runtime.status import Code, EntityError

if TYPE_CHECKING:
    from softswitch.p4runtime.schema import Field, Param


class Strings:
    """The strings of one type and their numbers, which last as long as the pipeline."""

    def __init__(self, type_name: str, bits: int) -> None:
        """`bits`: the width of the type's numbers in the program."""
        self.type_name = type_name
        self.bits = bits
        self._numbers: dict[str, int] = {}
        self._strings: dict[int, str] = {}
        self._next = (1 << bits) - 1
        self._digits = len(str(self._next))

    def number(self, data: bytes, what: str, code: Code = Code.OUT_OF_RANGE) -> int:
        """Return the number that a string stands for.

        Raises EntityError: `code` for an invalid string, RESOURCE_EXHAUSTED if no number is left.
        """
        try:
            string = data.decode()
        except UnicodeDecodeError:
            string = ""
        if not string:
            raise EntityError(code, f"{what}: a string is expected ({self.type_name})")
        found = self._numbers.get(string)
        if found is None:
            found = self._own(string)
            if found is None:
                found = self._free(what)
            self._numbers[string] = found
            self._strings[found] = string
        return found

    def string(self, value: int) -> bytes:
        """Return the string that stands for a number; its decimal digits if there is none."""
        return self._strings.get(value, str(value)).encode()

    @property
    def known(self) -> int:
        """How many strings have numbers."""
        return len(self._numbers)

    def keep(self, oldest: int) -> None:
        """Forget all strings but the `oldest`; nothing may have the others' numbers."""
        while len(self._numbers) > oldest:
            _, freed = self._numbers.popitem()
            del self._strings[freed]
            self._next = max(self._next, freed)

    def _own(self, string: str) -> int | None:
        if not (string.isascii() and string.isdecimal()) or len(string) > self._digits:
            return None
        value = int(string)
        fits = value.bit_length() <= self.bits and string == str(value)
        return value if fits and value not in self._strings else None

    def _free(self, what: str) -> int:
        while self._next in self._strings:
            self._next -= 1
        if self._next < 0:
            raise EntityError(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: all {1 << self.bits} numbers of {self.type_name} stand for strings",
            )
        return self._next


class Vocabulary:
    """The types of a program that the controller has strings for; false where there are none."""

    def __init__(self, types: Mapping[str, Strings]) -> None:
        """`types`: by name."""
        self._types = list(types.values())

    def __bool__(self) -> bool:
        return bool(self._types)

    def mark(self) -> list[int]:
        """Return how many strings are known now, for `back_to`."""
        return [of.known for of in self._types]

    def back_to(self, mark: list[int]) -> None:
        """Forget the strings that have become known since."""
        for of, known in zip(self._types, mark, strict=True):
            of.keep(known)

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Forget what becomes known in the block if it raises EntityError."""
        mark = self.mark()
        try:
            yield
        except EntityError:
            self.back_to(mark)
            raise


def string_types(p4info: p4i.P4Info, program: Bmv2Program) -> dict[str, Strings]:
    """Return the types of a program for which the controller uses strings, by name.

    P4Info does not say how wide their numbers are: keys, parameters and headers that have them do.
    """
    names = {
        name
        for name, spec in p4info.type_info.new_types.items()
        if spec.translated_type.HasField("sdn_string")
    }
    found: dict[str, Strings] = {}
    for name, bits in _uses(p4info, program) if names else ():
        if name in names:
            found.setdefault(name, Strings(name, bits))
    return found


def _uses(p4info: p4i.P4Info, program: Bmv2Program) -> Iterator[tuple[str, int]]:
    """Yield (type name, bits) of match fields, action parameters and packet metadata."""
    tables = {table.name: table for table in program.tables}
    for table in p4info.tables:
        own = tables.get(table.preamble.name)
        keys = own.key if own is not None else ()
        by_name = {key.name: key.bits for key in keys}
        for place, field in enumerate(table.match_fields):
            if len(keys) == len(table.match_fields):
                yield field.type_name.name, by_name.get(field.name, keys[place].bits)
    actions = {action.name: action for action in program.actions}
    for action in p4info.actions:
        params = actions[action.preamble.name].params if action.preamble.name in actions else ()
        for param, given in zip(action.params, params, strict=False):
            yield param.type_name.name, given.bits
    types = [header.type.fields for header in program.headers.values()]
    for header in p4info.controller_packet_metadata:
        names = [of.name for of in header.metadata]
        for fields in types:
            if [of.name for of in fields] == names:
                for of, own_field in zip(header.metadata, fields, strict=True):
                    yield of.type_name.name, own_field.bits


def value_of(of: Field | Param, data: bytes, what: str, code: Code = Code.OUT_OF_RANGE) -> int:
    """Return the program's number for a value in the controller's form. Raises EntityError."""
    if of.strings is not None:
        return of.strings.number(data, what, code)
    return decode(data, of.bitwidth, what, code)


def bytes_of(of: Field | Param, value: int) -> bytes:
    """Return a number of the program in the controller's form."""
    return encode(value) if of.strings is None else of.strings.string(value)
