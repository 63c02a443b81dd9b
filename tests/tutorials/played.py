"""One exercise on one runtime, solved or not, and what came of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from compiler import CompileError
from controller.errors import ControllerError
from tests.tutorials.checks import Check
from tests.tutorials.frames import Hosts
from tests.tutorials.network import Imported, Runtime, Unkept, copied
from topologies.import_file import ImportFailedError


@dataclass(frozen=True)
class Row:
    """How an exercise went; `why` it does not keep its promise, None where it does."""

    check: Check
    runtime: str
    solved: bool
    seconds: float
    why: str | None


def play(check: Check, runtime: Runtime, checkout: Path, folder: Path, *, solved: bool) -> Row:
    """Copy, import and play an exercise; `folder` is made."""
    started = time.monotonic()
    folder.mkdir(parents=True)
    why = None
    try:
        home = copied(checkout, check.name, folder, solved=solved or check.spoiled is not None)
        if not solved:
            _unsolve(check, home)
        exercise = Imported.make(home, check.topology, check.p4, check.controller)
        hosts = Hosts(exercise.topology)
        runtime.play(exercise, check.script(hosts), check.verdict(hosts))
    except Unkept as error:
        why = str(error)
    except (CompileError, ControllerError, ImportFailedError) as error:
        if solved:
            raise
        why = str(error).replace(f"{folder}/", "")
    return Row(check, runtime.name, solved, time.monotonic() - started, why)


def _unsolve(check: Check, home: Path) -> None:
    """Make of a copy what can be loaded and is not solved."""
    if check.spoiled is not None:
        name, old, new = check.spoiled
        text = (home / name).read_text()
        assert old in text, f"{name} has no '{old}' any more"
        (home / name).write_text(text.replace(old, new))
    if check.lacks:
        for path in home.glob("*-runtime.json"):
            data = json.loads(path.read_text())
            data["table_entries"] = [
                each for each in data["table_entries"] if each["table"] != check.lacks
            ]
            path.write_text(json.dumps(data))
