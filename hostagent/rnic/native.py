"""The module that cffi makes of card and driver."""

from __future__ import annotations

import importlib
from typing import Any

from hostagent.rnic import build

_loaded: dict[bool, Any] = {}


def native(*, sanitize: bool = False) -> Any:
    """Return the module with card and driver (`.ffi`, `.lib`), compiled first if need be.

    Raises softswitch.core.build.CoreBuildError.
    """
    if sanitize not in _loaded:
        build.ensure(sanitize=sanitize)
        name = f"hostagent.rnic.{build.module_name(sanitize)}"
        _loaded[sanitize] = importlib.import_module(name)
    return _loaded[sanitize]
