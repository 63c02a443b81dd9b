"""Fabrics that are set up once for several runs, each of which runs in a forked process.

fabrics = Fabrics()
prepared = fabrics.of(run, program)                   # set up, or reused
result = jobs.in_child(lambda: play(prepared))        # a copy of it, as it was set up
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.program import CompiledProgram
    from simulator.prepared import PreparedFabric
    from workloads.model import RunFile

SET_UP_KEYS = frozenset({"topology", "buffer", "clocks", "controller"})
"""The keys of a run file that decide how its fabric is set up."""


class Fabrics:
    """The fabric that a process has set up last, and the run file that it has loaded last."""

    def __init__(self) -> None:
        self._prepared: PreparedFabric | None = None
        self._loaded: tuple[int, RunFile] | None = None

    def run_file(self, number: int, load: Callable[[], RunFile]) -> RunFile:
        """Return run file `number`; what `load` returns, unless it was the last one."""
        if self._loaded is None or self._loaded[0] != number:
            self._loaded = (number, load())
        return self._loaded[1]

    def of(self, run: RunFile, program: CompiledProgram, time_scale: int = 1) -> PreparedFabric:
        """Return a fabric for a run, to be used in a forked process alone.

        The one before is forgotten where the run needs another. Raises PipelineError, WriteFailed.
        """
        from simulator.prepared import PreparedFabric, SetUp  # not where a sweep is only read
        from workloads.plan import plan

        there = self._prepared
        if there is not None and there.set_up == SetUp.of(run, program, time_scale):
            return there
        self.forget()
        self._prepared = PreparedFabric(run, program, time_scale=time_scale)
        if run.jobs:
            plan(run, keep=0)  # for the paths of its ranks, which each run's own plan finds again
        gc.collect()
        gc.freeze()  # a collection would write to its pages, and forked processes copy those
        return self._prepared

    def forget(self) -> None:
        """Free the fabric."""
        if self._prepared is not None:
            self._prepared = None
            gc.unfreeze()
            # Switches and engine hold each other, and the collector does not see what C holds.
            gc.collect()
