"""What can go wrong while a topology runs on this machine, each with what to do about it."""

from __future__ import annotations


class EmulationError(Exception):
    """A run that can't go on. `remedy` is what the user can do, one sentence or empty."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class NotRootError(EmulationError):
    """Namespaces, links and packet sockets need root."""

    def __init__(self, command: str) -> None:
        super().__init__(
            "this needs root: it makes network namespaces, links and packet sockets",
            f"run it as: sudo {command}",
        )


class LacksCapabilitiesError(EmulationError):
    """Root has not all of its rights here, as in a container; nothing would come up."""

    def __init__(self, lacking: str) -> None:
        super().__init__(
            f"root lacks {lacking} here: namespaces, links and packet sockets need them",
            "in a container: start it with --privileged",
        )


class RunActiveError(EmulationError):
    """Another run is up; one at a time is what the lock allows."""


class StateError(EmulationError):
    """The record of a run is unreadable, so what it made is not known."""


class SwitchDiedError(EmulationError):
    """A switch process ended or never became ready; the message holds its last log lines."""


class ToolMissingError(EmulationError):
    """A program that the run needs is not installed."""


class TrafficError(EmulationError):
    """A proof could not be carried out at all (unlike one whose result is bad)."""
