"""Jobs that stand in a file of another tool: a job with `simai: FILE` becomes one with phases.

job:
  simai: step.txt            ranks, tp, pp, ep and phases come from there
  without: [tp]              what stays inside a server
  placement: linear          and the rest as ever
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from workloads.simai import read_simai

_GIVEN_THERE = ("ranks", "tp", "pp", "dp", "ep", "phases")
_GROUPS = ("tp", "dp", "ep", "dp_ep")


def with_imports(document: Document, directory: Path) -> Document:
    """Return a run file's document with its jobs from other files put in.

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
    return Document(document.file, changed, document.positions)


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
            hint = did_you_mean(group, _GROUPS) or f": there is {', '.join(_GROUPS)}"
            report("without", f"no group {group!r}{hint}")
    name = job["simai"]
    text = ""
    if not isinstance(name, str):
        report("simai", f"must be a file, not {name!r}")
    else:
        try:
            text = (directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            report("simai", f"{name}: can't be read: {reason}")
    if problems:
        raise TopologyError(problems)
    rest = {key: value for key, value in job.items() if key not in ("simai", "without")}
    return {**rest, **read_simai(text, str(directory / str(name)), groups)}
