"""Breaks BMv2 JSON: values changed, taken from elsewhere, names and next nodes led astray."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 1 << 31, 1 << 70, 1.5, "", "x", [], {}, [[]], "0x", "-0x1",
    "0xff", "0x" + "f" * 40, 65536, 999_999, "exact", "lpm", "ternary", "range", "optional", "*",
    "field", "header", "hexstr", "expression", "local", "runtime_data", "header_stack", "+", "?",
    "stack_field", "d2b", "__HIT__", "__MISS__", "valid",
)  # fmt: skip
FOLLOWS = frozenset(
    {"true_next", "false_next", "next_node", "base_default_next", "next_state", "init_table"}
)

Path = tuple[str | int, ...]


def paths(node: object, path: Path = ()) -> Iterator[Path]:
    """Yield the places of all values, the document's own first."""
    yield path
    if isinstance(node, dict):
        for key, value in node.items():
            if key != "source_info":
                yield from paths(value, (*path, key))
    elif isinstance(node, list):
        for at, value in enumerate(node):
            yield from paths(value, (*path, at))


def at_path(document: Any, path: Path) -> Any:
    """Return the value at a place."""
    for step in path:
        document = document[step]
    return document


def mutate(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a copy with one to three places changed."""
    changed = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change(changed, chance)
    return changed


def _change(document: dict[str, Any], chance: random.Random) -> None:
    everywhere = [path for path in paths(document) if path]
    if not everywhere:
        return
    kind = chance.randrange(8)
    if kind == 0:
        _lead_astray(document, everywhere, chance)
        return
    path = chance.choice(everywhere)
    if kind > 4:  # a value that stands in another such place: what still is a program, mostly
        alike = [other for other in everywhere if other[-1] == path[-1]]
        value = at_path(document, chance.choice(alike))
        at_path(document, path[:-1])[path[-1]] = copy.deepcopy(value)
        return
    holder, last = at_path(document, path[:-1]), path[-1]
    if kind == 1:
        del holder[last]
    elif kind == 2:
        holder[last] = copy.deepcopy(at_path(document, chance.choice(everywhere)))
    elif kind == 3 and isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(holder[last]))
    elif kind == 4 and isinstance(holder[last], int):
        holder[last] += chance.choice((-1, 1, 8, 64))
    else:
        holder[last] = chance.choice(ODD_VALUES)


def _lead_astray(document: dict[str, Any], everywhere: list[Path], chance: random.Random) -> None:
    """Replace the successor of a node or state by another one, maybe by one before it."""
    places = [
        path
        for path in everywhere
        if path[-1] in FOLLOWS or (len(path) > 1 and path[-2] == "next_tables")
    ]
    if not places:
        return
    names = [at_path(document, path) for path in places]
    path = chance.choice(places)
    at_path(document, path[:-1])[path[-1]] = chance.choice(names)
