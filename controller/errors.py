"""What can go wrong between a controller and its switches, in words for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ControllerError(Exception):
    """Base of all errors of this package."""


class ProgramError(ControllerError):
    """Compiled program files that can't be read or don't belong together."""


class UnknownName(ControllerError):
    """A table, action, field or other object that the program doesn't have."""


class SwitchUnreachable(ControllerError):
    """A switch didn't answer on its address before the deadline, or went away."""


class NotPrimary(ControllerError):
    """Another controller is the primary of a switch, with `election_id`."""

    def __init__(self, message: str, election_id: int) -> None:
        self.election_id = election_id
        self.remedy = f"stop it, or use an election id above {election_id}"
        super().__init__(message)


class ReadFailed(ControllerError):
    """A switch refused to read; `code` is gRPC's name of the reason."""

    def __init__(self, switch: str, code: str, message: str) -> None:
        self.code = code
        super().__init__(f"{switch}: {code}: {message}")


class PipelineRefused(ControllerError):
    """A switch refused the program."""


class SeveralFailures(ControllerError):
    """Several switches failed at the same step; `failures` holds each one's error."""

    def __init__(self, failures: Sequence[ControllerError]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join(str(failure) for failure in self.failures))


def failures(error: ControllerError) -> tuple[ControllerError, ...]:
    """Return what failed, one error for each switch."""
    return error.failures if isinstance(error, SeveralFailures) else (error,)


def is_elsewhere(error: ControllerError) -> bool:
    """Return whether all that failed is that another controller is primary: the plan waits for
    it.
    """
    return all(isinstance(each, NotPrimary) for each in failures(error))


@dataclass(frozen=True)
class FailedUpdate:
    """One update that a switch refused: what it was, P4Runtime's code and the switch's words."""

    update: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.update}: {self.code}" + (f": {self.message}" if self.message else "")


class WriteFailed(ControllerError):
    """A switch refused some updates; `failures` holds one line for each."""

    def __init__(self, switch: str, failures: Sequence[FailedUpdate]) -> None:
        self.switch = switch
        self.failures = tuple(failures)
        super().__init__("\n".join(f"{switch}: {failure}" for failure in self.failures))
