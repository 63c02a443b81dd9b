"""Makes a case that shows a finding as small as it gets, with the same kind of finding."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

from tests.random_programs import model as m
from tests.random_programs.draw_packets import Case, defined
from tests.random_programs.types import Bits, Bool, Enum, Struct
from tests.random_programs.values import Undefined

Shows = Callable[[Case], bool]


def shrink(case: Case, shows: Shows, seconds: float) -> Case:
    """Return the smallest case found in so many seconds that `shows` what the first one showed."""
    worker = _Shrink(case, shows, time.monotonic() + seconds)
    worker.run()
    return worker.case


class _Shrink:
    def __init__(self, case: Case, shows: Shows, until: float) -> None:
        self.case, self.shows, self.until = case, shows, until

    def run(self) -> None:
        """Go on as long as something gets smaller."""
        self._packets()
        self._entries()
        changed = True
        while changed and time.monotonic() < self.until:
            changed = self._lists()
            changed = self._expressions() or changed
        self._packets()
        self._entries()

    def _try(self, case: Case) -> bool:
        if time.monotonic() > self.until:
            return False
        try:
            packets = defined(case.program, case.entries, case.packets)
            if not self.shows(Case(case.program, case.entries, packets)):
                return False
        except (Undefined, LookupError, TypeError, AttributeError, AssertionError, ValueError):
            return False  # what was taken away is used: no program any more
        self.case = Case(case.program, case.entries, packets)
        return True

    def _copy(self) -> Case:
        return copy.deepcopy(self.case)

    # --- what the program is run with -----------------------------------------------------------

    def _packets(self) -> None:
        for packet in list(self.case.packets):
            alone = self._copy()
            alone.packets = [packet]
            if self._try(alone):
                return
        at = 0
        while at < len(self.case.packets):
            without = self._copy()
            del without.packets[at]
            at += not self._try(without)

    def _entries(self) -> None:
        for table in list(self.case.entries.tables):
            at = 0
            while at < len(self.case.entries.tables[table]):
                without = self._copy()
                del without.entries.tables[table][at]
                at += not self._try(without)

    # --- the program ----------------------------------------------------------------------------

    def _lists(self) -> bool:
        """Take elements out of every list of the program, many at once at first."""
        changed = False
        for path in list(_lists(self.case.program)):
            length = len(_at(self.case.program, path) or [])
            step = length
            while step:
                at = 0
                while at < len(_at(self.case.program, path) or []):
                    without = self._copy()
                    del _at(without.program, path)[at : at + step]
                    if self._try(without):
                        changed = True
                    else:
                        at += step
                step //= 2
        return changed

    def _expressions(self) -> bool:
        """Put parts of an expression, or a constant, in its place."""
        changed = False
        for path in list(_expressions(self.case.program)):
            node = _at(self.case.program, path)
            if node is None or isinstance(node, m.Lit | m.Var):
                continue
            for smaller in _smaller(node):
                other = self._copy()
                _put(other.program, path, copy.deepcopy(smaller))
                if self._try(other):
                    changed = True
                    break
        return changed


Path = tuple[str | int, ...]
_PLACES = ("target", "header", "stack", "base", "call")
"""Where an expression must stay what can be assigned to, or a call; a select's key must vary."""


def _children(node: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, list):
        yield from enumerate(node)
    elif is_dataclass(node) and not isinstance(node, Struct | Bits | Enum | Bool):
        for each in fields(node):
            yield each.name, getattr(node, each.name)


def _walk(node: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    yield path, node
    for step, child in _children(node):
        yield from _walk(child, (*path, step))


def _lists(program: m.Program) -> Iterator[Path]:
    """Yield lists of statements, declarations, cases; those of arguments, keys must keep length."""
    kept = ("args", "items", "keys", "matches", "exprs", "params", "labels", "default_args")
    for path, node in _walk(program):
        if isinstance(node, list) and path[-1] not in kept and "structs" not in path:
            yield path


def _expressions(program: m.Program) -> Iterator[Path]:
    for path, node in _walk(program):
        if isinstance(node, m.Expr) and path[-1] not in _PLACES and "exprs" not in path:
            yield path


def _at(node: object, path: Path) -> object:
    for step in path:
        try:
            node = node[step] if isinstance(node, list) else getattr(node, step)  # type: ignore
        except (IndexError, AttributeError, TypeError):
            return None
    return node


def _put(node: object, path: Path, value: object) -> None:
    holder = _at(node, path[:-1])
    if isinstance(holder, list):
        holder[path[-1]] = value  # type: ignore[index]
    else:
        setattr(holder, path[-1], value)  # type: ignore[arg-type]


def _smaller(node: m.Expr) -> Iterator[m.Expr]:
    """Expressions of the same type that are simpler."""
    for path, part in _walk(node):
        if path and isinstance(part, m.Expr) and part.type == node.type:
            yield part
    match node.type:
        case Bits():
            yield m.Lit(node.type, 1)
            yield m.Lit(node.type, 0)
        case Bool():
            yield m.Lit(node.type, True)
            yield m.Lit(node.type, False)
        case Enum(members=members):
            yield m.Lit(node.type, members[0][1])
