"""A sweep as it is asked for: from a file or from a lab, checked before anything runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from experiments.errors import LabError, LabFileError
from experiments.sweep_goal import Constraint, Objective
from experiments.sweep_metrics import METRICS
from experiments.sweep_point import ROOT, merged, point_run
from experiments.sweep_schema import SweepEntry, is_sweep, validate_sweep
from experiments.sweep_space import Draw, Point, draw, grid
from topologies import loader
from topologies.document import Document, parse_document
from topologies.errors import Problem, TopologyError, did_you_mean, field_name
from workloads import loader as workload_loader
from workloads.importers import FILE_KEYS, with_files_of, with_imports
from workloads.program_files import with_program_files

PROGRAM = ROOT / "p4src" / "fabric.p4"

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class SweepSpec:
    """A sweep: a run file that needs no other file, its points, seeds, and what is looked for.

    `parameters`: the dotted paths of the points, in order. `seeds`: None is the run's own.
    """

    name: str
    mapping: Mapping[str, Any] = field(repr=False)
    points: tuple[Point, ...]
    parameters: tuple[str, ...]
    seeds: tuple[int | None, ...] = (None,)
    metrics: tuple[str, ...] = tuple(METRICS)
    objective: Objective | None = None
    constraints: tuple[Constraint, ...] = ()
    drawn: Draw | None = None
    program: Path = PROGRAM
    description: str = ""

    @classmethod
    def of(
        cls, content: Mapping[str, Any], *, name: str = "sweep", directory: Path | None = None
    ) -> SweepSpec:
        """Make one of what a sweep file would say; its files are looked for in `directory`.

        Raises LabFileError.
        """
        text = yaml.safe_dump(dict(content), sort_keys=False)
        return _read(text, f"<{name}>", name, directory or Path(), {})

    @classmethod
    def load(
        cls, path_or_name: str | Path, overrides: Mapping[str, Any] | None = None
    ) -> SweepSpec:
        """Read a sweep file, or take a run file (or a shipped run's name) as the run to sweep.

        `overrides` take the place of the file's keys; those of `vary` join it. Raises LabFileError,
        which names lines, and LabError.
        """
        given = dict(overrides or {})
        path = Path(path_or_name)
        if path.suffix not in _YAML and str(path_or_name) in workload_loader.available_runs():
            return _read("{}", str(path_or_name), path.name, Path(), {"run": path.name, **given})
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise LabError(f"{path}: no such sweep or run file{_hint(str(path))}") from None
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise LabError(f"{path}: can't be read: {why}") from None
        try:
            sweep = is_sweep(parse_document(text, str(path)))
        except TopologyError as error:
            raise LabFileError(error.problems) from None
        if sweep:
            return _read(text, str(path), path.stem, path.parent, given)
        return _read("{}", str(path), path.stem, path.parent, {"run": path.name, **given})


def _read(
    text: str, file: str, name: str, directory: Path, overrides: Mapping[str, Any]
) -> SweepSpec:
    try:
        document = parse_document(text, file)
        if isinstance(document.data, dict):
            content = {**document.data, **overrides}
            if isinstance(document.data.get("vary"), dict) and "vary" in overrides:
                content["vary"] = {**document.data["vary"], **overrides["vary"]}
            document = replace(document, data=content)
        return _Reading(document, name, directory).spec()
    except TopologyError as error:
        raise LabFileError(error.problems) from None


class _Reading:
    """A sweep file on its way to a SweepSpec."""

    def __init__(self, document: Document, name: str, directory: Path) -> None:
        self.document = document
        self.name = name
        self.directory = directory
        self.entry: SweepEntry = validate_sweep(document)

    def spec(self) -> SweepSpec:
        """Check everything that can be known before anything runs. Raises TopologyError."""
        entry = self.entry
        points, parameters = self._points()
        base = self._base(any(path.startswith("topology.") for path in parameters), points)
        self._try_first(base, points[0], parameters)
        assert isinstance(base.data, dict)
        return SweepSpec(
            name=self.name,
            mapping=base.data,
            points=tuple(points),
            parameters=parameters,
            seeds=tuple(entry.seeds) if entry.seeds else (None,),
            metrics=tuple(METRICS if entry.metrics is None else dict.fromkeys(entry.metrics)),
            objective=None if entry.objective is None else entry.objective.objective,
            constraints=tuple(map(Constraint.parse, entry.subject_to)),
            drawn=entry.drawn,
            program=self._program(),
            description=entry.description,
        )

    def _points(self) -> tuple[list[Point], tuple[str, ...]]:
        entry = self.entry
        if entry.points is not None:
            paths = dict.fromkeys(path for point in entry.points for path in point)
            return [dict(point) for point in entry.points], tuple(paths)
        points = grid(entry.vary) if entry.drawn is None else draw(entry.vary, entry.drawn)
        return points, tuple(entry.vary)

    def _base(self, into_topology: bool, points: Sequence[Point]) -> Document:
        """Return the run as a document that needs no other file of this machine at any point.

        A topology that comes with Weft is on every machine; it is only written out if parameters
        lead `into_topology`.
        """
        if isinstance(self.entry.run, dict):
            base, directory = _part(self.document, "run"), self.directory
        else:
            base, directory = self._run_document(self.entry.run)
        base = with_program_files(with_imports(base, directory), directory)
        for files in dict.fromkeys(tuple(_files_of(point).items()) for point in points):
            base = with_files_of(base, merged(base, dict(files)), directory)
        data = base.data
        if not isinstance(data, dict) or not isinstance(data.get("topology"), str):
            return base
        path = next(
            (each for each in (directory / data["topology"], Path(data["topology"]))
             if each.suffix in _YAML and each.is_file()), None,
        )  # fmt: skip
        if path is None and into_topology and data["topology"] in loader.available():
            path = loader.DIRECTORY / f"{data['topology']}.yaml"
        if path is None:
            return base
        loader.load(path)  # its mistakes are reported at its own lines
        topology = parse_document(path.read_text(encoding="utf-8"), str(path)).data
        return Document(base.file, {**data, "topology": topology}, base.positions)

    def _run_document(self, name: str) -> tuple[Document, Path]:
        """Return a run file by its name or path, and the folder that its own files are in."""
        shipped = workload_loader.available_runs()
        path = self.directory / name
        if Path(name).suffix not in _YAML and name in shipped:
            path = workload_loader.DIRECTORY / f"{name}.yaml"
        elif not path.is_file():
            message = f"no run file {name!r}{_hint(name)}"
            raise TopologyError([self.document.problem(("run",), message)])
        workload_loader.load_run_file(path)  # its mistakes are reported at its own lines
        return parse_document(path.read_text(encoding="utf-8"), str(path)), path.parent

    def _program(self) -> Path:
        if self.entry.program is None:
            return PROGRAM
        for path in (self.directory / self.entry.program, Path(self.entry.program)):
            if path.is_file():
                return path
        message = f"no P4 program {self.entry.program!r}"
        raise TopologyError([self.document.problem(("program",), message)])

    def _try_first(self, base: Document, point: Point, parameters: tuple[str, ...]) -> None:
        """See that the run is right, and that what is varied are keys that runs have.

        A value that no run may have is the affair of its own point.
        """
        try:
            point_run(base, self.name, point)
        except TopologyError as error:
            problems = []
            for problem in error.problems:
                path = _varied(problem.field, parameters)
                if path is None:
                    problems.append(problem)
                elif problem.message.startswith(("unknown key", "no ")):
                    problems.append(self._at_parameter(path, problem.message))
            if problems:
                raise TopologyError(problems) from None

    def _at_parameter(self, path: str, message: str) -> Problem:
        where = ("vary", path) if self.entry.points is None else ("points", 0, path)
        return replace(self.document.problem(where, message), field=path)


def _files_of(point: Point) -> Point:
    """Return the parameters of a point that decide which files traffic comes from."""
    return {path: value for path, value in point.items()
            if path.rpartition(".")[2] in FILE_KEYS and isinstance(value, Hashable)}  # fmt: skip


def _varied(field_text: str, parameters: tuple[str, ...]) -> str | None:
    """Return the parameter that a problem's field belongs to, or leads to; None for none."""
    for path in parameters:
        parts = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
        names = [path, field_name(parts)]
        # Mistakes in a topology that stands in the run are reported without this.
        names += [name.removeprefix("topology.") for name in names]
        if field_text and any(_related(field_text, name) for name in names):
            return path
    return None


def _related(one: str, other: str) -> bool:
    """Say whether a field is another, or is inside it, or around it."""
    return any(a == b or a.startswith((f"{b}.", f"{b}[")) for a, b in ((one, other), (other, one)))


def _hint(name: str) -> str:
    shipped = workload_loader.available_runs()
    return did_you_mean(name, shipped) or f"; available by name: {', '.join(shipped)}"


def _part(document: Document, key: str) -> Document:
    assert isinstance(document.data, dict)
    positions = {path[1:]: at for path, at in document.positions.items() if path[:1] == (key,)}
    return Document(document.file, document.data[key], positions)
