"""The module that cffi makes of the worker and its driver."""

from __future__ import annotations

import importlib
from typing import Any

from hostagent.collective import build

_loaded: dict[bool, Any] = {}


def native(*, sanitize: bool = False) -> Any:
    """Return the module with the worker and its driver (`.ffi`, `.lib`), compiled if need be.

    Raises softswitch.core.build.CoreBuildError.
    """
    if sanitize not in _loaded:
        build.ensure(sanitize=sanitize)
        name = f"hostagent.collective.{build.module_name(sanitize)}"
        _loaded[sanitize] = importlib.import_module(name)
    return _loaded[sanitize]
