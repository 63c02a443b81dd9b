"""How often each job of a run was started: its next start begins at unused epochs.

It is kept in a file of the run's directory, as jobs are started by processes that come and go.

    start = count_start(folder, "training")            # 0, then 1, ...
    worker = worker_of(topology, "training", "h1", start)

The starter of all of a job's workers counts once, and passes the number to each of them.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

from controller.errors import ControllerError

FILE = "allreduce-starts.json"


def count_start(folder: Path, job: str) -> int:
    """Count a job's start in a run's directory; return how many there were before.

    Safe beside other processes that do the same. Raises ControllerError for a file that is none.
    """
    path = folder / FILE
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        counts = _read(path, file.read())
        before = counts.get(job, 0)
        counts[job] = before + 1
        file.truncate(0)
        file.write(json.dumps(counts))
    return before


def starts(folder: Path) -> dict[str, int]:
    """Return how often each job was started. Raises ControllerError for a file that is none."""
    path = folder / FILE
    if not path.exists():
        return {}
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return _read(path, file.read())


def _read(path: Path, text: str) -> dict[str, int]:
    try:
        counts = json.loads(text or "{}")
    except ValueError:
        counts = None
    if not isinstance(counts, dict) or not all(isinstance(each, int) for each in counts.values()):
        raise ControllerError(
            f"{path}: no counts of starts by job: delete it, and start the run anew"
        )
    return counts
