"""What a command at the prompt is, and what commands share."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.session import Session

CHILD_PATIENCE_S = 2.0


class CommandError(Exception):
    """A command at the prompt that can't be done; the message says what would be right."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def no_words(_before: Sequence[str]) -> Iterable[str]:
    """Complete nothing."""
    return ()


@dataclass(frozen=True)
class Command:
    """One command: `run` gets what follows its name. `more` is shown by `help NAME`.

    `complete` returns the words that may follow those typed already.
    """

    name: str
    arguments: str
    text: str
    run: Callable[[str], None]
    more: str = ""
    complete: Callable[[Sequence[str]], Iterable[str]] = no_words

    @property
    def usage(self) -> str:
        """The name and its arguments."""
        return f"{self.name} {self.arguments}".rstrip()


@dataclass(frozen=True)
class Shell:
    """What commands work on, and how they start programs in the foreground."""

    session: Session
    is_terminal: bool

    def foreground(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> int:
        """Run a program with the terminal until it ends; return its exit code.

        From a pipe it gets no input. Ctrl-C ends it, and is raised again as KeyboardInterrupt.
        """
        sys.stdout.flush()
        child = subprocess.Popen(
            arguments,
            stdin=None if self.is_terminal else subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal has signalled the child too: it ends by itself, or is made to.
            try:
                child.wait(CHILD_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise

    def hosts(self) -> list[str]:
        """Return the names of the hosts."""
        return [host.name for host in self.session.topology.hosts]

    def switches(self) -> list[str]:
        """Return the names of the switches."""
        return [switch.name for switch in self.session.topology.switches]


def split(rest: str) -> list[str]:
    """Split arguments as a shell does. Raises CommandError for an open quote."""
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise CommandError(f"the line can't be read: {error}") from None


def one_of(what: str, name: str, names: Sequence[str], usage: str) -> str:
    """Return `name` if it is one of `names`. Raises CommandError with all that would be right."""
    if name not in names:
        given = f"no {what} {name!r}" if name else f"a {what} is missing"
        raise CommandError(f"{given}: {usage}, with {what} one of {', '.join(names)}")
    return name


def no_arguments(command: str, rest: str) -> None:
    """Raise CommandError when something follows a command that takes nothing."""
    if rest:
        raise CommandError(f"{command} takes no arguments")
