"""Breaks Protobuf messages: numbers, texts, bytes and lists changed, parts taken from elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

ODD_NUMBERS = (0, 1, 2, -1, 7, 99, 255, 256, 511, 65535, 65536, 2**31 - 1, -(2**31), 2**32 - 1)
ODD_LONG = (*ODD_NUMBERS, 2**32, 2**62, 2**63 - 1, -(2**63))
ODD_BYTES = (b"", b"\0", b"\1", b"\xff", b"\0" * 9, b"\xff" * 4, b"\xff" * 17, b"\1" * 300)
ODD_TEXTS = ("", "x", "I.t", "\0", "ä" * 40, "packet_in", "packet_out", "a" * 5000)
_WHOLE = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def parts(message: Message) -> Iterator[Message]:
    """Yield the message and all messages inside of it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else [value]:
            yield from parts(each)


def mutate(message: Message, chance: random.Random, spare: Sequence[Message] = ()) -> None:
    """Change one to four places. `spare`: messages whose parts may come in."""
    for _ in range(chance.randint(1, 4)):
        at = chance.choice(list(parts(message)))
        if chance.randrange(4) == 0 and spare:
            _graft(at, chance.choice(spare), chance)
        else:
            _change(at, chance)


def _graft(at: Message, source: Message, chance: random.Random) -> None:
    """Another message of the same type in its place."""
    same = [m for m in parts(source) if m.DESCRIPTOR is at.DESCRIPTOR]
    if same:
        at.CopyFrom(chance.choice(same))


def _change(at: Message, chance: random.Random) -> None:
    used = [field for field, _ in at.ListFields()]
    fields = used if used and chance.randrange(3) else list(at.DESCRIPTOR.fields)
    if not fields:
        return
    field = chance.choice(fields)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return
    if field.is_repeated:
        _change_list(at, field, chance)
    elif field.message_type is not None:
        if chance.randrange(2):
            at.ClearField(field.name)
        else:
            getattr(at, field.name).SetInParent()
    elif chance.randrange(4) == 0:
        at.ClearField(field.name)
    else:
        setattr(at, field.name, _odd(field, getattr(at, field.name), chance))


def _change_list(at: Message, field: FieldDescriptor, chance: random.Random) -> None:
    items: Any = getattr(at, field.name)
    kind = chance.randrange(4)
    if kind == 0 and items:
        del items[chance.randrange(len(items))]
    elif kind == 1 and items:
        items.append(chance.choice(list(items)))
    elif kind == 2 and len(items) > 1:
        order = list(items)
        chance.shuffle(order)
        copies = [_copied(item) for item in order]
        del items[:]
        items.extend(copies)
    elif field.message_type is not None:
        items.add()
    else:
        items.append(_odd(field, field.default_value or None, chance))


def _copied(item: Any) -> Any:
    if not isinstance(item, Message):
        return item
    copy = type(item)()
    copy.CopyFrom(item)
    return copy


def _odd(field: FieldDescriptor, now: Any, chance: random.Random) -> Any:
    kind = field.cpp_type
    if kind in _WHOLE:
        low, high = _WHOLE[kind]
        step = chance.choice((-1, 1)) + (now if isinstance(now, int) else 0)
        value = step if chance.randrange(3) == 0 else chance.choice(ODD_LONG)
        return min(max(value, low), high)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return chance.choice((0, 1, 2, 3, 4, 5, 6, 99, -1, 2**31 - 1))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return chance.randrange(2) == 1
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return chance.choice((*ODD_BYTES, chance.randbytes(chance.randrange(20))))
        return chance.choice(ODD_TEXTS)
    return chance.choice((0.0, 1.5, -1e300, float("nan"), float("inf")))


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Change bytes: some replaced, taken out, put in or doubled."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[at : at + chance.choice((1, 2, 8, 64))]
            case 1:
                changed[at:at] = chance.randbytes(chance.choice((1, 2, 8, 64)))
            case 2 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 3:
                changed[at:at] = changed[at : at + 32]
            case _:
                changed[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF))])
    return bytes(changed)
