"""A switch's entries in a file of the user's: read, checked against its program, and kept.

JSON is what p4lang's tutorials call s1-runtime.json (`controller.runtime_json`); any other file has
simple_switch_CLI's commands, which a plug-in carries out, asked for by name as topologies ask for
mechanisms.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from controller.errors import ControllerError
from controller.program import CompiledProgram
from controller.rehearsal import Mark, Rehearsal
from controller.runtime_json import RuntimeJson
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import PipelineError
from topologies.own_program import CPU_PORT

_COMMANDS = "compat.bmv2_cli.entry_commands"
_SHOWN = 20


class EntryFileError(ControllerError):
    """A file of entries that can't be used; a line for each mistake, with file and line."""


@dataclass(frozen=True)
class OwnEntries:
    """What a switch is given once with its program. `marks` say where each update stands."""

    path: Path | None = None
    updates: tuple[p4r.Update, ...] = ()
    marks: tuple[Mark, ...] = ()

    def place(self, index: int) -> str:
        """Return file and line of an update."""
        if self.path is None:
            return f"update {index}"
        mark = self.marks[index]
        if isinstance(mark, int):
            return f"{self.path}:{mark}"
        assert isinstance(mark, tuple)
        return RuntimeJson.place(self.path, mark)


NO_ENTRIES = OwnEntries()


def read_entries(
    path: Path, program: CompiledProgram, ports: Collection[int], cpu_port: int = CPU_PORT
) -> OwnEntries:
    """Read a file for a switch that runs `program` and has links at `ports`.

    Raises EntryFileError with every mistake, PipelineError for a program that can't run.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise EntryFileError(f"{path}: can't be read: {why}") from None
    try:
        rehearsal = Rehearsal(program, ports, cpu_port)
    except PipelineError as error:
        raise EntryFileError(f"{program.name}: {error}") from None
    with rehearsal:
        if path.suffix == ".json":
            problems: Sequence[str] = RuntimeJson(path, text).play(rehearsal)
        else:
            problems = import_module(_COMMANDS).play(path, text, rehearsal)
        if problems:
            more = len(problems) - _SHOWN
            shown = [*problems[:_SHOWN], *([f"... and {more} more"] if more > 0 else [])]
            raise EntryFileError("\n".join(shown))
        updates = tuple(update for update, _ in rehearsal.kept)
        return OwnEntries(path, updates, tuple(mark for _, mark in rehearsal.kept))
