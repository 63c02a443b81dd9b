"""The learner's header: read, checked, built; and what it asks of the network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hostagent import own_algorithm
from hostagent.algorithms import names
from hostagent.own_algorithm import Alone, Built, OwnAlgorithmError
from hostagent.rnic.native import native
from labs import own_header

FIELDS = ("line_rate", "min_rate", "base_rtt_ns", "time_scale")
"""Of its parameters, in this order: the lab fills them in."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(\w+)\.h"', re.MULTILINE)


@dataclass(frozen=True)
class Asks:
    """What a header says of itself: which kinds of events it takes, and what it wants."""

    hears: int
    wants: int

    def kind(self, number: int) -> bool:
        """Whether it takes events of this kind (enum cc_event_kind)."""
        return bool(self.hears >> number & 1)


def built(path: Path) -> Built:
    """Read a learner's header, which has a name of its own. Raises OwnAlgorithmError, OSError."""
    own = own_algorithm.read(path)
    installed = names(native().ffi)
    if own.name in installed:
        line = own.line_of(f"CC_ALGORITHM({own.name})")
        wrong = f"{own.name} is an installed algorithm"
        raise OwnAlgorithmError(path, line, wrong, "yours comes beside them: give it another name")
    for found in _INCLUDE.finditer(own.text):
        if found[1] in installed:
            line = own.text[: found.start()].count("\n") + 1
            wrong = f"includes {found[1]}.h, an algorithm"
            raise OwnAlgorithmError(path, line, wrong, "write your own, without theirs")
    made = own_algorithm.built(own)
    there = Alone(made).ffi.typeof(f"struct {own.name}_params").fields
    if tuple(name for name, _ in there) != FIELDS:
        line = own.line_of(f"struct {own.name}_params {{")
        wrong = f"struct {own.name}_params has other fields than the starter's"
        raise OwnAlgorithmError(path, line, wrong, f"it has {', '.join(FIELDS)}, in this order")
    return made


def built_from(text: str) -> Built:
    """Do the same with a text. Raises OwnAlgorithmError."""
    return own_header.built_from(text, "own_cc", built)


@cache
def asks(made: Built, name: str) -> Asks:
    """Return what a built header says of itself."""
    lib = Alone(made).lib
    return Asks(*(int(getattr(lib, f"{name}_{word}")) for word in ("HEARS", "WANTS")))
