"""`weft grade`: marks for a learner's P4 program, with what was expected and what came."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from weft import console

if TYPE_CHECKING:
    from experiments.grade import Grade, Graded

SEEDS = 1_000_000
MOST_DETAILS = 12


def run(arguments: argparse.Namespace) -> int:
    """Judge the program that the arguments name; returns 0 for full marks, else 1.

    2: no such lab, no such file, a lab without grading.
    """
    from experiments.errors import LabError

    try:
        return _run(arguments)
    except LabError as error:
        console.error(str(error), str(getattr(error, "remedy", "")))
        return error.exit_code


def _run(arguments: argparse.Namespace) -> int:
    from experiments import grade, loader

    folder = loader.load(arguments.lab, arguments.labs or loader.DIRECTORY).folder
    seed = secrets.randbelow(SEEDS) if arguments.seed is None else arguments.seed
    if not arguments.reference:
        return _judge(arguments, folder, arguments.p4, seed)
    with tempfile.TemporaryDirectory(prefix="weft-grade-") as scratch:
        path = Path(scratch, "reference.p4")
        path.write_text(grade.reference(folder), encoding="utf-8")
        return _judge(arguments, folder, path, seed)


def _judge(arguments: argparse.Namespace, folder: Path, source: Path, seed: int) -> int:
    from experiments import grade_worker

    quiet = arguments.json or not sys.stderr.isatty()
    with console.progress(f"grade {source.name}", quiet=quiet):
        grade = grade_worker.grade(folder.name, folder, source, seed=seed)
    if arguments.json:
        print(json.dumps(grade.as_json()))
    else:
        _print(grade, everything=arguments.all)
    return 0 if grade.is_full else 1


def _print(grade: Grade, *, everything: bool) -> None:
    again = f"--seed {grade.seed} gives the same packets again"
    rows = [[item.title, _marks(item), _verdict(item)] for item in grade.items]
    console.table(
        ["asked for", "marks", ""],
        rows,
        title=f"{grade.lab}: {Path(grade.file).name}",
        right=["marks"],
    )
    if grade.refused:
        print(f"{grade.refused}\n")
    else:
        shown = [item for item in grade.items if everything or item.earned < item.marks]
        for (reason, hint), alike in groupby(shown, _blind):
            items = list(alike)
            if reason and len(items) > 1:
                print("\n".join(item.title for item in items))
                print(f"  {reason}\n  hint: {hint}\n")
            else:
                for item in items:
                    _print_item(item, everything=everything)
    bonus = f" and {grade.bonus} beyond" if grade.bonus else ""
    print(f"{grade.earned} of {grade.marks} marks{bonus}; {again}")
    sys.stdout.flush()


def _blind(item: Graded) -> tuple[str, str]:
    """What items have in common for which there was nothing to look at; empty for others."""
    finding = item.finding
    return ("", "") if finding.details or not finding.reason else (finding.reason, finding.hint)


def _marks(item: Graded) -> str:
    return f"{'+' if item.bonus else ''}{item.earned}/{item.marks}"


def _verdict(item: Graded) -> str:
    if item.earned == item.marks:
        return "ok"
    return "" if item.bonus else "FAILED"


def _print_item(item: Graded, *, everything: bool) -> None:
    finding = item.finding
    print(f"{item.title}: {item.expected}")
    if finding.reason:
        print(f"  {finding.reason}")
    shown = [row for row in finding.details if everything or not row.right]
    width = max((len(row.what) for row in shown[:MOST_DETAILS]), default=0)
    limit = len(shown) if everything else MOST_DETAILS
    for row in shown[:limit]:
        mark = " " if row.right else "x"
        print(f"  {mark} {row.what:<{width}}  expected {row.expected}, came {row.came}")
    if len(shown) > limit:
        print(f"    and {len(shown) - limit} more: --all shows them")
    if finding.hint:
        print(f"  hint: {finding.hint}")
    print()
