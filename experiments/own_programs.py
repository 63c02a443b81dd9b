"""Programs and files of entries that lab.yaml names, for the whole lab and for single variants.

program: lb.p4                         every switch's; or {s2: lb.p4}, of the switches that it names
entries: entries                       a folder with s1-runtime.json, s2-commands.txt, or a file
                                       a switch: {s1: s1-commands.txt}

Files are looked for in the lab's folder, then in the repository. They stand in the place of what
the topology itself says, whatever form that has; which of it the controller plans for is decided as
in every run (docs/my-own-p4.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.model import Topology
from topologies.own_program import OwnProgram, entry_files

ROOT = Path(__file__).resolve().parent.parent

Files = str | Mapping[str, str]
"""One for all switches, or by switch."""


@dataclass(frozen=True)
class OwnFiles:
    """What one place of lab.yaml says. None: nothing, so what is below it holds."""

    place: FieldPath
    program: Files | None = None
    entries: Files | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether there is neither."""
        return self.program is None and self.entries is None


def laid_over(
    topology: Topology, layers: Sequence[OwnFiles], folder: Path, document: Document
) -> Topology:
    """Return a topology whose switches run and hold what the layers say, later ones on top.

    Raises TopologyError, at the lines of lab.yaml, for files and switches that there are not.
    """
    own, problems = topology.own, list[Problem]()
    names = [switch.name for switch in topology.switches]
    for layer in layers:
        own = _Layer(layer, folder, names, document, problems).over(own)
    if problems:
        raise TopologyError(problems)
    return topology if own == topology.own else replace(topology, own=own)


def found(name: str, folder: Path) -> Path:
    """Return where a file or folder of a lab is: in the repository if the lab has none."""
    there = folder / name
    is_ours = not there.exists() and (ROOT / name).exists()
    return (ROOT / name if is_ours else there).absolute()


@dataclass(frozen=True)
class _Layer:
    """One layer while it is read; `problems` gets what is wrong."""

    layer: OwnFiles
    folder: Path
    names: Sequence[str]
    document: Document
    problems: list[Problem]

    def over(self, own: OwnProgram) -> OwnProgram:
        program, entries = self.layer.program, self.layer.entries
        if isinstance(program, str):
            own = own.with_program(self._file(program, "program"))
        elif program is not None:
            files = {name: str(path) for name, path in self._files(program, "program").items()}
            own = replace(own, programs=tuple({**dict(own.programs), **files}.items()))
        if isinstance(entries, str):
            own = own.with_entries(self._folder(entries))
        elif entries is not None:
            own = own.with_entries(self._files(entries, "entries"))
        return own

    def _files(self, given: Mapping[str, str], key: str) -> dict[str, Path]:
        for name in given:
            if name not in self.names:
                hint = did_you_mean(name, self.names) or f"; available: {', '.join(self.names)}"
                self._report((key, name), f"there is no switch {name!r}{hint}")
        return {name: self._file(path, key, name) for name, path in given.items()}

    def _file(self, name: str, *place: str) -> Path:
        path = found(name, self.folder)
        if not path.is_file():
            message = f"{name}: no such file, neither in {self.folder} nor in the repository"
            self._report(place, message)
        return path

    def _folder(self, name: str) -> dict[str, Path]:
        try:
            return entry_files(found(name, self.folder), list(self.names))
        except ValueError as error:
            self._report(("entries",), str(error))
            return {}

    def _report(self, place: FieldPath, message: str) -> None:
        self.problems.append(self.document.problem((*self.layer.place, *place), message))
