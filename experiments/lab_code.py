"""A lab's own code: checks.py, loaded from its folder, and what it says when it goes wrong."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.api import Runtime
from experiments.errors import HookError, LabError

FILE = "checks.py"


class Hooks:
    """The functions of a lab's checks.py. `from . import NAME` in it finds NAME.py beside it."""

    def __init__(self, module: ModuleType, path: Path) -> None:
        self._module = module
        self.path = path

    @classmethod
    def of(cls, folder: Path) -> Hooks:
        """Load checks.py. Raises LabError where there is none, or where it can't be loaded."""
        path = folder / FILE
        if not path.is_file():
            raise LabError(f"{folder}: has no {FILE}", "docs/labs.md says what stands in it")
        package = "weft_lab_" + re.sub(r"\W", "_", str(folder.resolve()))
        # The folder's name is seldom a Python name, so the package is made here.
        parent = ModuleType(package)
        parent.__path__ = [str(folder)]
        sys.modules[package] = parent
        name = f"{package}.checks"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise LabError(f"{place(error, folder) or path}: {describe(error)}") from error
        return cls(module, path)

    def get(self, name: str) -> Callable[..., Any] | None:
        """Return a function of checks.py; None where it has none of this name."""
        found = getattr(self._module, name, None)
        return found if callable(found) else None

    def check(self, runtime: Runtime) -> None:
        """See that what a runtime needs is there. Raises LabError."""
        needed = "measure_live" if runtime.is_live else "measure"
        there = self.get(needed) or (not runtime.is_live and self.get("measure_simulator"))
        for name, is_there in ((needed, there), ("checks", self.get("checks"))):
            if not is_there:
                raise LabError(f"{self.path}: has no function {name}", "docs/labs.md shows one")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of checks.py; without it None. Raises HookError, naming file and line."""
        function = self.get(name)
        if function is None:
            return None
        try:
            found = function(*arguments)
            # A generator's body runs only now.
            return list(found) if hasattr(found, "__next__") else found
        except Exception as error:
            where = place(error, self.path.parent) or str(self.path)
            raise HookError(f"{where}: in {name}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Return an error in a line: its class where that says more than its text."""
    text = str(error).strip() or "no message"
    own = type(error).__module__.partition(".")[0] not in ("builtins", "weft_lab")
    return text if own else f"{type(error).__name__}: {text}"


def blamed(error: BaseException) -> str:
    """Return an error in a line, with file and line where it was not raised on purpose."""
    frames = traceback.extract_tb(error.__traceback__)
    if type(error).__module__ != "builtins" or not frames:
        return describe(error)
    return f"{describe(error)} ({frames[-1].filename}:{frames[-1].lineno})"


def place(error: BaseException, folder: Path) -> str:
    """Return file:line of the last line in the lab's own folder; empty where it was elsewhere."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""
