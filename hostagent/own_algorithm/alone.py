"""A header by itself: slots, what happens to them, what they say. Built in half a second."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from hostagent.algorithms import pack, state
from hostagent.own_algorithm.make import Built
from hostagent.own_algorithm.replay import Replay
from hostagent.rnic import build as card_build
from softswitch.core.extension import WARNINGS, run

HERE = Path(__file__).resolve().parent
SHUT = 0xFFFFFFFE
"""CC_SHUT: the slot's interface is not to be used now."""
NO_PATH = 0xFFFFFFFF
"""CC_NO_PATH: nothing is said."""


class Alone(Replay):
    """The header's code, loaded. A header that crashes takes this process along: see `apart`."""

    def __init__(self, built: Built, name: str | None = None) -> None:
        """`name`: which one of those that were built together, None for the last.

        Raises softswitch.core.extension.CoreBuildError.
        """
        chosen = built.own[-1].name if name is None else name
        super().__init__(chosen, *_library(built.include, built.part("alone")))

    def refusal(self, fields: Mapping[str, int]) -> str | None:
        """Return why parameters are refused; None: they are not."""
        said = self.lib.alone_invalid(pack(self.ffi, {self.name: fields}))
        return None if said == self.ffi.NULL else self.ffi.string(said).decode()

    def slot(self, fields: Mapping[str, int], now: int) -> Slot:
        """Begin a slot at a time. Raises AlgorithmError for fields that it has not."""
        slot = self.ffi.new("struct cc_slot *")
        self.lib.cc_start_slot(slot, pack(self.ffi, {self.name: fields}), now)
        return Slot(self, slot)


@dataclass(frozen=True)
class Slot:
    """A slot whose one algorithm is the header; times in ns, rates in bits/s."""

    alone: Alone
    raw: Any

    def event(self, now: int, telemetry: Mapping[str, Any] | None = None, **fields: int) -> None:
        """Pass an event to the algorithm: the fields of struct cc_event.

        `telemetry`: those of struct cc_telemetry, what switches wrote into what is acknowledged.
        """
        ffi = self.alone.ffi
        event = ffi.new("struct cc_event *", fields)
        told = ffi.NULL if telemetry is None else ffi.new("struct cc_telemetry *", telemetry)
        self.alone.lib.alone_event(self.raw, event, told, now)

    def elapse(self, now: int) -> int:
        """Bring it up to a time, and return its rate."""
        return int(self.alone.lib.alone_elapse(self.raw, now))

    def rate(self, now: int) -> int:
        """Return what it allows at a time; it is not changed."""
        return int(self.alone.lib.alone_rate(self.raw, now))

    def window(self, now: int) -> int:
        """Return how many bytes may be on the way."""
        return int(self.alone.lib.alone_window(self.raw, now))

    def path(self, now: int) -> int:
        """Return which path a packet takes, of one interface: SHUT or NO_PATH of a plane's slot."""
        choice = {"interfaces": 1, "usable": 1, "ports": 1}
        pointer = self.alone.ffi.new("struct cc_choice *", choice)
        return int(self.alone.lib.alone_path(self.raw, pointer, now))

    def state(self) -> dict[str, int]:
        """Return the fields of its state, without the parameters."""
        return state(self.alone.ffi, getattr(self.raw, self.alone.name))


@cache
def _library(include: Path, folder: Path) -> tuple[Any, Any]:
    sources = (HERE / "alone.c", card_build.CORE / "cc.c")
    headers = (HERE / "alone.h", card_build.CORE / "cc.h")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*sources, *headers)))
    target = folder / f"alone-{digest.hexdigest()[:16]}.so"
    folders = [f"-I{path}" for path in (include, HERE, card_build.CORE)]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = target.with_suffix(".part")
            compiler = os.environ.get("CC", "gcc")
            files = [str(path) for path in sources]
            run([compiler, *WARNINGS, "-O1", "-shared", "-fPIC", *folders, *files, "-o", str(part)])
            part.replace(target)
    ffi = cffi.FFI()
    ffi.cdef(card_build.declarations(("cc.h",), include) + _own_declarations())
    return ffi, ffi.dlopen(str(target))


def _own_declarations() -> str:
    lines = (HERE / "alone.h").read_text().splitlines()
    return "\n".join(line for line in lines if line.endswith(");"))
