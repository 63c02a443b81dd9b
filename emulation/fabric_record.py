"""What other commands have to know of the fabric that a run has up, in the run's directory.

`weft top`, `weft web` and `weft metrics` are processes of their own: they find the switches here.
It is written when the fabric forwards and goes with the run's directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from emulation import run_state
from emulation.errors import EmulationError, StateError
from topologies import Topology

_FILE = "fabric.json"
_FORMAT = 2


@dataclass(frozen=True)
class FabricRecord:
    """A fabric that is up. `runtime`: the target's name; `addresses`: P4Runtime's, by switch."""

    run: str
    runtime: str
    topology: Topology
    addresses: Mapping[str, str]

    def save(self) -> None:
        """Write it so that a reader sees all of it or nothing."""
        path = run_state.run_root() / self.run / _FILE
        fresh = path.with_suffix(".new")
        data = {
            "format": _FORMAT,
            "fabric": TypeAdapter(FabricRecord).dump_python(self, mode="json"),
        }
        fresh.write_text(json.dumps(data))
        fresh.replace(path)


class NoRunError(EmulationError):
    """No fabric is up."""


def running_run() -> str:
    """Return the id of the run that is up. Raises NoRunError."""
    who = run_state.holder()
    if who is None or not who[1].is_alive():
        raise NoRunError("no run is up", "start one in another terminal: make run-topo CLI=1")
    return who[0]


def running() -> FabricRecord:
    """Return the fabric that is up.

    Raises NoRunError when there is none (or it is still starting), StateError when its record
    can't be understood.
    """
    run = running_run()
    path = run_state.run_root() / run / _FILE
    try:
        data = json.loads(path.read_text())
        if data["format"] != _FORMAT:
            raise ValueError("written by another version")
        return TypeAdapter(FabricRecord).validate_python(data["fabric"])
    except FileNotFoundError:
        raise NoRunError(
            f"run {run} is still starting, or just stopping", "try again in a moment"
        ) from None
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise StateError(f"{path}: not a record of a fabric ({error})") from None
