"""`--require NAME=LIMIT,...` of `weft conformance`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from observe.errors import UsageError

COUNTS = frozenset({"stf", "crashes"})
AT_MOST = frozenset({"crashes", "unsupported"})
NAMES = (
    "stf",
    "refusals",
    "refusals-json",
    "core-refusals",
    "unsupported",
    "crashes",
    "p4info",
    "warnings-precision",
    "warnings-recall",
)
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True, slots=True)
class Limit:
    """What a number must at least be, or at most where its name is in `AT_MOST`."""

    name: str
    value: float

    def holds(self, numbers: Mapping[str, float]) -> bool:
        """Return whether the number of this name keeps the limit."""
        number = numbers[self.name]
        return number <= self.value if self.name in AT_MOST else number >= self.value

    def __str__(self) -> str:
        unit = "" if self.name in COUNTS else "%"
        return f"{'<=' if self.name in AT_MOST else '>='} {self.value:g}{unit}"


def parse(text: str) -> list[Limit]:
    """Parse the limits of an argument. Raises UsageError."""
    limits = []
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        found = _LIMIT.fullmatch(value)
        if name not in NAMES:
            raise UsageError(f"--require: no {name!r}; there are: {', '.join(NAMES)}")
        percent = name not in COUNTS
        if found is None or bool(found[2]) != percent:
            form = f"{name}=90%" if percent else f"{name}=5"
            raise UsageError(f"--require: {part!r} should look like {form}")
        limits.append(Limit(name, float(found[1])))
    return limits
