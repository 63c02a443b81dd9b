"""A base with overrides merged into it, as RFC 7386 merges JSON: mappings into each other, the rest
replaced, null removes. A key may be a dotted path, in which a number is a place in a list:

    transport.overrides.gain: 0.1          the same as  transport: {overrides: {gain: 0.1}}
    traffic.0.incast.senders: 4

Every value remembers where it stood, so that a mistake is shown at the line that made it.
"""

from __future__ import annotations

import copy
from typing import Any

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError

Positions = dict[FieldPath, tuple[int, int]]


class Merge:
    """A mapping of a document that grows by overrides of the same document."""

    def __init__(self, document: Document, base: FieldPath | None) -> None:
        """Start from the mapping at `base` in the document; None: from an empty one."""
        self._source = document
        self._data: Any = {}
        self._positions: Positions = {}
        if base is not None:
            self._data = copy.deepcopy(_at(document.data, base))
            self._positions = _moved(document.positions, base, ())
        self._problems: list[Problem] = []

    def put(self, overrides: FieldPath) -> None:
        """Merge in the mapping that stands at a place of the document; of none there is nothing."""
        given = _at(self._source.data, overrides)
        for key, value in (given if isinstance(given, dict) else {}).items():
            place = (*overrides, key)
            self._put(tuple(key.split(".")), value, place)

    def done(self) -> Document:
        """Return the merged document. Raises TopologyError with every path that leads nowhere."""
        if self._problems:
            raise TopologyError(self._problems)
        return Document(self._source.file, self._data, self._positions)

    def _put(self, path: tuple[str, ...], value: object, place: FieldPath) -> None:
        """Put a value at a dotted path: what is not there on the way becomes a mapping."""
        at = self._data
        here: list[str | int] = []
        for part in path[:-1]:
            step = self._step(at, part, tuple(here), place)
            if step is None:
                return
            here.append(step)
            if isinstance(at, dict) and not isinstance(at.get(step), dict | list):
                at[step] = {}
                self._stands((*here,), place)
            at = at[step]
        last = self._step(at, path[-1], tuple(here), place)
        if last is not None:
            self._merge(at, last, value, (*here, last), place)

    def _step(self, at: Any, part: str, here: FieldPath, place: FieldPath) -> str | int | None:
        """Return a part of a path as a key or a place in a list; None and a problem if neither."""
        if isinstance(at, dict) and part:
            return part
        if isinstance(at, list) and part.isdecimal() and int(part) < len(at):
            return int(part)
        what = ".".join(str(each) for each in here) or "the base"
        if isinstance(at, list):
            right = f"{what} is a list of {len(at)}: write a number from 0 to {len(at) - 1}"
        else:
            right = "between two dots stands a key" if not part else f"{what} has no parts"
        self._problems.append(self._source.problem(place, f"no {part!r} here: {right}"))
        return None

    def _merge(
        self, at: Any, key: str | int, value: object, here: FieldPath, place: FieldPath
    ) -> None:
        if value is None and isinstance(at, dict):
            at.pop(key, None)
            self._forget(here)
            return
        old = at.get(key) if isinstance(at, dict) else at[key]
        if isinstance(value, dict) and isinstance(old, dict):
            for inner, inner_value in value.items():
                self._merge(old, inner, inner_value, (*here, inner), (*place, inner))
            return
        at[key] = _without_nulls(value)
        self._forget(here)
        self._positions |= _moved(self._source.positions, place, here)
        self._stands(here, place)

    def _stands(self, here: FieldPath, place: FieldPath) -> None:
        self._positions[here] = self._source.position(place)

    def _forget(self, here: FieldPath) -> None:
        for path in [path for path in self._positions if path[: len(here)] == here]:
            del self._positions[path]


def _at(data: Any, path: FieldPath) -> Any:
    for part in path:
        data = data[part]
    return data


def _moved(positions: Positions, old: FieldPath, new: FieldPath) -> Positions:
    return {
        (*new, *path[len(old) :]): position
        for path, position in positions.items()
        if path[: len(old)] == old
    }


def _without_nulls(value: object) -> object:
    """Return a copy in which no mapping has a null, as if each had been merged into nothing."""
    if not isinstance(value, dict):
        return copy.deepcopy(value)
    return {key: _without_nulls(each) for key, each in value.items() if each is not None}
