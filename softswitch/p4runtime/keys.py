"""Match keys: from P4Runtime's field matches to the core's key and mask and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Field, MatchKind, Table
from softswitch.p4runtime.status import Code, EntityError
from softswitch.p4runtime.strings import bytes_of, value_of


@dataclass(frozen=True, slots=True)
class MatchKey:
    """A table entry's identity as the core has it (see ws_table_insert for the layout)."""

    key: bytes
    mask: bytes
    priority: int


def parse(
    table: Table, entry: p4r.TableEntry, *, any_priority: bool = False
) -> tuple[MatchKey, list[p4r.FieldMatch]]:
    """Return the core's key of `entry` and its field matches in canonical form and P4Info's order.

    `any_priority` lets a read leave the priority out.

    Raises EntityError as the specification says ("Match Format"): INVALID_ARGUMENT for a field
    that is unknown, repeated, missing, of another match type or a spelled-out "don't care", and for
    a priority where none belongs or none where one does; OUT_OF_RANGE for values too wide.
    """
    given = {match.field_id: match for match in entry.match}
    if len(given) != len(entry.match) or not given.keys() <= table.field_ids:
        _check_fields(table, entry.match)
    owner = _owner(table)
    key = bytearray(table.key_bytes)
    mask = bytearray(table.key_bytes)
    canonical: list[p4r.FieldMatch] = []
    for field in table.fields:
        if field.id in given:
            value, field_mask, form = field_of(owner, field, given[field.id])
            canonical.append(form)
        elif field.kind is MatchKind.EXACT:
            raise _invalid(table, f"exact match field {field.name!r} is missing")
        else:
            value, field_mask = _omitted(table, field)
        end = field.offset + field.size
        key[field.offset : end] = value.to_bytes(field.size, "big")
        mask[field.offset : end] = field_mask.to_bytes(field.size, "big")
    if not (any_priority and entry.priority == 0):
        _check_priority(table, entry.priority)
    return MatchKey(bytes(key), bytes(mask), entry.priority), canonical


def _check_fields(table: Table, matches: Iterable[p4r.FieldMatch]) -> None:
    """Raise EntityError for the first field that is unknown or given before."""
    seen = set()
    for match in matches:
        if match.field_id not in table.field_ids:
            raise _invalid(table, f"has no match field with id {match.field_id}")
        if match.field_id in seen:
            raise _invalid(table, f"match field id {match.field_id} is given twice")
        seen.add(match.field_id)


def fields_of(table: Table, key: bytes, mask: bytes) -> list[p4r.FieldMatch]:
    """Return the canonical field matches of the core's `key` and `mask` (the inverse of
    `parse`).
    """
    result = []
    for field in table.fields:
        end = field.offset + field.size
        value = int.from_bytes(key[field.offset : end], "big")
        field_mask = int.from_bytes(mask[field.offset : end], "big")
        form = _form(field, value, field_mask)
        if form is not None:
            result.append(form)
    return result


def _form(field: Field, value: int, mask: int) -> p4r.FieldMatch | None:
    full = (1 << field.bitwidth) - 1
    form = p4r.FieldMatch(field_id=field.id)
    match field.kind:
        case MatchKind.EXACT:
            form.exact.value = bytes_of(field, value)
        case MatchKind.LPM:
            if mask == 0:
                return None
            form.lpm.value = encode(value)
            form.lpm.prefix_len = mask.bit_count()
        case MatchKind.TERNARY:
            if mask == 0:
                return None
            form.ternary.value = encode(value)
            form.ternary.mask = encode(mask)
        case MatchKind.RANGE:
            if value == 0 and mask == full:
                return None
            form.range.low = encode(value)
            form.range.high = encode(mask)
        case MatchKind.OPTIONAL:
            if mask == 0:
                return None
            form.optional.value = bytes_of(field, value)
    return form


def prefix_mask(bitwidth: int, length: int) -> int:
    """Return the mask of a prefix of `length` bits in a field of `bitwidth` bits."""
    return ((1 << length) - 1) << (bitwidth - length)


def describe(table: Table, matches: Iterable[p4r.FieldMatch], priority: int) -> str:
    """Describe an entry's key for messages, such as `I.route[h.ip.dst=10.../8]`."""
    names = {f.id: f.name for f in table.fields}
    parts = []
    for match in matches:
        kind = match.WhichOneof("field_match_type")
        name = names.get(match.field_id, str(match.field_id))
        match kind:
            case "exact":
                parts.append(f"{name}=0x{match.exact.value.hex()}")
            case "lpm":
                parts.append(f"{name}=0x{match.lpm.value.hex()}/{match.lpm.prefix_len}")
            case "ternary":
                parts.append(f"{name}=0x{match.ternary.value.hex()}&0x{match.ternary.mask.hex()}")
            case "range":
                parts.append(f"{name}=0x{match.range.low.hex()}..0x{match.range.high.hex()}")
            case "optional":
                parts.append(f"{name}=0x{match.optional.value.hex()}")
    if priority:
        parts.append(f"priority {priority}")
    return f"{table.name}[{', '.join(parts)}]"


def _omitted(table: Table, field: Field) -> tuple[int, int]:
    full = (1 << field.bitwidth) - 1
    if field.kind in (MatchKind.RANGE, MatchKind.EXACT):
        return 0, full
    return 0, 0


def field_of(owner: str, field: Field, match: p4r.FieldMatch) -> tuple[int, int, p4r.FieldMatch]:
    """Return the value, mask (range: low, high) and canonical form of one field match of `owner`.

    Raises EntityError as `parse` does.
    """
    kind = match.WhichOneof("field_match_type")
    if kind != field.kind.name.lower():
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{owner}: match field {field.name!r} is {field.kind.name}, not "
            f"{(kind or 'unset').upper()}",
        )
    what = f"{owner}, match field {field.name!r}"
    width = field.bitwidth
    full = (1 << width) - 1
    match field.kind:
        case MatchKind.EXACT:
            value, mask = value_of(field, match.exact.value, what), full
        case MatchKind.LPM:
            value = decode(match.lpm.value, width, what)
            length = match.lpm.prefix_len
            if not 0 < length <= width:
                hint = " (leave the field out to match anything)" if length == 0 else ""
                raise EntityError(
                    Code.INVALID_ARGUMENT,
                    f"{what}: prefix length {length} is not in 1..{width}{hint}",
                )
            mask = prefix_mask(width, length)
            _check_masked(what, value, mask)
        case MatchKind.TERNARY:
            value = decode(match.ternary.value, width, what)
            mask = decode(match.ternary.mask, width, f"{what}, mask")
            if mask == 0:
                raise _dont_care(what, "a mask of 0")
            _check_masked(what, value, mask)
        case MatchKind.RANGE:
            value = decode(match.range.low, width, f"{what}, low")
            mask = decode(match.range.high, width, f"{what}, high")
            if value > mask:
                raise EntityError(
                    Code.INVALID_ARGUMENT, f"{what}: low 0x{value:x} is above high 0x{mask:x}"
                )
            if value == 0 and mask == full:
                raise _dont_care(what, "the whole range")
        case MatchKind.OPTIONAL:
            value, mask = value_of(field, match.optional.value, what), full
    form = _form(field, value, mask)
    assert form is not None
    return value, mask, form


def _check_masked(what: str, value: int, mask: int) -> None:
    if value & ~mask:
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{what}: value 0x{value:x} has bits outside its mask 0x{mask:x}; they must be 0",
        )


def _check_priority(table: Table, priority: int) -> None:
    if table.needs_priority:
        if priority <= 0:
            raise _invalid(
                table,
                f"priority {priority} given; a table with ternary, range or optional fields "
                "needs one > 0",
            )
    elif priority != 0:
        raise _invalid(
            table,
            f"priority {priority} given; only tables with ternary, range or optional fields have "
            "priorities",
        )


def _dont_care(what: str, form: str) -> EntityError:
    return EntityError(
        Code.INVALID_ARGUMENT, f"{what}: {form} matches anything; leave the field out instead"
    )


def _owner(table: Table) -> str:
    return f"table {table.name!r}"


def _invalid(table: Table, message: str) -> EntityError:
    return EntityError(Code.INVALID_ARGUMENT, f"{_owner(table)}: {message}")
