"""`weft grade`: marks for what a learner hands in, with what was expected and what came."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from experiments import grade, grade_worker, loader
from experiments.errors import LabError
from experiments.grade import Grade, Graded
from observe.errors import UsageError
from weft import console, grade_all
from weft.command_line import argument, as_json, command, flag, option

SEEDS = 1_000_000
MOST_DETAILS = 12


@command("""
    examples:
      weft grade cnp-by-hand --p4 my_cnp.p4
      weft grade cnp-by-hand --p4 my_cnp.p4 --seed 7    the same packets as another time
      weft grade cnp-by-hand --p4 my_cnp.p4 --json      for a program to read
      weft grade flowlets-by-hand --p4 my_leaf.p4
      weft grade failover-by-hand --answer mine.h       a lab that is answered with a C header
      weft grade find-the-fault --answer mine.py        and one with Python
      weft grade cnp-by-hand --reference                what the lab's own answer gets
      weft grade cnp-by-hand --all answers -o marks.csv      a class: answers/NAME.p4

    exit codes: 0 full marks, 1 not all of them, 2 wrong arguments;
    with --all: 0 every answer was judged, 1 some could not be
    """)
@argument("lab", help="the lab; `weft lab list` shows them")
@option("--p4", type=Path, metavar="FILE", help="the P4 program to grade")
@option(
    "--answer",
    type=Path,
    metavar="FILE",
    help="the file to grade in a lab that is not answered with P4; its text says what to write",
)
@flag("--reference", help="grade the model solution: the lab's starter plus its diff")
@option("--seed", type=int, metavar="N", help="seed of addresses, lengths and numbers "
        "(default: a new one each time)")  # fmt: skip
@option("--all", "answers", type=Path, metavar="DIR",
        help="grade every answer in DIR (DIR/NAME.p4, or the one such file in DIR/NAME), all with "
        "the same seed, and print one table")  # fmt: skip
@option("-o", "out", type=Path, metavar="FILE", help="with --all: also write the table as CSV")
@option("--limit", "limit_s", type=float, default=grade_all.LIMIT_S, metavar="S",
        help="with --all: end the grading of one answer after S seconds (default)")  # fmt: skip
@flag("--verbose", "everything", help="show what was right as well, field by field")
@option(
    "--labs", type=Path, default=loader.DIRECTORY, metavar="DIR", help="where the labs' folders are"
)
@as_json
def run(
    lab: str, p4: Path | None, answer: Path | None, reference: bool, answers: Path | None,
    out: Path | None, limit_s: float, seed: int | None, everything: bool, labs: Path,
    as_json: bool,
) -> int:  # fmt: skip
    """Judge what the arguments name; return 0 for full marks or a class judged in full, else 1.

    2: no such lab, no such file, a lab without grading.
    """
    if reference + sum(each is not None for each in (p4, answer, answers)) != 1:
        raise UsageError("grade: give one of --p4 FILE, --answer FILE, --all DIR and --reference")
    if answers is None and out is not None:
        raise UsageError("grade: -o goes with --all; --json prints the marks of one answer")
    if not limit_s > 0:
        raise UsageError(f"--limit {limit_s:g}: give seconds, more than 0")
    try:
        folder = loader.load(lab, labs).folder
        if answers is not None:
            takes_p4 = grade_worker.takes_p4(grade_worker.load(folder))
            return grade_all.run(
                lab, labs.absolute(), answers, grade.starter_of(folder).suffix,
                "--p4" if takes_p4 else "--answer",
                secrets.randbelow(SEEDS) if seed is None else seed,
                limit_s=limit_s, out=out, as_json=as_json,
            )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="weft-grade-") as scratch:
            if not reference:
                _check(folder, is_p4=p4 is not None)
            source = p4 or answer or Path(scratch, f"reference{grade.starter_of(folder).suffix}")
            if reference:
                source.write_text(grade.reference(folder), encoding="utf-8")
            with console.progress(f"grade {source.name}", quiet=as_json or not sys.stderr.isatty()):
                seed = secrets.randbelow(SEEDS) if seed is None else seed
                graded = grade_worker.grade(folder.name, folder, source, seed=seed)
    except LabError as error:
        console.error(str(error), str(getattr(error, "remedy", "")))
        return error.exit_code
    if as_json:
        print(json.dumps(graded.as_json()))
    else:
        _print(graded, everything=everything)
    return 0 if graded.is_full else 1


def _check(folder: Path, *, is_p4: bool) -> None:
    """See that a lab takes what is handed in. Raises GradeError, HookError, UsageError."""
    wants_p4 = grade_worker.takes_p4(grade_worker.load(folder))
    if wants_p4 and not is_p4:
        raise UsageError(f"grade: {folder.name} is answered with a P4 program: --p4 FILE")
    if is_p4 and not wants_p4:
        raise UsageError(f"grade: {folder.name} is not answered with a P4 program: --answer FILE")


def _print(grade: Grade, *, everything: bool) -> None:
    again = f"--seed {grade.seed} gives the same again"
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
    """Return what items without anything to check have in common; empty for others."""
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
        print(f"    and {len(shown) - limit} more: --verbose shows them")
    if finding.hint:
        print(f"  hint: {finding.hint}")
    print()
