"""What a lint says about a topology: findings, and how several that say the same become one."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topologies.document import Document
from topologies.errors import FieldPath, Problem

SHOWN_SUBJECTS = 3


class Severity(enum.Enum):
    """How bad it is: an error doesn't work, a warning works badly, an info is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Remark:
    """What a rule found about one subject (a link, a switch), before it has a place in the file.

    `message` follows the subject in a sentence, `right` says what would be right.
    """

    severity: Severity
    path: FieldPath
    subject: str
    message: str
    right: str


@dataclass(frozen=True)
class Finding:
    """One line of a lint: how bad, where in the file (from 1), what, and what would be right."""

    severity: Severity
    file: str
    line: int
    column: int
    message: str
    right: str

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.severity.value}: {self.message}"
        return f"{text}; {self.right}" if self.right else text

    @classmethod
    def of(cls, problem: Problem) -> Finding:
        """Return the finding that a topology which can't be loaded is."""
        field = f"{problem.field}: " if problem.field else ""
        message = field + problem.message
        return cls(Severity.ERROR, problem.file, problem.line, problem.column, message, "")


def subjects_text(subjects: Sequence[str]) -> str:
    """Return names as a reader wants them: all of a few, the first of many with their number."""
    shown = ", ".join(subjects[:SHOWN_SUBJECTS])
    more = len(subjects) - SHOWN_SUBJECTS
    return f"{shown} and {more} more" if more > 0 else shown


def merged(remarks: Iterable[Remark], document: Document) -> list[Finding]:
    """Return findings, worst first, then by place; several subjects of one message share a line."""
    subjects: dict[tuple[Severity, FieldPath, str, str], list[str]] = {}
    for remark in remarks:
        key = (remark.severity, remark.path, remark.message, remark.right)
        subjects.setdefault(key, []).append(remark.subject)
    order = list(Severity)
    findings = []
    for (severity, path, message, right), names in subjects.items():
        line, column = document.position(path)
        text = f"{subjects_text(list(dict.fromkeys(names)))}: {message}"
        findings.append(Finding(severity, document.file, line, column, text, right))
    return sorted(findings, key=lambda f: (order.index(f.severity), f.line, f.column))
