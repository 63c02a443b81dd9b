"""`weft stop` and `weft clean`: ending a run, and removing what a crashed one left."""

from __future__ import annotations

import os
import shutil

from emulation import run_state, teardown
from emulation.errors import NotRootError
from weft import console
from weft.command_line import command, flag


@command("""
    examples:
      sudo weft stop
    """)
def stop() -> int:
    """End the run that is up, and remove what crashed ones left; return the exit code."""
    _require_root("weft stop")
    with console.progress("stop"):
        stopped, removed = teardown.stop()
    if stopped is not None:
        print(f"run {stopped} is stopped")
    for entry in removed:
        print(f"removed {entry}")
    if stopped is None and not removed:
        print("no run is up")
    return 0


@command("""
    examples:
      sudo weft clean
      sudo weft clean --logs      the logs of past runs too
    """)
@flag("--logs", help="also remove the logs of past runs")
def clean(logs: bool) -> int:
    """Remove what crashed runs left, with `--logs` past runs' logs; return the exit code."""
    _require_root("weft clean")
    removed = teardown.clean()
    for entry in removed:
        print(f"removed {entry}")
    if not removed:
        print("nothing to remove")
    if logs and run_state.log_root().exists():
        shutil.rmtree(run_state.log_root())
        print(f"removed {run_state.log_root()}")
    return 0


def _require_root(command: str) -> None:
    if os.geteuid() != 0:
        raise NotRootError(command)
