"""Playing runs on Dask workers, on this machine or on many: whatever a scheduler has.

Each machine has the same Weft, set up by `make setup setup-dask`, and starts

    .venv/bin/dask worker tcp://HOST:8786 --nworkers auto --nthreads 1

A worker that goes away takes its runs with it: Dask gives them to others. One whose sources differ
from ours stops the sweep.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from labs.errors import LabError
from labs.sweep_point import Assignment, Played, VersionError, fingerprint, play
from labs.sweep_processes import Task

SETUP = "make setup-dask"
PATIENCE_S = 10
"""How long a scheduler has to answer, and then to have a worker."""

_OURS = frozenset({"labs", "weft"})


class DaskError(LabError):
    """No scheduler, no workers, or not the right ones; `remedy` says what would be right."""

    exit_code = 1


def is_installed() -> bool:
    """Say whether this Python has Dask."""
    return importlib.util.find_spec("distributed") is not None


def played_by_dask(
    assignment: Assignment, tasks: Sequence[Task], scheduler: str
) -> Generator[Played, None, None]:
    """Yield each run as it ends, in any order. Closing the iterator cancels what is not played.

    Raises DaskError.
    """
    if not is_installed():
        raise DaskError("Dask is not installed", f"{SETUP}, here and on the workers' machines")
    import distributed

    # Lost workers are told as failed runs, or as an error of ours; not as log lines.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    client = _connected(distributed, scheduler)
    try:
        _check_workers(distributed, client, scheduler)
        yield from _played(distributed, client, assignment, tasks)
    finally:
        client.close(timeout=PATIENCE_S)


def _connected(distributed: Any, scheduler: str) -> Any:
    try:
        return distributed.Client(scheduler, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        text = f"no Dask scheduler answers at {scheduler}: {str(error).splitlines()[0]}"
        remedy = "start one with `dask scheduler`, and give --scheduler tcp://HOST:8786"
        raise DaskError(text, remedy) from None


def _check_workers(distributed: Any, client: Any, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except (TimeoutError, distributed.TimeoutError):
        remedy = f"start some: .venv/bin/dask worker {scheduler} --nworkers auto --nthreads 1"
        raise DaskError(f"the scheduler at {scheduler} has no workers", remedy) from None
    try:
        found = client.run(fingerprint, on_error="return")
    except Exception as error:
        raise DaskError(f"the workers can't be asked for their version: {error}") from None
    for address, answer in sorted(found.items()):
        if isinstance(answer, Exception):
            what = f"the worker at {address} can't import Weft: {answer}"
        elif answer != fingerprint():
            what = f"the worker at {address} has other sources than we: numbers could differ"
        else:
            continue
        raise DaskError(what, "use the same commit everywhere, and restart the worker")


def _played(
    distributed: Any, client: Any, assignment: Assignment, tasks: Sequence[Task]
) -> Generator[Played, None, None]:
    with _ByValue(assignment.measure):
        # Sent once, to all: tasks themselves are small.
        sent = client.scatter(
            replace(assignment, sources=fingerprint()), broadcast=True, hash=False
        )
    futures = {
        client.submit(play, sent, *task, pure=False, key=f"weft-{sent.key}-{n}"): task
        for n, task in enumerate(tasks)
    }
    try:
        for future in distributed.as_completed(list(futures), loop=client.loop):
            error = future.exception() if future.status != "finished" else None
            if isinstance(error, VersionError):
                where = "a worker that came later"
                raise DaskError(f"{where} has other sources than we", "use the same commit")
            if future.status == "finished":
                yield future.result()
            else:
                yield Played(*futures[future], failure=f"Dask: {error or future.status}")
            futures.pop(future)
    finally:
        client.cancel(list(futures), force=True)


class _ByValue:
    """Send a function with its module: a lab's checks.py is not where workers could import it."""

    def __init__(self, function: Any) -> None:
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        self._module = None if module is None or _is_shared(module.__name__) else module

    def __enter__(self) -> None:
        import cloudpickle

        if self._module is not None:
            cloudpickle.register_pickle_by_value(self._module)

    def __exit__(self, *_: object) -> None:
        import cloudpickle

        if self._module is not None:
            cloudpickle.unregister_pickle_by_value(self._module)


def _is_shared(module: str) -> bool:
    return module == "__main__" or module.partition(".")[0] in _OURS
