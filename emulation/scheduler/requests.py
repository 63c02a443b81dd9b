"""What another terminal asks about jobs, by the run's control socket, and the answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from emulation.errors import EmulationError
from emulation.scheduler.scheduler import Scheduler
from emulation.scheduler.states import JobStates
from workloads.job_files import read_job_file


def answer(scheduler: Scheduler, words: list[str]) -> Iterator[str]:
    """Do `submit FILE NAME`, `list` or `end NAME...`; yield JobStates as JSON, and `address`.

    Raises what `Scheduler` raises.
    """
    match words:
        case ["submit", file, name]:
            path = Path(file)
            document = read_job_file(path)
            found = scheduler.submit(document, name=name, directory=path.parent)
            states = JobStates(found, scheduler.jobs().revision)
        case ["list"]:
            states = scheduler.jobs()
        case ["end", *names]:
            scheduler.end(names)
            states = scheduler.jobs()
        case _:
            raise EmulationError(f"jobs take submit, list and end, not {' '.join(words)!r}")
    yield json.dumps({**asdict(states), "address": scheduler.address})
