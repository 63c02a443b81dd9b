"""The PHV of one program by name: from changed words to changed fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softswitch.codegen.expressions import VALID_FIELD
from softswitch.codegen.gen_trace import fields
from softswitch.codegen.model import Bmv2Program
from softswitch.core.tracing import FieldPlace
from softswitch.tracing.records import Change, Effects, HeaderValue, Value

WORD = 4
SCALARS = "scalars"
"""The header in which p4c keeps metadata and local variables: its name says nothing."""


@dataclass(frozen=True, slots=True)
class _Field:
    header: int
    name: str
    place: FieldPlace

    def value(self, phv: bytearray) -> Value:
        place = self.place
        if place.bits:
            raw = phv[place.offset : place.offset + place.size]
            number = int.from_bytes(raw, "little") & ((1 << place.bits) - 1)
            return Value(self.name, place.bits, number)
        length = int.from_bytes(phv[place.length_offset : place.length_offset + 4], "little")
        size = min(length // 8, place.size)
        raw = phv[place.offset : place.offset + size]
        return Value(self.name, size * 8, int.from_bytes(raw, "big"))


class PhvLayout:
    """Fields of one program's PHV. A PHV here is a bytearray of `size` bytes."""

    def __init__(self, program: Bmv2Program, places: Sequence[FieldPlace]) -> None:
        self._headers: list[str] = []
        self._valid: list[int | None] = []
        self._fields: list[_Field] = []
        self._of_header: dict[int, list[int]] = defaultdict(list)
        at_word: dict[int, list[int]] = defaultdict(list)
        numbers: dict[str, int] = {}
        end = 0
        for (header, field), place in zip(fields(program), places, strict=True):
            if header.name not in numbers:
                numbers[header.name] = len(self._headers)
                self._headers.append(header.name)
                self._valid.append(None)
            number = numbers[header.name]
            index = len(self._fields)
            self._fields.append(_Field(number, field.name, place))
            if field.name == VALID_FIELD:
                self._valid[number] = index
            else:
                self._of_header[number].append(index)
            end = max(end, place.offset + place.size, place.length_offset + WORD)
            words = set(range(place.offset // WORD, (place.offset + place.size + 3) // WORD))
            if not place.bits:
                words.add(place.length_offset // WORD)
            for word in words:
                at_word[word].append(index)
        self._at_word = dict(at_word)
        self.size = (end + WORD - 1) // WORD * WORD

    def apply(
        self, phv: bytearray, words: Iterable[tuple[int, int]], *, whole: bool = False
    ) -> Effects:
        """Write changed words into `phv`; `whole`: all other words are zero. What that changed."""
        before = bytes(phv)
        if whole:
            phv[:] = bytes(self.size)
        touched = set()
        for index, value in words:
            at = index * WORD
            if at < self.size:
                phv[at : at + WORD] = value.to_bytes(WORD, "little")
                touched.add(index)
        if whole:
            touched = {
                i
                for i in range(self.size // WORD)
                if before[i * WORD : i * WORD + WORD] != phv[i * WORD : i * WORD + WORD]
            }
        return self._effects(bytearray(before), phv, touched)

    def _effects(self, before: bytearray, after: bytearray, words: set[int]) -> Effects:
        indexes = sorted({field for word in words for field in self._at_word.get(word, ())})
        added, removed, changes = [], [], []
        flipped = set()
        for index in indexes:
            field = self._fields[index]
            if field.name != VALID_FIELD:
                continue
            was, is_now = field.value(before).value, field.value(after).value
            if was == is_now:
                continue
            flipped.add(field.header)
            if is_now:
                values = (self._fields[i].value(after) for i in self._of_header[field.header])
                added.append(HeaderValue(self._headers[field.header], tuple(values)))
            else:
                removed.append(self._headers[field.header])
        for index in indexes:
            field = self._fields[index]
            valid = self._valid[field.header]
            if field.name == VALID_FIELD or field.header in flipped:
                continue
            if valid is not None and not self._fields[valid].value(after).value:
                continue  # nothing of an invalid header means anything
            old, new = field.value(before), field.value(after)
            if old != new:
                name = self._name(field)
                changes.append(Change(name, max(old.bits, new.bits), old.value, new.value))
        return Effects(tuple(added), tuple(removed), tuple(changes))

    def _name(self, field: _Field) -> str:
        header = self._headers[field.header]
        return field.name if header == SCALARS else f"{header}.{field.name}"
