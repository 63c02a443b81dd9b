"""Weft: packet-level P4/eBPF prototypes of RoCEv2 networks.

    import weft

    program = weft.compile("lb.p4")                    # or the text of a program
    switch = weft.Switch(program)                      # entries by name, packets in and out
    fabric = weft.Topology.generate("leaf_spine", leaves=4, spines=2, hosts_per_leaf=4)
    result = weft.simulate({"topology": fabric, "traffic": [{"permutation": {"bytes": "1MB"}}]})
    result.flow_completion_times(); result.flows; result.plot()
    weft.sweep("two-flows", {"transport.overrides.gain": [0.004, 0.5]}, seeds=[1, 2, 3])

docs/python.md is the page; `%load_ext weft` adds the cell `%%p4` to a notebook. The names below are
imported when first asked for: the command line, whose modules are this package's, needs none.
The command line stays thin: each command calls one package below and prints what comes back. No
networking, no P4 and no measuring lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.interactive.errors import (
        CompileError,
        InputError,
        Interrupted,
        MissingPackageError,
        WeftError,
    )
    from experiments.interactive.program import Program, compile
    from experiments.interactive.sweep_result import SweepResult
    from experiments.interactive.switch import Sent, Switch
    from weft.api.result import Result
    from weft.api.simulate import simulate
    from weft.api.sweep import sweep
    from weft.api.topology import Topology

__all__ = [
    "CompileError",
    "InputError",
    "Interrupted",
    "MissingPackageError",
    "Program",
    "Result",
    "Sent",
    "SweepResult",
    "Switch",
    "Topology",
    "WeftError",
    "compile",
    "simulate",
    "sweep",
]

_HOME = {
    "CompileError": "experiments.interactive.errors",
    "InputError": "experiments.interactive.errors",
    "Interrupted": "experiments.interactive.errors",
    "MissingPackageError": "experiments.interactive.errors",
    "WeftError": "experiments.interactive.errors",
    "Program": "experiments.interactive.program",
    "compile": "experiments.interactive.program",
    "Result": "weft.api.result",
    "simulate": "weft.api.simulate",
    "SweepResult": "experiments.interactive.sweep_result",
    "sweep": "weft.api.sweep",
    "Sent": "experiments.interactive.switch",
    "Switch": "experiments.interactive.switch",
    "Topology": "weft.api.topology",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what tab completion offers."""
    return sorted([*__all__, "load_ipython_extension"])


def load_ipython_extension(shell: Any) -> None:
    """Add `%%p4` to a notebook: what `%load_ext weft` calls."""
    # Here, so that using one name of `weft` does not load what the others need.
    from weft.api.magics import register

    register(shell)
