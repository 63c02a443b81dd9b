"""Values of Python as a run file may hold them: what YAML has, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from experiments.interactive.errors import WeftError
from topologies.errors import FieldPath, field_name


@runtime_checkable
class RunValue(Protocol):
    """What knows how it is written in a run file, such as a `weft.Topology`."""

    def run_value(self) -> str | dict[str, Any]:
        """Return it as a run file has it."""


def plain(value: Any, path: FieldPath = ()) -> Any:
    """Return a value with lists for tuples, numbers for numpy's, text for paths, and so on.

    Raises WeftError, which names the keys that lead to what no run file can hold.
    """
    match value:
        case None | bool() | str():
            return value
        case RunValue():
            return value.run_value()
        case Path():
            return str(value)
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case Mapping():
            return {_key(key, path): plain(each, (*path, str(key))) for key, each in value.items()}
        case list() | tuple():
            return [plain(each, (*path, place)) for place, each in enumerate(value)]
    where = f"{field_name(path)}: " if path else ""
    raise WeftError(
        f"{where}{type(value).__name__} can't stand in a run: write text, a number, a list or a "
        "dict, as in a run file (docs/workloads.md)"
    )


def _key(key: Any, path: FieldPath) -> str:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return str(key)
    where = f"{field_name(path)}: " if path else ""
    raise WeftError(f"{where}the key {key!r} is no text")
