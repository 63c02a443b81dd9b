"""Find a lab by name, read its lab.yaml, and make of it the variants that run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.api import Runtime, Variant
from experiments.errors import LabError, LabFileError
from experiments.overrides import Merge
from experiments.own_programs import OwnFiles, found, laid_over
from experiments.schema import PROGRAM, LabEntry, Selection, VariantEntry, validate_lab
from topologies.document import Document, parse_document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from workloads.loader import run_of
from workloads.model import RunFile

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "labs"
FILE = "lab.yaml"


@dataclass(frozen=True)
class Planned:
    """A variant, and the run file that results (with the places where its parts stand).

    `own`: what `file`, the lab.yaml, says of programs and entries, the variant's last. `seeds`: the
    variant's own, if it has any.
    """

    variant: Variant
    document: Document
    file: Document
    own: tuple[OwnFiles, ...] = ()
    seeds: tuple[int, ...] = ()

    @property
    def mapping(self) -> Mapping[str, Any]:
        """The run file's content."""
        assert isinstance(self.document.data, dict)
        return self.document.data

    def with_program(self, path: Path) -> Planned:
        """Return it with another program in the place of the lab's; a variant's own stays."""
        rest = tuple(layer for layer in self.own if layer.place)
        entries = next((layer.entries for layer in self.own if not layer.place), None)
        return replace(self, own=(OwnFiles((), str(path), entries), *rest))

    def program(self, folder: Path) -> Path | None:
        """Return the program that the variant itself names for all switches."""
        named = self.own[-1].program if self.own and self.own[-1].place else None
        return found(named, folder) if isinstance(named, str) else None

    def own_parameters(self) -> dict[str, Any]:
        """Return programs and entries that the variant itself names, for readers of the results."""
        if not self.own or not self.own[-1].place:
            return {}
        named = {"program": self.own[-1].program, "entries": self.own[-1].entries}
        return {key: value for key, value in named.items() if value is not None}

    def run_file(self, directory: Path) -> RunFile:
        """Check it as a run file; other files are looked for in `directory`.

        Raises TopologyError, at the lines of lab.yaml.
        """
        run = run_of(self.document, self.variant.name, directory)
        if not self.own:
            return run
        return replace(run, topology=laid_over(run.topology, self.own, directory, self.file))


@dataclass(frozen=True)
class Lab:
    """A lab as its folder says it."""

    name: str
    folder: Path
    entry: LabEntry
    document: Document = field(repr=False)

    @property
    def program(self) -> Path:
        """The P4 program: in the lab's folder, else in the repository."""
        program = self.entry.program
        return found(program if isinstance(program, str) else PROGRAM, self.folder)

    @property
    def readme(self) -> str:
        """The text of its README.md; empty where there is none."""
        path = self.folder / "README.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def seeds(self, runtime: Runtime) -> tuple[int, ...]:
        """Return the seeds that each variant runs with."""
        live = self.entry.live.seeds if runtime.is_live else None
        return tuple(live or self.entry.seeds)

    def time_scale(self, runtime: Runtime) -> int:
        """Return how much slower than the fabric a runtime's clock is."""
        return self.entry.live.time_scale if runtime.is_live else 1

    def names(self) -> tuple[Variant, ...]:
        """Return all variants of all runtimes, those of `axes` first."""
        return tuple(self._variant(shape) for shape in self._all)

    def variants(self, runtime: Runtime) -> tuple[Planned, ...]:
        """Return the variants of a runtime, those of `axes` first.

        Raises LabFileError for overrides that lead nowhere.
        """
        if runtime not in self.entry.runtimes:
            there = ", ".join(self.entry.runtimes)
            raise LabError(f"{self.name} does not run on {runtime}", f"it runs on {there}")
        found = [self._merged(each, runtime) for each in self._all if self._is_of(each, runtime)]
        return tuple(found)

    def check(self) -> None:
        """Check all variants of all runtimes as run files. Raises LabFileError."""
        problems: dict[Problem, None] = {}
        for runtime in self.entry.runtimes:
            for planned in self.variants(runtime):
                if not planned.mapping:
                    continue  # a lab that runs everything itself needs no run file
                try:
                    planned.run_file(self.folder)
                except TopologyError as error:
                    problems |= dict.fromkeys(error.problems)
        if problems:
            raise LabFileError(list(problems))

    @cached_property
    def _all(self) -> tuple[_Shape, ...]:
        shapes = list(self._product()) if self.entry.axes else []
        for name, entry in self.entry.variants.items():
            paths = (("variants", name, "set"),) if entry.set else ()
            shapes.append(_Shape(name, entry.title, entry.labels, entry, paths))
        return tuple(shapes)

    def _product(self) -> Iterator[_Shape]:
        axes = self.entry.axes
        for choices in itertools.product(*axes.values()):
            labels = dict(zip(axes, choices, strict=True))
            if _fits(labels, self.entry.without):
                continue
            paths = tuple(("axes", axis, choice) for axis, choice in labels.items())
            yield _Shape("-".join(choices), ", ".join(choices), labels, VariantEntry(), paths)

    def _is_of(self, shape: _Shape, runtime: Runtime) -> bool:
        if shape.entry.runtimes is not None and runtime not in shape.entry.runtimes:
            return False
        there = self.entry.on(runtime)
        if there.only and not _fits(shape.labels, there.only):
            return False
        return not _fits(shape.labels, there.without)

    def _merged(self, shape: _Shape, runtime: Runtime) -> Planned:
        merge = Merge(self.document, ("base",) if self.entry.base else None)
        # What a runtime needs is laid over the base; what a variant is about, over both.
        if self.entry.on(runtime).set:
            merge.put(("live" if runtime.is_live else "simulator", "set"))
        for path in shape.paths:
            merge.put(path)
        try:
            return Planned(
                *(self._variant(shape), merge.done(), self.document, self._own(shape)),
                tuple(shape.entry.seeds or ()),
            )
        except TopologyError as error:
            raise LabFileError(error.problems) from None

    def _own(self, shape: _Shape) -> tuple[OwnFiles, ...]:
        program, entries = self.entry.program, self.entry.entries
        layers = (
            OwnFiles((), None if program == PROGRAM else program, entries),
            OwnFiles(("variants", shape.name), shape.entry.program, shape.entry.entries),
        )
        return tuple(layer for layer in layers if not layer.says_nothing)

    def _variant(self, shape: _Shape) -> Variant:
        quick = shape.entry.quick or _fits(shape.labels, self.entry.quick)
        full = shape.entry.full or _fits(shape.labels, self.entry.full)
        return Variant(shape.name, shape.title or shape.name, dict(shape.labels), quick, full)


@dataclass(frozen=True)
class _Shape:
    """A variant before its overrides are merged; `paths` is where they stand in the file."""

    name: str
    title: str
    labels: Mapping[str, str]
    entry: VariantEntry
    paths: tuple[FieldPath, ...]


def _fits(labels: Mapping[str, str], selections: Sequence[Selection]) -> bool:
    """Say whether one of the selections has all its labels here."""
    return any(
        all(labels.get(axis) in choices for axis, choices in selection.items())
        for selection in selections
    )


def available(directory: Path = DIRECTORY) -> tuple[str, ...]:
    """Return the names of the labs in a directory, sorted. Raises LabError if it is none."""
    if not directory.is_dir():
        raise LabError(f"{directory}: no such directory", "give the one that holds the labs")
    return tuple(sorted(path.parent.name for path in directory.glob(f"*/{FILE}")))


def load(name: str, directory: Path = DIRECTORY) -> Lab:
    """Load a lab by name. Raises LabError for an unknown one, LabFileError for what is wrong in it.

    The variants' run files are not checked yet: `Lab.check` does.
    """
    there = available(directory)
    if name not in there:
        hint = did_you_mean(name, there)
        names = ", ".join(there) or f"no lab in {directory}"
        raise LabError(f"no lab {name!r}{hint}", f"choose from: {names}")
    path = directory / name / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise LabError(f"{path}: can't be read: {why}") from None
    return read(text, name=name, folder=path.parent, file=_shown(path))


def _shown(path: Path) -> str:
    """Return a path as a user would write it: from here on, where it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def read(text: str, *, name: str, folder: Path, file: str = FILE) -> Lab:
    """Read a lab from the text of its lab.yaml. Raises LabFileError."""
    try:
        document = parse_document(text, file)
        entry = validate_lab(document)
    except TopologyError as error:
        raise LabFileError(error.problems) from None
    lab = Lab(name, folder, entry, document)
    problems = list(_mistakes(lab))
    if problems:
        raise LabFileError(problems)
    return lab


def _mistakes(lab: Lab) -> Iterator[Problem]:
    """Find what the schema can't see: names given twice, labels that nothing has, no program."""
    entry, document = lab.entry, lab.document
    names = [shape.name for shape in lab._all]
    for name in sorted({name for name in names if names.count(name) > 1}):
        place = ("variants", name) if name in entry.variants else ("axes",)
        yield document.problem(place, f"two variants are called {name!r}")
    choices: dict[str, set[str]] = {axis: set(there) for axis, there in entry.axes.items()}
    for variant in entry.variants.values():
        for axis, choice in variant.labels.items():
            choices.setdefault(axis, set()).add(choice)
    places: list[tuple[FieldPath, Sequence[Selection]]] = [
        (("without",), entry.without),
        (("quick",), entry.quick),
        (("full",), entry.full),
    ]
    for key, there in (("live", entry.live), ("simulator", entry.simulator)):
        places += [((key, "only"), there.only), ((key, "without"), there.without)]
    for path, selections in places:
        for number, selection in enumerate(selections):
            for axis, wanted in selection.items():
                where = (*path, number, axis)
                if axis not in choices:
                    hint = did_you_mean(axis, choices) or f"; available: {', '.join(choices)}"
                    yield document.problem(where, f"no variant has a label {axis!r}{hint}")
                    continue
                for choice in wanted:
                    if choice not in choices[axis]:
                        known = sorted(choices[axis])
                        hint = did_you_mean(choice, known) or f"; available: {', '.join(known)}"
                        yield document.problem(where, f"no variant is {axis} {choice!r}{hint}")
    if not lab.program.is_file():
        message = f"no such program: {entry.program}, neither in the lab's folder nor beside it"
        yield document.problem(("program",), message)
    for name, variant in entry.variants.items():
        program = variant.program
        if isinstance(program, str) and not found(program, lab.folder).is_file():
            message = f"no such program: {program}, neither in the lab's folder nor beside it"
            yield document.problem(("variants", name, "program"), message)
        if not entry.base and not variant.set:
            for key, files in (("program", program), ("entries", variant.entries)):
                if isinstance(files, dict) or (files is not None and key == "entries"):
                    message = "a variant without a run file has no switches: say 'base' or 'set'"
                    yield document.problem(("variants", name, key), message)
