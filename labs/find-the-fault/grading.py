"""Marks for find-the-fault: cases that a seed draws, and whether each was found, or found healthy.

An answer of the right kind at a wrong place is worth half. A healthy fabric that is called broken
is worth nothing, and a fault that is called healthy neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from controller.program import CompiledProgram
from experiments import loader
from labs import Runtime
from labs.grade import Detail, Finding, Item, Submission
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for

from .answers import (
    FLAPPING,
    HEALTHY,
    MIS_SET_CLASS,
    ONE_WAY,
    SILENT_DROPS,
    Answer,
    AnswerError,
    is_right,
)
from .answers import read as read_answer
from .diagnosis import Diagnose, Sheet, answer_of, load
from .faults import Case, draw, exam
from .observations import Observations
from .play import Played, played

ITEM_S = 180.0
"""A case takes two seconds of a quiet processor."""

FOLDER = Path(__file__).parent
HIDDEN = "(not shown: the seed may be asked again)"
HALF = 0.5


def read(path: Path) -> Diagnose | Sheet:
    """Read what was handed in. Raises AnswerError."""
    return load(path)


class Exam:
    """The cases of a seed, and what is answered to them."""

    def __init__(self, seed: int) -> None:
        lab = loader.load(FOLDER.name, FOLDER.parent)
        self._settings = lab.entry.settings
        mapping = lab.variants(Runtime.SIMULATOR)[0].mapping
        self.cases: tuple[Case, ...] = tuple(
            draw(variant, case_seed, mapping, self._settings, FOLDER)
            for variant, case_seed in exam(seed, self._settings["cases"])
        )
        self._program: CompiledProgram | None = None

    @property
    def program(self) -> CompiledProgram:
        """What the switches run."""
        if self._program is None:
            made = compile_for(self.cases[0].run.topology)(FABRIC)
            self._program = CompiledProgram.of(made)
        return self._program

    @property
    def sample_us(self) -> int:
        """The time between two samples."""
        return int(self._settings["sample_us"])

    def numbers(self, kind: str) -> list[int]:
        """Return which cases are of a kind, from 0."""
        return [n for n, case in enumerate(self.cases) if case.truth.kind == kind]

    def shown(self, number: int, show: Callable[[Observations], None]) -> None:
        """Play a case and show it, in a process of its own."""
        played(self.cases[number], self.program, self.sample_us, lambda f: show(f.observations()))

    def diagnosed(self, number: int, diagnose: Diagnose, path: Path) -> Answer | str:
        """Play a case, and return what a learner's file says of it, or why it says nothing."""

        def look(fabric: Played) -> Answer | str:
            try:
                return answer_of(diagnose, fabric.observations(), fabric.topology, path)
            except AnswerError as error:
                return str(error)

        return played(self.cases[number], self.program, self.sample_us, look)

    def written(self, number: int, sheet: Sheet) -> Answer | str:
        """Return what a sheet says of a case, or why it says nothing."""
        text = sheet.answers.get(number + 1)
        if text is None:
            return f"no answer to case {number + 1}"
        try:
            return read_answer(text, self.cases[number].run.topology)
        except AnswerError as error:
            return str(error)


def bench(submission: Submission) -> tuple[Exam, Submission] | Finding:
    """Draw the cases of the grading's seed; those of a sheet have to be the same."""
    content = submission.content
    if isinstance(content, Sheet) and content.seed != submission.seed:
        seeds = f"these are answers to seed {content.seed}, and the cases are seed"
        return Finding.nothing(f"{seeds} {submission.seed}'s", f"--seed {content.seed}")
    return Exam(submission.seed), submission


def _judge(kind: str, hint: str, bench: tuple[Exam, Submission]) -> Finding:
    exam, submission = bench
    content = submission.content
    details, shares, broken = [], [], ""
    for number in exam.numbers(kind):
        case = exam.cases[number]
        if isinstance(content, Sheet):
            came = exam.written(number, content)
        else:
            came = exam.diagnosed(number, content, submission.path)  # type: ignore[arg-type]
        right = isinstance(came, Answer) and is_right(came, case.truth, case.run.topology)
        broken = broken or (came if isinstance(came, str) else "")
        expected = HIDDEN if isinstance(content, Sheet) and not right else str(case.truth)
        details.append(Detail(f"case {number + 1}", expected, str(came), right))
        is_near = isinstance(came, Answer) and came.kind == kind
        shares.append(1.0 if right else HALF if is_near else 0.0)
    if all(share == 1 for share in shares):
        return Finding(1.0, details=tuple(details))
    wrong = sum(share < 1 for share in shares)
    reason = broken or f"{wrong} of {len(shares)} cases are wrong"
    return Finding(sum(shares) / len(shares), reason, hint, tuple(details))


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    hints = {
        HEALTHY: "bursts fill queues, and every link loses a stray frame: neither is a fault",
        SILENT_DROPS: "TODO 1: what left by one end of a link, less what came at the other",
        ONE_WAY: "TODO 2: from some time on nothing is received in one direction, and is in the "
        "other",
        FLAPPING: "TODO 3: silences that end again",
        MIS_SET_CLASS: "TODO 4: the queue of each hop of a traced path",
    }
    rows = (
        (HEALTHY, "nothing is broken", 4, "healthy fabrics are called healthy"),
        (SILENT_DROPS, "silent drops", 5, "the port whose packets vanish"),
        (ONE_WAY, "one-way loss", 4, "the port whose packets vanish"),
        (FLAPPING, "a flapping link", 3, "one of its ends"),
        (MIS_SET_CLASS, "a mis-set class", 4, "the switch"),
    )
    return [
        Item(kind, title, marks, expected, partial(_judge, kind, hints[kind]))
        for kind, title, marks, expected in rows
    ]
