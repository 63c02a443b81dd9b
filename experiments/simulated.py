"""One variant and seed in the simulator: what a worker process does."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.api import Context, Finished, Measured, Run
from experiments.errors import HookError
from experiments.fabrics import Fabrics
from experiments.lab_code import Hooks, blamed
from experiments.slow_motion import slowed
from simulator.prepared import PreparedFabric
from simulator.result_model import ResultError, Stop
from simulator.runner import Progress, Simulation
from softswitch.jobs import Died, in_child
from workloads.model import RunFile

_TELL_EVERY_S = 0.2


@dataclass(frozen=True)
class Job:
    """A context that can be sent to another process: it has no reporting yet.

    `beside`: it stands beside a run in real time.
    """

    context: Context
    beside: bool = False


def simulate(job: Job, tell: Any) -> Finished:
    """Run it and measure it. What goes wrong becomes the `failure` of what is returned."""
    context = replace(job.context, tell=tell)
    started = time.monotonic()
    metrics: Mapping[str, Any]
    try:
        hooks = _hooks(context.folder)
        names = ("measure_beside", "measure_simulator") if job.beside else ("measure_simulator",)
        own = next((name for name in names if hooks.get(name)), None)
        if own is not None:
            metrics = metrics_of(hooks, own, context)
        else:
            run_file = slowed(context.run_file(), context.time_scale)
            prepared = _fabrics.of(run_file, context.program, context.time_scale)
            transports, metrics, failure = in_child(
                lambda: _measured(context, hooks, run_file, prepared)
            )
            return _finished(context, started, metrics, transports, failure)
        failure = ""
    except Died as error:
        metrics, failure = {}, error.loss.of("its process")
    except Exception as error:
        metrics, failure = {}, blamed(error)
    return _finished(context, started, metrics, (), failure)


def _finished(
    context: Context,
    started: float,
    metrics: Mapping[str, Any],
    transports: tuple[Mapping[str, Any], ...],
    failure: str,
) -> Finished:
    return Finished(
        variant=context.variant,
        seed=context.seed,
        runtime=context.runtime,
        time_scale=context.time_scale,
        folder=context.out,
        metrics=metrics,
        transports=transports,
        wall_s=time.monotonic() - started,
        failure=failure,
    )


def metrics_of(hooks: Hooks, name: str, argument: Context | Run) -> dict[str, Measured]:
    """Call a lab's measuring function and check what it returns. Raises HookError."""
    found = hooks.call(name, argument)
    if not isinstance(found, dict) or not found:
        raise HookError(f"{hooks.path}: {name} must return a mapping of metrics, not {found!r}")
    for metric, value in found.items():
        if not isinstance(metric, str) or not isinstance(value, Measured):
            raise HookError(f"{hooks.path}: {name}: {metric!r} must be a Measured, not {value!r}")
        if value.value is not None and not math.isfinite(value.value):
            raise HookError(f"{hooks.path}: {name}: {metric!r} is {value.value}: give None")
    return found


_fabrics = Fabrics()  # of this process, for one run after the other


def _measured(
    context: Context, hooks: Hooks, run_file: RunFile, prepared: PreparedFabric
) -> tuple[tuple[Mapping[str, Any], ...], Mapping[str, Measured], str]:
    """Run it and measure it, in a process of its own: transports, metrics, what went wrong."""
    transports: tuple[Mapping[str, Any], ...] = ()
    try:
        run = _run(context, hooks, run_file, prepared)
        transports = tuple(run.summary.get("transports", ()))
        return transports, metrics_of(hooks, "measure", run), ""
    except Exception as error:
        return transports, {}, blamed(error)


def _run(context: Context, hooks: Hooks, run_file: RunFile, prepared: PreparedFabric) -> Run:
    program = context.program
    simulation = Simulation(
        run_file,
        program,
        seed=context.seed,
        time_scale=context.time_scale,
        versions={program.name: program.sha256},
        prepared=prepared,
    )
    hooks.call("prepare", simulation, context)
    outcome = simulation.run(context.out, _progress(context))
    if outcome.stop is Stop.INTERRUPTED:
        raise ResultError("it was interrupted")
    return Run(context, outcome.summary, outcome.end)


def _progress(context: Context) -> Any:
    last = 0.0

    def tell(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _TELL_EVERY_S:
            return
        last = now
        share = 0.0
        if progress.until_ps:
            share = progress.now_ps / progress.until_ps
        elif progress.messages:
            share = progress.messages_done / progress.messages
        context.tell(share, "")

    return tell


@lru_cache(maxsize=8)
def _hooks(folder: Path) -> Hooks:
    return Hooks.of(folder)
