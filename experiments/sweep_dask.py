"""Playing runs on Dask workers, on this machine or on many: whatever a scheduler has.

Each machine has the same Weft, set up by `make setup setup-dask`, and starts

    .venv/bin/dask worker tcp://HOST:8786 --nworkers auto --nthreads 1

A worker that goes away takes its runs with it: Dask gives them to others. One whose sources differ
from ours stops the sweep.
"""

from __future__ import annotations

import importlib.util
import logging
import pickle
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from experiments import sweep_point
from experiments.errors import LabError
from experiments.sweep_point import Assignment, Played, Task, VersionError, fingerprint, play

SETUP = "make setup-dask"
PATIENCE_S = 10
"""How long a scheduler has to answer, and then to have a worker."""

_SAME = "use the same commit everywhere, and restart the worker"
_OURS = frozenset({"labs", "weft"})


class DaskError(LabError):
    """No scheduler, no workers, or not the right ones; `remedy` says what would be right."""

    exit_code = 1


def is_installed() -> bool:
    """Say whether this Python has Dask."""
    return importlib.util.find_spec("distributed") is not None


def played_by_dask(
    assignment: Assignment, tasks: Sequence[Task], scheduler: str
) -> Generator[Played | None, None, None]:
    """Yield None when runs are handed out, then each as it ends.

    Closing the iterator cancels what has not run.
    Raises DaskError.
    """
    if not is_installed():
        raise DaskError("Dask is not installed", f"{SETUP}, here and on the workers' machines")
    import distributed  # optional, as is_installed says

    # Lost workers are reported as failed runs, or as an error of ours; not as log lines.
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
        found = client.run(_their_fingerprint, on_error="return")
    except Exception as error:
        raise DaskError(f"the workers can't be asked for their version: {error}") from None
    ours = fingerprint()
    for address, answer in sorted(found.items()):
        if isinstance(answer, Exception):
            what = f"the worker at {address} can't import Weft: {answer}"
        elif answer != ours:
            what = f"the worker at {address} has other sources than we: numbers could differ"
        else:
            continue
        raise DaskError(what, _SAME)


def _their_fingerprint() -> str:
    return sweep_point.fingerprint()


def _played(
    distributed: Any, client: Any, assignment: Assignment, tasks: Sequence[Task]
) -> Generator[Played | None, None, None]:
    # A task of its own, which all others need: it goes to each worker once, and unlike scattered
    # data it comes again when the worker that holds it is lost.
    sent = client.submit(_given, _packed(assignment), pure=False)

    def submit(task: Task) -> Any:
        return client.submit(_play, sent, *task, pure=False)

    ended = partial(distributed.as_completed, loop=client.loop)
    futures = {submit(task): task for task in tasks}
    suspects: list[Task] = []
    try:
        yield None
        for future in ended(list(futures)):
            task = futures.pop(future)
            played = _outcome(distributed, future, task)
            if played is None:
                suspects.append(task)
            else:
                yield played
        for task in suspects:  # alone, so that none is blamed for another's end
            futures = {submit(task): task}
            [future] = ended(list(futures))
            failure = "the worker that ran it ended (out of memory?)"
            yield _outcome(distributed, future, task) or Played(*task, failure=failure)
    finally:
        client.cancel(list(futures), force=True)


def _outcome(distributed: Any, future: Any, task: Task) -> Played | None:
    """Return what came of a run; None if workers died that had it. Raises DaskError."""
    if future.status == "finished":
        played = future.result()
        assert isinstance(played, Played)
        return played
    error = future.exception() if future.status == "error" else None
    if isinstance(error, distributed.KilledWorker):
        return None
    if isinstance(error, VersionError):
        what = "a worker that came later has other sources than we: numbers could differ"
        raise DaskError(what, _SAME)
    return Played(*task, failure=f"Dask: {error or future.status}")


def _given(packed: bytes) -> bytes:
    return packed


def _play(packed: bytes, point: int, seed: int | None) -> Played:
    from distributed import get_worker  # only workers call this

    # Dask removes what a worker that was killed left there.
    scratch = Path(get_worker().local_directory)
    return play(_unpacked(packed), point, seed, scratch)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Assignment:
    assignment = pickle.loads(packed)
    assert isinstance(assignment, Assignment)
    return assignment


def _packed(assignment: Assignment) -> bytes:
    """Return it with the caller's functions in it: workers could not import a lab's checks.py."""
    import cloudpickle  # optional: it comes with Dask

    given = (assignment.measure, assignment.prepare)
    names = {getattr(function, "__module__", None) or "" for function in given}
    modules = [sys.modules[name] for name in names if name in sys.modules and not _is_shared(name)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        program = replace(assignment.program, path=Path(assignment.program.name))
        sent = replace(assignment, program=program, sources=fingerprint())
        packed: bytes = cloudpickle.dumps(sent)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def _is_shared(module: str) -> bool:
    return module == "__main__" or module.partition(".")[0] in _OURS
