"""`weft grade LAB --all DIR`: the answers of a class as one table, each judged by itself.

Each answer is judged by a `weft grade` of its own, in a process group of its own: one that hangs,
floods memory or takes its grader down costs its own marks, and the others go on.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from observe.errors import UsageError
from softswitch import jobs
from weft import console
from weft.command_line import write_new

AT_ONCE = 2
LIMIT_S = 300.0
"""More than any answer needs that is judged item by item: 60 s to compile and three stuck items."""


@dataclass(frozen=True)
class Answer:
    """A student's file. `problem`: why there is none to judge."""

    student: str
    file: Path | None
    problem: str = ""


@dataclass(frozen=True)
class Marks:
    """A row of the table. `problem`: why the answer was not judged, which is no verdict on it."""

    student: str
    file: str
    earned: int = 0
    marks: int = 0
    bonus: int = 0
    missing: str = ""
    problem: str = ""


def answers(folder: Path, suffix: str) -> list[Answer]:
    """Return what students handed in: DIR/NAME.p4, or the one such file in DIR/NAME.

    `suffix`: of the lab's starter. Raises UsageError where there is nothing.
    """
    if not folder.is_dir():
        raise UsageError(f"--all {folder}: no such folder; give the one that holds the answers")
    found: list[Answer] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_file() and path.suffix == suffix:
            found.append(Answer(path.stem, path))
        elif path.is_dir():
            found.append(_in_folder(path, suffix))
    if not found:
        raise UsageError(f"--all {folder}: no file NAME{suffix} and no folder NAME in it")
    return found


def _in_folder(folder: Path, suffix: str) -> Answer:
    files = [path for path in sorted(folder.rglob(f"*{suffix}")) if path.is_file()]
    # A copy of the starter that came back beside the answer is not the answer.
    own = [path for path in files if path.name != f"starter{suffix}"] or files
    if not own:
        return Answer(folder.name, None, f"no file *{suffix} in the folder")
    if len(own) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in own[:3])
        return Answer(folder.name, None, f"{len(own)} files *{suffix} ({names}): keep one")
    return Answer(folder.name, own[0])


def judge(
    found: Sequence[Answer], lab: str, labs: Path, option: str, seed: int, *, limit_s: float
) -> list[Marks]:
    """Judge all of them with the same seed, two at a time; returns the rows in their order."""
    do = partial(_judge, lab, labs, option, seed)
    rows = [Marks(each.student, "", problem=each.problem) for each in found if each.file is None]
    waiting = [each for each in found if each.file is not None]
    with console.progress_bar("answers", len(waiting), quiet=not sys.stderr.isatty()) as step:
        for row in jobs.run(waiting, do, at_once=AT_ONCE, limit_s=limit_s, lost=_lost):
            rows.append(row)
            step()
    order = {each.student: number for number, each in enumerate(found)}
    return sorted(rows, key=lambda row: order[row.student])


def _judge(lab: str, labs: Path, option: str, seed: int, answer: Answer) -> Marks:
    """Judge one, by a `weft grade` of its own (in a child of the pool)."""
    file = str(answer.file)
    words = ["grade", lab, option, file, "--seed", str(seed), "--labs", str(labs), "--json"]
    # -P: a folder called `labs` where the teacher is must not come first.
    command = [sys.executable, "-P", "-m", "weft.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    try:
        graded = json.loads(done.stdout)
    except ValueError:
        said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        died = f"the grader ended with {done.returncode}"  # whatever its processes wrote then
        return Marks(answer.student, file, problem=said[0][7:] if said else died)
    return Marks(
        answer.student,
        file,
        graded["earned"],
        graded["marks"],
        graded["bonus"],
        _first_missing(graded),
    )


def _first_missing(graded: dict[str, Any]) -> str:
    """Return in a line what is missing first: why it is refused, or an item and its reason."""
    if graded["refused"]:
        return str(graded["refused"]).splitlines()[0]
    for item in graded["items"]:
        if not item["bonus"] and item["earned"] < item["marks"]:
            reason = " ".join(item["reason"].split())
            return f"{item['title']}: {reason}" if reason else str(item["title"])
    return ""


def _lost(answer: Answer, loss: jobs.Loss) -> Marks:
    return Marks(answer.student, str(answer.file), problem=loss.of("its grader"))


def run(
    lab: str, labs: Path, folder: Path, suffix: str, option: str, seed: int, *,
    limit_s: float, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Judge the answers of a folder and print the table; 0: all were judged, 1: some were not.

    `out`: a new file for the table as CSV. Raises UsageError.
    """
    if out is not None and out.exists():
        raise UsageError(f"-o {out}: exists already; give a new name")
    started = time.monotonic()
    rows = judge(answers(folder, suffix), lab, labs, option, seed, limit_s=limit_s)
    if out is not None:
        write_new(out, _as_csv(rows))
    if as_json:
        print(json.dumps({"lab": lab, "seed": seed, "answers": [asdict(row) for row in rows]}))
    else:
        _print(rows, lab, seed, time.monotonic() - started)
    return 1 if any(row.problem for row in rows) else 0


def _as_csv(rows: Sequence[Marks]) -> str:
    text = io.StringIO()
    names = list(Marks.__dataclass_fields__)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in asdict(row).items()} for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: names of files are the students'."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


def _print(rows: Sequence[Marks], lab: str, seed: int, seconds: float) -> None:
    cells = [
        (
            row.student,
            "" if row.problem else f"{row.earned}/{row.marks}",
            f"+{row.bonus}" if row.bonus else "",
            f"not judged: {row.problem}" if row.problem else row.missing,
        )
        for row in rows
    ]
    judged = sum(not row.problem for row in rows)
    full = sum(not row.problem and row.earned == row.marks for row in rows)
    caption = (
        f"{judged} of {len(rows)} judged, {full} with full marks; seed {seed}, {seconds:.0f} s"
    )
    heads = ("student", "marks", "beyond", "missing first")
    console.table(heads, cells, title=lab, caption=caption, right=("marks", "beyond"))
