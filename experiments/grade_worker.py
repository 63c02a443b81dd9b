"""The process in which a learner's file is read and runs, and the one that watches it.

What a worker says, in order: the verdict of the compiler or of the lab's `read`, then a finding an
item. One that says nothing for too long is killed, one that dies is reported, and another goes on
behind the item it was at.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.errors import HookError
from experiments.grade import (
    GRADING,
    Finding,
    Grade,
    Graded,
    GradeError,
    Item,
    Submission,
    finding_from,
    judged,
    lost,
)

ITEM_S = 20.0
"""An item takes a fraction of a second: a switch that is busy for so long is stuck.

A lab whose items take longer says so: ITEM_S in its grading.py.
"""
COMPILE_S = 60.0
MEMORY_BYTES = 4 << 30
MOST_DEATHS = 3

Tell = Callable[[Graded], None]


def grade(
    lab: str,
    folder: Path,
    source: Path,
    *,
    seed: int = 1,
    item_s: float | None = None,
    tell: Tell = lambda graded: None,
) -> Grade:
    """Grade a file; `tell` gets each item as it is judged.

    `item_s`: how long an item may take; None: what the lab says, or ITEM_S. Raises GradeError if
    the file or the lab's grading can't be read, HookError for a mistake in grading.py.
    """
    if not source.is_file():
        raise GradeError(f"{source}: no such file", "give the file that you wrote")
    grading = load(folder)
    rows = tuple(grading.items())
    if item_s is None:
        item_s = float(getattr(grading, "ITEM_S", ITEM_S))
    watch = _Watch(folder, source, seed, item_s, rows, tell, takes_p4(grading))
    try:
        return watch.grade(lab)
    finally:
        watch.stop()


def load(folder: Path) -> ModuleType:
    """Load a lab's grading.py; `from . import NAME` in it finds NAME.py beside it.

    Raises GradeError if there is none, HookError if it can't be run.
    """
    path = folder / GRADING
    if not path.is_file():
        raise GradeError(
            f"{folder.name}: there is nothing to grade in this lab", "its folder has no grading.py"
        )
    # The folder's name is seldom a Python name, so the package is made here.
    package = "weft_grading_" + re.sub(r"\W", "_", str(folder.resolve()))
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        del sys.modules[name]  # as it was another time
    importlib.invalidate_caches()
    parent = ModuleType(package)
    parent.__path__ = [str(folder)]
    sys.modules[package] = parent
    try:
        return importlib.import_module(f"{package}.grading")
    except Exception as error:
        raise HookError(f"{path}: {type(error).__name__}: {error}") from error


def takes_p4(grading: ModuleType) -> bool:
    """Say whether a lab's learners hand in P4 programs: it reads nothing else itself."""
    return not hasattr(grading, "read")


class _Watch:
    """The worker as its watcher sees it."""

    def __init__(
        self,
        folder: Path,
        source: Path,
        seed: int,
        item_s: float,
        items: Sequence[Item],
        tell: Tell,
        compiles: bool,
    ) -> None:
        self._compiles = compiles
        self._arguments = (folder, source, seed)
        self._item_s = item_s
        self._items = items
        self._tell = tell
        self._process: Any = None
        self._pipe: Connection | None = None

    def grade(self, lab: str) -> Grade:
        """Judge all items, with as many workers as it takes."""
        _, source, seed = self._arguments
        done: list[Graded] = []
        warnings: tuple[str, ...] = ()
        deaths = 0
        while len(done) < len(self._items):
            if deaths == MOST_DEATHS:
                reason = f"not judged: {self._what} was stuck or dead {deaths} times before"
                done += lost(self._items[len(done) :], reason)
                break
            refused, warnings = self._start(len(done))
            if refused:
                why = "the program does not compile" if self._compiles else "it can't be read"
                items = lost(self._items, why)
                return Grade(lab, str(source), seed, items, refused, warnings)
            for item in self._items[len(done) :]:
                said = self._hear(self._item_s)
                finding = finding_from(said[1]) if said else Finding.nothing(*self._why())
                done.append(judged(item, finding))
                self._tell(done[-1])
                if not said:
                    deaths += 1
                    break
            self.stop()
        return Grade(lab, str(source), seed, tuple(done), "", warnings)

    def _start(self, first: int) -> tuple[str, tuple[str, ...]]:
        """Start a worker; (why the file is refused, the compiler's warnings)."""
        context = get_context("spawn")
        self._pipe, other = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(other, *self._arguments, first), daemon=True
        )
        self._process.start()
        other.close()
        said = self._hear(COMPILE_S)
        if said is None:
            reason, hint = self._why(COMPILE_S)
            if not self._compiles:
                return f"{self._arguments[1]}: reading it did not end: {reason}", ()
            return f"the compiler did not get through: {reason}. {hint}".strip(), ()
        kind, content = said
        return (content, ()) if kind == "refused" else ("", tuple(content))

    def _hear(self, seconds: float) -> tuple[str, Any] | None:
        """Return the worker's next message; None if it is dead or silent. Raises HookError."""
        assert self._pipe is not None
        if not self._pipe.poll(seconds):
            return None
        try:
            kind, content = self._pipe.recv()
        except EOFError:
            return None
        if kind == "broken":
            raise HookError(content)
        return kind, content

    def _why(self, seconds: float | None = None) -> tuple[str, str]:
        """Return why the worker is silent, and a hint."""
        self._process.join(0.2)
        code = self._process.exitcode
        if code is None:
            limit = seconds or self._item_s
            return (
                f"{self._what} was still busy after {limit:g} s: stopped",
                "a packet that makes another one each time it passes never comes to an end"
                if self._compiles
                else "a loop that never ends?",
            )
        hint = "look at what the item sends" if self._compiles else ""
        if code < 0:
            return f"{self._what} died: {signal.Signals(-code).name}", hint
        return f"{self._what} ended with code {code}", hint

    @property
    def _what(self) -> str:
        """What the learner's file is run by, in reasons."""
        return "the switch" if self._compiles else "your file"

    def stop(self) -> None:
        """End the worker, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


# ---------------------------------------------------------------- inside the worker


def _work(pipe: Connection, folder: Path, source: Path, seed: int, first: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the watcher's, who ends this process
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        grading = load(folder)
        made = _compiled if takes_p4(grading) else partial(_read, grading)
        submission = made(pipe, source, seed)
        if submission is None:
            return
        bench = _bench(grading, submission)
        for item in grading.items()[first:]:
            finding = bench if isinstance(bench, Finding) else _judge(item, bench)
            pipe.send(("item", asdict(finding)))
    except Exception as error:
        pipe.send(("broken", f"{folder / GRADING}: {type(error).__name__}: {error}"))


def _compiled(pipe: Connection, source: Path, seed: int) -> Submission | None:
    # All that is slow to load is loaded here: an item's time is the switch's alone.
    from compiler import CompileError, compile_p4
    from softswitch import Switch  # noqa: F401

    try:
        result = compile_p4(source)
    except CompileError as error:
        pipe.send(("refused", str(error)))
        return None
    except (OSError, UnicodeDecodeError) as error:
        pipe.send(("refused", f"{source}: can't be read: {error}"))
        return None
    pipe.send(("compiled", [str(each) for each in result.warnings]))
    return Submission(source, result.json_text, result.p4info_text, seed)


def _read(grading: ModuleType, pipe: Connection, source: Path, seed: int) -> Submission | None:
    """Read a file that is no P4 program as the lab does."""
    try:
        content = grading.read(source)
    except (OSError, ValueError) as error:
        pipe.send(("refused", str(error)))
        return None
    pipe.send(("read", []))
    return Submission(source, "", "", seed, content)


def _bench(grading: ModuleType, submission: Submission) -> object:
    """Return the lab's bench, or why the switch does not accept the program."""
    from softswitch.p4runtime.status import PipelineError  # see _compiled

    try:
        return grading.bench(submission)
    except PipelineError as error:
        return Finding.nothing(f"the switch does not take the program: {error}")


def _judge(item: Item, bench: object) -> Finding:
    from softswitch.p4runtime.names import UnknownName  # see _compiled
    from softswitch.p4runtime.status import WriteError

    try:
        return item.judge(bench)
    except (UnknownName, WriteError) as error:
        return Finding.nothing(
            f"the control plane can't write the program's tables: {error}",
            "keep the names and keys of the starter's tables and actions",
        )
    except MemoryError:
        return Finding.nothing("there were more packets than memory for them")
