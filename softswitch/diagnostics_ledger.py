"""What clients want to find again in the switch: numbers that P4Runtime has no place for.

`weft cli` keeps BMv2's handles of entries and its multicast nodes here, so that the next session
numbers them the same. The switch itself makes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from softswitch.diagnostics import Json
from softswitch.p4runtime.status import Code, EntityError

MAX_ROWS = 1 << 20
"""Rows of a section; more than the largest table has entries."""


@dataclass(slots=True)
class _Section:
    revision: int = 0
    rows: dict[str, object] = field(default_factory=dict)


class Ledger:
    """Sections of rows by name. All are forgotten when `state` is another object than before."""

    def __init__(self, state: Callable[[], object]) -> None:
        self._state = state
        self._of: object = None
        self._sections: dict[str, _Section] = {}
        self._revision = 0

    def answer(self, request: Json) -> Json:
        """Do `put` (rows by name) and `drop` (names), or `clear` first; tell the `revision`.

        The `rows` come with it, unless the section is still that of the `revision` in the request.
        `guarded`: nothing is done unless it is. Raises EntityError.
        """
        name, put, drop = request.get("section"), request.get("put", {}), request.get("drop", [])
        if not isinstance(name, str) or not isinstance(put, dict) or not isinstance(drop, list):
            raise EntityError(
                Code.INVALID_ARGUMENT, '"section" is a name, "put" an object, "drop" a list'
            )
        state = self._state()
        if state is not self._of:
            self._of = state
            self._sections.clear()
        section = self._sections.setdefault(name, _Section())
        is_known = section.revision == request.get("revision", -1)
        is_wanted = is_known or not request.get("guarded")
        if is_wanted and (put or drop or request.get("clear")):
            self._change(section, put, drop, clear=bool(request.get("clear")))
        answer: Json = {"revision": section.revision}
        if not is_known:
            answer["rows"] = dict(section.rows)  # the caller reads it without the lock
        return answer

    def _change(self, section: _Section, put: Json, drop: list[object], *, clear: bool) -> None:
        if (0 if clear else len(section.rows)) + len(put) > MAX_ROWS:
            raise EntityError(Code.RESOURCE_EXHAUSTED, f"a section has at most {MAX_ROWS} rows")
        if clear:
            section.rows.clear()
        for name in drop:
            section.rows.pop(str(name), None)
        section.rows.update(put)
        self._revision += 1  # never twice, so that a forgotten section is not taken for the new one
        section.revision = self._revision
