"""What can be wrong with a lab, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topologies.errors import Problem

if TYPE_CHECKING:
    from experiments.api import Verdict


class LabError(Exception):
    """A lab can't be found, read or run as asked: wrong input. Says which, and what would be right.

    `exit_code` is what the command ends with.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class LabFileError(LabError):
    """A lab.yaml that can't be used. `problems` holds every mistake found, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class HookError(LabError):
    """A function of a lab's checks.py went wrong: which, where, and how."""

    exit_code = 1


class RuntimeMissingError(LabError):
    """The switch program of a runtime is not installed on this machine."""

    exit_code = 3


class NotRunError(Exception):
    """A check asks for a variant that did not run (or failed)."""

    def __init__(self, what: str, *, failed: bool = False) -> None:
        super().__init__(f"{what} failed" if failed else f"{what} did not run")
        self.failed = failed

    @property
    def verdict(self) -> Verdict:
        """The verdict of a check that needs it."""
        from experiments.api import Verdict  # it imports this module

        return Verdict.FAIL if self.failed else Verdict.NOT_RUN
