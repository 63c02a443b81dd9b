"""An algorithm on many states at once, natively, as the kernel's replay does it (kernel.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hostagent.algorithms import names, pack

Words = npt.NDArray[np.uint64]


class Replay:
    """An algorithm by its name. States and parameters are rows of words."""

    def __init__(self, name: str, ffi: Any, lib: Any) -> None:
        """`ffi`, `lib`: of a module that has cc.h. Raises ValueError: it has no such algorithm."""
        self.name = name
        self.ffi = ffi
        self.lib = lib
        self.place = names(ffi).index(name)

    def state_bytes(self) -> int:
        """Return the size of the state."""
        return int(self.ffi.sizeof(f"struct {self.name}"))

    def params(self, rows: Iterable[Mapping[str, int]]) -> Words:
        """Return parameters as words, a row each. Raises AlgorithmError."""
        packed = [pack(self.ffi, {self.name: fields}) for fields in rows]
        each = [self.ffi.buffer(self.ffi.addressof(one, self.name)) for one in packed]
        return np.array([np.frombuffer(one, np.uint64) for one in each])

    def fresh(self, params: Words, now: int) -> Words:
        """Return states as they begin, one a row of parameters."""
        states = np.zeros((len(params), self.state_bytes() // 8), np.uint64)
        array = self.ffi.from_buffer(f"struct {self.name}[]", states.view(np.uint8).reshape(-1))
        rows = self.ffi.from_buffer(
            f"struct {self.name}_params[]", params.view(np.uint8).reshape(-1)
        )
        for i in range(len(params)):
            self.lib.cc_start(self.place, array + i, rows + i, now)
        return states

    def replayed(
        self, steps: npt.NDArray[np.void], states: Words, told: npt.NDArray[np.void] | None = None
    ) -> Words:
        """Do steps (struct cc_step) on states, which change; return the rates that they ask for.

        `told`: the telemetry of each step (struct cc_telemetry), none where its format is 0.
        """
        rates = np.zeros(len(states), np.uint64)
        self.lib.cc_replay(
            self.place,
            self.ffi.from_buffer("struct cc_step[]", steps.view(np.uint8)),
            len(steps),
            self.ffi.NULL
            if told is None
            else self.ffi.from_buffer("struct cc_telemetry[]", told.view(np.uint8)),
            self.ffi.from_buffer(states.view(np.uint8).reshape(-1)),
            self.ffi.from_buffer("uint64_t[]", rates),
        )
        return rates
