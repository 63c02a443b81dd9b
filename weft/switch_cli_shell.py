"""What all commands of `weft cli` share: the line, errors as one line, names, completion."""

from __future__ import annotations

import cmd
import functools
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from weft.switch_cli_connection import Connection, RefusedError
from weft.switch_cli_program import Action, Program
from weft.switch_cli_values import CommandError, argument, digits

S = TypeVar("S", bound="ShellBase")

_BMV2_NAMES = {
    "table": {
        "ALREADY_EXISTS": "DUPLICATE_ENTRY",
        "NOT_FOUND": "INVALID_HANDLE",
        "RESOURCE_EXHAUSTED": "TABLE_FULL",
    },
    "counter": {"OUT_OF_RANGE": "INVALID_INDEX"},
    "meter": {"OUT_OF_RANGE": "INVALID_INDEX"},
    "register": {"OUT_OF_RANGE": "INVALID_INDEX"},
    "mirroring": {"NOT_FOUND": "SESSION_NOT_FOUND"},
}


def command(
    count: int | None = None, *, least: int = 0, kind: str = "table"
) -> Callable[[Callable[[S, list[str]], None]], Callable[[S, str], None]]:
    """Make a `do_` method of a function of words: exactly `count` of them, or at `least` so many.

    `kind` is what a refusal is called: "Invalid table operation (...)".
    """

    def wrap(function: Callable[[S, list[str]], None]) -> Callable[[S, str], None]:
        @functools.wraps(function)
        def run(self: S, line: str) -> None:
            words = line.split()
            try:
                if count is not None and len(words) != count:
                    raise CommandError(
                        f"Wrong number of args, expected {count} but got {len(words)}"
                    )
                if len(words) < least:
                    raise CommandError("Insufficient number of args")
                function(self, words)
            except CommandError as error:
                self.fail(f"{error.prefix}: {error}")
            except RefusedError as error:
                name = _BMV2_NAMES.get(kind, {}).get(error.code, "ERROR")
                self.fail(f"Invalid {kind} operation ({name}): {error}")
            except DiagnosticsError as error:
                self.fail(f"Error: {error}")

        return run

    return wrap


class ShellBase(cmd.Cmd):
    """A command line on one switch. `failures` counts commands that were not done."""

    prompt = "RuntimeCmd: "

    def __init__(
        self, connection: Connection, diagnostics: DiagnosticsClient, *, strict: bool = False
    ) -> None:
        """`strict`: the first failure ends it. Raises RefusedError without a program."""
        super().__init__()
        self.switch = connection
        self.diagnostics = diagnostics
        self.program = Program.of(connection.p4info())
        self.strict = strict
        self.failures = 0

    def fail(self, message: str) -> None:
        """Tell what is wrong, in one line."""
        self.failures += 1
        self.say(" ".join(message.split()))

    def say(self, *words: object) -> None:
        """Print a line."""
        print(*words, file=self.stdout)

    # --- cmd's hooks --------------------------------------------------------------------------

    def onecmd(self, line: str) -> bool:
        """A line; comments (`#`, `//`) are left out. True ends the loop."""
        if line.lstrip().startswith(("#", "//")):
            return False
        before = self.failures
        ended = bool(super().onecmd(line))
        return ended or (self.strict and self.failures > before)

    def emptyline(self) -> bool:
        """Nothing: an empty line is no reason to add an entry once more."""
        return False

    def default(self, line: str) -> None:
        """A command that is not there."""
        self.fail(f"*** Unknown syntax: {line}")

    def do_help(self, arg: str) -> None:
        """List commands, or say what one does: help [command]"""
        function = getattr(self, f"do_{arg}", None) if arg else None
        if function is None:
            super().do_help(arg)
        else:
            self.say(" ".join((function.__doc__ or "").split()))

    def do_EOF(self, _line: str) -> bool:
        """Leave."""
        self.say()
        return True

    def do_quit(self, _line: str) -> bool:
        """Leave: quit"""
        return True

    do_exit = do_quit

    def completedefault(self, *given: object) -> list[str]:
        """Names of what the command takes, then of its actions."""
        text, line = str(given[0]), str(given[1])
        words = line.split()
        place = len(words) - (1 if text else 0)
        names: Iterable[str] = ()
        if place == 1:
            names = self._objects(words[0])
        elif place == 2 and words[0] in _WITH_ACTION:
            table = self.program.tables.get(words[1])
            profile = self.program.profiles.get(words[1])
            if table is not None:
                names = table.actions
            elif profile is not None:
                names = profile.actions
        return [name for name in sorted(names) if name.startswith(text)]

    def _objects(self, word: str) -> Iterable[str]:
        program = self.program
        for start, names in (
            ("table_", program.tables),
            ("act_prof_", program.profiles),
            ("counter_", program.counters),
            ("meter_", program.meters),
            ("register_", program.registers),
        ):
            if word.startswith(start):
                return names
        return ()

    # --- what several families need -----------------------------------------------------------

    def arguments(self, action: Action, words: list[str]) -> list[int]:
        """An action's arguments. Raises CommandError."""
        if len(words) != len(action.params):
            raise CommandError(f"Action {action.name} needs {len(action.params)} parameters")
        params = zip(action.params, words, strict=True)
        return [argument(word, bits) for (_, _, bits), word in params]

    def data_text(self, action: Action, values: list[int], separator: str, between: str) -> str:
        """An action's arguments in hexadecimal."""
        params = zip(action.params, values, strict=True)
        return between.join(digits(value, bits, separator) for (_, _, bits), value in params)

    def note(self, message: str) -> None:
        """Tell something that scripts that read the output must not meet."""
        print(message, file=sys.stderr)


_WITH_ACTION = frozenset(
    {
        "table_add",
        "table_set_default",
        "table_modify",
        "act_prof_create_member",
        "act_prof_modify_member",
    }
)
