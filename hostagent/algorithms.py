"""The congestion-control algorithms in C: their list, and their parameters as one struct.

    parameters = {"NAME": {"line_rate": 400 * 10**9, "min_rate": 10**9, ...}}
    card.add_queue_pair(config, parameters)

Names and fields are those of hostagent/include/cc_algorithms.h and its headers. Nothing here knows
an algorithm: what C lists is available.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostagent.rnic.native import native

Parameters = Mapping[str, Mapping[str, int]]
"""By the algorithm's name its fields' values; rates in bits/s, times in ns, as they run.

A queue pair has the algorithms that are in it; of several the smallest rate holds."""

_PLACE = "CC_PLACE_"
_PADDING = "pad_"


class AlgorithmError(ValueError):
    """Parameters that C does not know; the message says which, and lists those available."""


def names(ffi: Any = None) -> tuple[str, ...]:
    """Return the algorithms by their place in the list; their bit in a set is 1 << place.

    `ffi`: of the module whose list it is; they are all the same, default the card's.
    """
    places = (ffi or native().ffi).typeof("enum cc_place").relements
    found = {place: name for name, place in places.items() if name.startswith(_PLACE)}
    return tuple(found[place].removeprefix(_PLACE) for place in sorted(found))


def hears(name: str) -> frozenset[str]:
    """Return the kinds of events that an algorithm takes, as enum cc_event_kind calls them.

    Raises AlgorithmError.
    """
    module = native()
    _known(name, names())
    kinds = module.ffi.typeof("enum cc_event_kind").relements
    taken = int(getattr(module.lib, f"{name}_HEARS"))
    return frozenset(kind for kind, number in kinds.items() if taken >> number & 1)


def members(ffi: Any, bits: int) -> tuple[str, ...]:
    """Return the names of a set of algorithms."""
    return tuple(name for place, name in enumerate(names(ffi)) if bits >> place & 1)


def pack(ffi: Any, parameters: Parameters | None) -> Any:
    """Make the struct cc_params of these parameters; without any, that of no congestion control.

    Raises AlgorithmError for an unknown algorithm, and for fields that are unknown, missing or no
    number that they hold. Whether the numbers make sense is asked when they are used.
    """
    packed = ffi.new("struct cc_params *")
    known = names(ffi)
    for name, fields in (parameters or {}).items():
        _known(name, known)
        packed.algorithms |= 1 << known.index(name)
        _fill(ffi, getattr(packed, name), name, fields)
    return packed


def within_line(parameters: Parameters | None, line_rate_bps: int) -> Parameters | None:
    """Return the same, but never faster than a line; 0: as they are."""
    if parameters is None or not line_rate_bps:
        return parameters
    found: dict[str, dict[str, int]] = {}
    for name, fields in parameters.items():
        line = min(fields["line_rate"], line_rate_bps)
        found[name] = {**fields, "line_rate": line, "min_rate": min(fields["min_rate"], line)}
    return found


def state(ffi: Any, row: Any) -> dict[str, int]:
    """Return the fields of an algorithm's state (a struct of C) but for its parameters.

    Of an array and of a struct in it each member is one: `hops[0].bytes`.
    """
    names = [name for name in _fields(ffi.typeof(row)) if name != "params"]
    return dict(each for name in names for each in _numbers(ffi, name, getattr(row, name)))


def _numbers(ffi: Any, name: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, int):
        yield name, value
    elif ffi.typeof(value).kind == "array":
        for i, member in enumerate(value):
            yield from _numbers(ffi, f"{name}[{i}]", member)
    else:
        for field in _fields(ffi.typeof(value)):
            yield from _numbers(ffi, f"{name}.{field}", getattr(value, field))


def _known(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise AlgorithmError(f"there is no congestion control {name!r}: {', '.join(known)}")


def _fields(of: Any) -> list[str]:
    return [name for name, _ in of.fields if name != _PADDING]


def _fill(ffi: Any, row: Any, name: str, fields: Mapping[str, int]) -> None:
    wanted = _fields(ffi.typeof(row))
    if not isinstance(fields, Mapping):
        raise AlgorithmError(f"{name}: its fields are {', '.join(wanted)}, not {fields!r}")
    for field in fields:
        if field not in wanted:
            raise AlgorithmError(f"{name} has no field {field!r}: {', '.join(wanted)}")
    if missing := [field for field in wanted if field not in fields]:
        raise AlgorithmError(f"{name} lacks {', '.join(missing)}")
    for field, value in fields.items():
        try:
            setattr(row, field, value)
        except (OverflowError, TypeError):
            bits = 8 * ffi.sizeof(dict(ffi.typeof(row).fields)[field].type)
            raise AlgorithmError(
                f"{name}: {field} is an integer from 0 to {(1 << bits) - 1}, not {value!r}"
            ) from None
