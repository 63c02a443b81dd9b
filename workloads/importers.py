"""The contents of another tool's file: jobs of SimAI, matrices, flows in CSV, traces, sizes.

job:
  simai: step.txt            ranks, tp, pp, ep and phases come from there
  without: [tp]              what stays inside a server
  placement: linear          and the rest as ever
traffic:
  - matrix: {htsim: perm.cm}   who sends how much to whom, and when, comes from there
  - matrix: {hpcc: flow.txt}   the same from a flow file of HPCC's ns-3
  - matrix: {csv: flows.csv}   the same from a table
  - trace: {chakra: step}          each rank's graph of computing and communication
  - mix: {sizes: my-cdf.txt, ...}   the distribution of sizes comes from there
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from workloads.chakra import read_chakra, trace_name
from workloads.flow_csv import read_csv
from workloads.flow_sizes import MIXES
from workloads.hpcc import read_hpcc
from workloads.htsim import read_htsim
from workloads.simai import read_simai
from workloads.size_files import read_sizes

_GIVEN_THERE = ("ranks", "tp", "pp", "dp", "ep", "phases")
_MATRICES = {"htsim": read_htsim, "hpcc": read_hpcc, "csv": read_csv}
_SIZE_FILES = (".txt", ".cdf", ".csv", ".dat")
_GROUPS = ("tp", "dp", "ep", "dp_ep")
FILE_KEYS = frozenset({*_MATRICES, "sizes", "chakra", "groups", "teraflops"})
"""What of an entry of traffic decides which file is read, and how."""


def with_imports(document: Document, directory: Path) -> Document:
    """Return a run file's document with what it names of other tools' files put in.

    Files are looked for in `directory`. Raises TopologyError.
    """
    data = document.data
    if not isinstance(data, dict):
        return document
    changed = dict(data)
    if isinstance(data.get("job"), dict) and "simai" in data["job"]:
        changed["job"] = _imported(document, ("job",), data["job"], directory)
    if isinstance(data.get("jobs"), list):
        changed["jobs"] = [
            _imported(document, ("jobs", i), job, directory)
            if isinstance(job, dict) and "simai" in job
            else job
            for i, job in enumerate(data["jobs"])
        ]
    if isinstance(data.get("traffic"), list):
        changed["traffic"] = [
            _traffic(document, ("traffic", i), entry, directory)
            for i, entry in enumerate(data["traffic"])
        ]
    return Document(document.file, changed, document.positions)


def _traffic(document: Document, path: FieldPath, entry: object, directory: Path) -> object:
    if not isinstance(entry, dict):
        return entry
    if isinstance(matrix := entry.get("matrix"), dict):
        return {**entry, "matrix": _matrix(document, (*path, "matrix"), matrix, directory)}
    if isinstance(trace := entry.get("trace"), dict):
        return {**entry, "trace": _trace(document, (*path, "trace"), trace, directory)}
    if isinstance(mix := entry.get("mix"), dict):
        return {**entry, "mix": _mix(document, (*path, "mix"), mix, directory)}
    return entry


def _trace(
    document: Document, path: FieldPath, trace: Mapping[str, object], directory: Path
) -> dict[str, object]:
    """Read the files of a trace; wrong types are left to the schema."""
    prefix, groups, teraflops = (trace.get(key) for key in ("chakra", "groups", "teraflops"))
    numbers = type(teraflops) in (int, float)
    if not isinstance(prefix, str):
        return dict(trace)
    if not (groups is None or isinstance(groups, str)) or not (teraflops is None or numbers):
        return dict(trace)
    speed = None if teraflops is None else float(str(teraflops))
    name = trace_name(prefix, groups, speed)
    if name in (known := _known(trace)):
        return dict(trace)
    try:
        found = read_chakra(prefix, directory, groups, speed)
    except TopologyError as error:
        texts = [f"{Path(each.file).name}: {each.message}" for each in error.problems]
        problems = [document.problem((*path, "chakra"), text) for text in texts]
        raise TopologyError(problems) from None
    return {**trace, "imported": {**known, name: found}}


def _mix(
    document: Document, path: FieldPath, mix: Mapping[str, object], directory: Path
) -> dict[str, object]:
    """Read the file that `sizes` names: what ends as text files do."""
    name = mix.get("sizes")
    is_file = isinstance(name, str) and name not in MIXES and Path(name).suffix in _SIZE_FILES
    if not is_file or name in (known := _known(mix)):
        return dict(mix)
    try:
        text = _text(name, directory)
    except ValueError as error:
        raise TopologyError([document.problem((*path, "sizes"), str(error))]) from None
    found = read_sizes(text, str(directory / str(name)))
    return {**mix, "imported": {**known, str(name): found}}


def _matrix(
    document: Document, path: FieldPath, matrix: Mapping[str, object], directory: Path
) -> dict[str, object]:
    kind = next((key for key in _MATRICES if key in matrix), None)
    if kind is None or (name := matrix[kind]) in (known := _known(matrix)):
        return dict(matrix)
    try:
        text = _text(name, directory)
    except ValueError as error:
        raise TopologyError([document.problem((*path, kind), str(error))]) from None
    found = _MATRICES[kind](text, str(directory / str(name)))
    return {**matrix, "imported": {**known, str(name): found}}


def _known(entry: Mapping[str, object]) -> Mapping[object, object]:
    """Return what has been read for an entry, by file: a sweep's are read before it runs."""
    known = entry.get("imported")
    return known if isinstance(known, dict) else {}


def with_files_of(base: Document, point: Document, directory: Path) -> Document:
    """Return `base` with what the entries of `point`, a changed copy of it, name of other files.

    So a document that goes to another machine holds all files that any of its points names. Raises
    TopologyError.
    """
    read = with_imports(point, directory).data
    if not isinstance(base.data, dict) or not isinstance(read, dict):
        return base
    entries = base.data.get("traffic")
    if not isinstance(entries, list) or not isinstance(read.get("traffic"), list):
        return base
    merged = [_with_imported(a, b) for a, b in zip(entries, read["traffic"], strict=False)]
    changed = {**base.data, "traffic": merged + entries[len(merged) :]}
    return Document(base.file, changed, base.positions)


def _with_imported(entry: object, read: object) -> object:
    if not isinstance(entry, dict) or not isinstance(read, dict):
        return entry
    return {
        kind: {**of, "imported": read[kind]["imported"]}
        if isinstance(of, dict) and isinstance(read.get(kind), dict) and "imported" in read[kind]
        else of
        for kind, of in entry.items()
    }


def _text(name: object, directory: Path) -> str:
    """Return the text of a file. Raises ValueError, which says why it can't be had."""
    if not isinstance(name, str):
        raise ValueError(f"must be a file, not {name!r}")
    try:
        return (directory / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{name}: can't be read: {reason}") from None


def _imported(
    document: Document, path: FieldPath, job: Mapping[str, object], directory: Path
) -> dict[str, object]:
    problems: list[Problem] = []

    def report(key: str, message: str) -> None:
        problems.append(document.problem((*path, key), message))

    for key in _GIVEN_THERE:
        if key in job:
            report(key, f"'simai' says the {key} already: leave it out here")
    without = job.get("without", [])
    groups = [str(group) for group in (without if isinstance(without, list) else [without])]
    for group in groups:
        if group not in _GROUPS:
            hint = did_you_mean(group, _GROUPS) or f"; available: {', '.join(_GROUPS)}"
            report("without", f"no group {group!r}{hint}")
    name = job["simai"]
    text = ""
    try:
        text = _text(name, directory)
    except ValueError as error:
        report("simai", str(error))
    if problems:
        raise TopologyError(problems)
    rest = {key: value for key, value in job.items() if key not in ("simai", "without")}
    return {**rest, **read_simai(text, str(directory / str(name)), groups)}
