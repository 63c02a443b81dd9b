"""Grading what a learner hands in: what a lab asks for in marks, and what a file is worth.

A lab that grades has in its folder: starter.p4 (or starter.py, or of whatever its learners write)
and grading.py (below). The reference is a change of the starter, outside the learners' folder:
solutions/LAB.diff beside it (or reference.diff in it, for a lab that is never handed out).

    def items() -> Sequence[Item]                 what there are marks for, in the order of the text
    def bench(submission: Submission) -> object   made once a file, handed to each item's `judge`

and, where what is handed in is no P4 program,

    def read(path: Path) -> object                makes `submission.content`; ValueError: refused

A P4 program is compiled instead. Either runs in a process of its own (`experiments.grade_worker`):
one that never ends, or takes the switch down with it, costs the marks of the item that met it, and
the rest is still judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.errors import LabError

GRADING = "grading.py"
STARTER = "starter.p4"
REFERENCE = "reference.diff"
SOLUTIONS = "solutions"
MOST_NAMED = 3
"""Of what is wrong, in a finding's reason; the details have all."""


class GradeError(LabError):
    """What is to be graded, or the lab, is not as it must be: wrong input."""


@dataclass(frozen=True)
class Detail:
    """One thing that was looked at, such as a field of a packet, in words."""

    what: str
    expected: str
    came: str
    right: bool

    @classmethod
    def of(cls, what: str, expected: object, came: object) -> Detail:
        """Compare two values; they are shown as `str` has them."""
        return cls(what, str(expected), str(came), expected == came)


@dataclass(frozen=True)
class Finding:
    """What an item came to: a share of its marks, why, and how to get the rest."""

    share: float
    reason: str = ""
    hint: str = ""
    details: tuple[Detail, ...] = ()

    @classmethod
    def of(cls, details: Iterable[Detail], hint: str = "", reason: str = "") -> Finding:
        """Give the share of the details that are right; the hint only where one is not."""
        rows = tuple(details)
        wrong = [row for row in rows if not row.right]
        if not wrong:
            return cls(1.0, details=rows)
        named = ", ".join(row.what for row in wrong[:MOST_NAMED])
        more = ", ..." if len(wrong) > MOST_NAMED else ""
        said = reason or f"{len(wrong)} of {len(rows)} are wrong: {named}{more}"
        return cls(1 - len(wrong) / len(rows), said, hint, rows)

    @classmethod
    def nothing(cls, reason: str, hint: str = "", details: Iterable[Detail] = ()) -> Finding:
        """Give no marks, and say why."""
        return cls(0.0, reason, hint, tuple(details))


@dataclass(frozen=True)
class Item:
    """What there are marks for. `judge` gets the lab's bench; `bonus`: beyond full marks."""

    name: str
    title: str
    marks: int
    expected: str
    judge: Callable[[Any], Finding] = field(repr=False)
    bonus: bool = False


@dataclass(frozen=True)
class Submission:
    """A learner's program, compiled, and the number that this grading's random values come from.

    `content`: what the lab's `read` made of a file that is no P4 program; the texts are empty then.
    """

    path: Path
    json_text: str
    p4info_text: str
    seed: int
    content: object = None


@dataclass(frozen=True)
class Graded:
    """An item, judged."""

    name: str
    title: str
    marks: int
    bonus: bool
    expected: str
    finding: Finding

    @property
    def earned(self) -> int:
        """The marks: whole ones, and all of them only if everything is right."""
        return int(self.marks * self.finding.share + 1e-9)

    def as_json(self) -> dict[str, object]:
        """Return it for `weft grade --json`."""
        return {
            "name": self.name,
            "title": self.title,
            "marks": self.marks,
            "earned": self.earned,
            "bonus": self.bonus,
            "expected": self.expected,
            "reason": self.finding.reason,
            "hint": self.finding.hint,
            "details": [
                {"what": d.what, "expected": d.expected, "came": d.came, "right": d.right}
                for d in self.finding.details
            ],
        }


@dataclass(frozen=True)
class Grade:
    """What a file is worth. `refused`: why it can't be judged, such as the compiler's words."""

    lab: str
    file: str
    seed: int
    items: tuple[Graded, ...]
    refused: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def marks(self) -> int:
        """What there was to get, without what is beyond full marks."""
        return sum(item.marks for item in self.items if not item.bonus)

    @property
    def earned(self) -> int:
        """What was got of it."""
        return sum(item.earned for item in self.items if not item.bonus)

    @property
    def bonus(self) -> int:
        """What was got beyond."""
        return sum(item.earned for item in self.items if item.bonus)

    @property
    def is_full(self) -> bool:
        """Say whether nothing is missing."""
        return self.earned == self.marks

    def as_json(self) -> dict[str, object]:
        """Return it for `weft grade --json`."""
        return {
            "lab": self.lab,
            "file": self.file,
            "seed": self.seed,
            "marks": self.marks,
            "earned": self.earned,
            "bonus": self.bonus,
            "refused": self.refused,
            "warnings": list(self.warnings),
            "items": [item.as_json() for item in self.items],
        }


# ---------------------------------------------------------------- the reference


def starter_of(folder: Path) -> Path:
    """Return a lab's starter: starter.p4, or with the suffix of what else its learners write.

    Raises GradeError if there is none, or more than one.
    """
    found = sorted(folder.glob(f"{Path(STARTER).stem}.*"))
    if not found:
        raise GradeError(f"{folder / STARTER}: no such file", "a lab to be graded has one")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise GradeError(f"{folder} has {names}", "a lab to be graded has one starter")
    return found[0]


def solution_of(folder: Path) -> Path:
    """Return the diff that makes a lab's reference of its starter. Raises GradeError."""
    kept = folder.resolve().parent / SOLUTIONS / f"{folder.resolve().name}.diff"
    for diff in (kept, folder / REFERENCE):
        if diff.is_file():
            return diff
    raise GradeError(f"{kept}: no such file", "a lab with --reference has one, made by diff -u")


def reference(folder: Path) -> str:
    """Return the text of a lab's reference: its starter, changed as its solution says.

    Raises GradeError for files that are missing or do not fit together.
    """
    starter, diff = starter_of(folder), solution_of(folder)
    return patched(starter.read_text(encoding="utf-8"), diff.read_text(encoding="utf-8"), diff)


def patched(text: str, diff: str, name: Path) -> str:
    """Apply a unified diff of one file, exactly: no fuzz, no offsets. Raises GradeError."""
    old = text.splitlines(keepends=True)
    out: list[str] = []
    at = 0
    for number, line in enumerate(diff.splitlines(keepends=True), 1):
        if line.startswith(("--- ", "+++ ")):
            continue
        if line.startswith("@@"):
            start = _start(line, name, number) - 1
            out += old[at:start]
            at = start
            continue
        kind, content = line[:1], line[1:]
        if kind == "+":
            out.append(content)
            continue
        if kind not in (" ", "-") or at >= len(old) or old[at] != content:
            raise GradeError(f"{name}:{number}: does not fit the starter's line {at + 1}")
        if kind == " ":
            out.append(content)
        at += 1
    return "".join(out + old[at:])


def _start(line: str, name: Path, number: int) -> int:
    try:
        return int(line.split()[1].removeprefix("-").partition(",")[0])
    except (IndexError, ValueError):
        raise GradeError(f"{name}:{number}: is no unified diff") from None


def lost(items: Iterable[Item], reason: str) -> tuple[Graded, ...]:
    """Return items that nothing is given for, all for one reason."""
    return tuple(judged(item, Finding.nothing(reason)) for item in items)


def judged(item: Item, finding: Finding) -> Graded:
    """Join an item and what it came to."""
    return Graded(item.name, item.title, item.marks, item.bonus, item.expected, finding)


def finding_from(row: Mapping[str, Any]) -> Finding:
    """Return a finding that came from the worker."""
    details = tuple(Detail(**detail) for detail in row["details"])
    return Finding(row["share"], row["reason"], row["hint"], details)
