"""Finds programs by what a run file calls them, and makes them with their settings.

echo                  a program in C, of the list in host_programs.h
my.module:Class       a class of a Python module
pingpong.py:Class     a class in a file, looked for beside the run file
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hostagent.programs.program import Program, ProgramError, said

HERE = Path(__file__).resolve().parent
_CALLS = ("started", "packet", "timer")
_INT64 = 1 << 63


@cache
def native_programs() -> tuple[str, ...]:
    """Return the names of the programs in C."""
    text = (HERE / "host_programs.h").read_text()
    return tuple(re.findall(r"^PROGRAM\((\w+)\)$", text, re.MULTILINE))


def find(name: str, folder: Path = Path()) -> type[Program] | str:
    """Return a program's class, or the name of one in C. Raises ProgramError.

    `folder` is where files are looked for.
    """
    module_name, colon, class_name = name.partition(":")
    if not colon:
        if name in native_programs():
            return name
        there = ", ".join(native_programs())
        hint = _did_you_mean(name, native_programs())
        raise ProgramError(
            f"no program {name!r}{hint or f'; available in C: {there}'}; "
            "in Python write module:Class or file.py:Class"
        )
    module = _module(module_name, folder)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [each for each, kind in vars(module).items() if isinstance(kind, type)]
        raise ProgramError(
            f"{module_name} has no class {class_name!r}{_did_you_mean(class_name, classes)}"
        )
    missing = [call for call in _CALLS if not callable(getattr(found, call, None))]
    if missing:
        raise ProgramError(f"{name} is not a program: it has no {', '.join(missing)}")
    return found


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    from topologies.errors import did_you_mean  # large: not for each process that runs programs

    return did_you_mean(word, choices)


def _module(name: str, folder: Path) -> Any:
    try:
        if name.endswith(".py"):
            return _file(folder / name)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ProgramError(f"there is no module {name!r}") from None
        raise ProgramError(f"{name} can't be loaded: {error}") from error
    except ProgramError:
        raise
    except Exception as error:
        raise ProgramError(f"{name} can't be loaded: {type(error).__name__}: {error}") from error


def _file(path: Path) -> Any:
    if not path.is_file():
        raise ProgramError(f"there is no file {path}")
    path = path.resolve()
    name = f"weft_program_{path.stem}_{abs(hash(str(path))):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up there
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def check_settings(name: str, found: type[Program] | str, settings: Mapping[str, Any]) -> None:
    """Raise ProgramError for settings that a program does not take; their values are its own."""
    if isinstance(found, str):
        check_native(name, settings)
        return
    signature = inspect.signature(found)
    try:
        signature.bind(**settings)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "none"
        raise ProgramError(f"{error}; {name} takes {takes}") from None


def make(name: str, found: type[Program], settings: Mapping[str, Any]) -> Program:
    """Make a program in Python with its settings. Raises ProgramError."""
    check_settings(name, found, settings)
    try:
        return found(**settings)
    except Exception as error:
        raise ProgramError(f"settings of {name}: {said(error)}") from error


def check_native(name: str, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the settings of a program in C. Raises ProgramError where one is no integer."""
    for key, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
            raise ProgramError(f"{name}: {key} has to be a whole number, not {value!r}")
    return dict(settings)
