"""The module that cffi makes of the planner's hot loops, and how numpy's arrays reach it."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from mechanisms.iglb import build

SANITIZED = "WEFT_IGLB_SANITIZED"
"""An environment variable: 1 takes the build with sanitizers."""
_loaded: dict[bool, Any] = {}


def native() -> Any:
    """Return the module (`.ffi`, `.lib`), compiled first if need be.

    Raises softswitch.core.build.CoreBuildError.
    """
    sanitize = os.environ.get(SANITIZED) == "1"
    if sanitize not in _loaded:
        build.ensure(sanitize=sanitize)
        _loaded[sanitize] = importlib.import_module(
            f"mechanisms.iglb.{build.module_name(sanitize)}"
        )
    return _loaded[sanitize]


class Lent:
    """Arrays lent to C: each is kept alive as long as this is."""

    def __init__(self) -> None:
        self._ffi = native().ffi
        self._kept: list[npt.NDArray[Any]] = []

    def __call__(self, array: npt.NDArray[Any], kind: str) -> Any:
        """Return a pointer to an array as C's `kind`, a copy where its type is another."""
        kinds = {"int32_t": np.int32, "double": np.float64, "uint16_t": np.uint16,
                 "uint8_t": np.uint8}  # fmt: skip
        array = np.ascontiguousarray(array, dtype=kinds[kind])
        self._kept.append(array)
        return self._ffi.cast(f"{kind} *", self._ffi.from_buffer(array))
