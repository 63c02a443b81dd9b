"""What all commands of `weft cli` share: the line, errors as one line, names, completion.

Standard output has what simple_switch_CLI would print, so that scripts that read it go on working.
What we know beyond that (why the switch refused) goes to standard error.
"""

from __future__ import annotations

import cmd
import functools
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from compat.bmv2_cli.connection import Connection, RefusedError
from compat.bmv2_cli.program import Action, Program, find
from compat.bmv2_cli.stream import Answers, Lines
from compat.bmv2_cli.values import CommandError, OperationError, argument, digits, short_digits
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError

S = TypeVar("S", bound="ShellBase")

_BMV2_NAMES = {
    "table": {
        "ALREADY_EXISTS": "DUPLICATE_ENTRY",
        "NOT_FOUND": "INVALID_HANDLE",
        "RESOURCE_EXHAUSTED": "TABLE_FULL",
    },
    "counter": {"OUT_OF_RANGE": "INVALID_INDEX"},
    "meter": {"OUT_OF_RANGE": "INVALID_INDEX", "INVALID_ARGUMENT": "INVALID_INFO_RATE_VALUE"},
    "register": {"OUT_OF_RANGE": "INVALID_INDEX"},
    "mirroring": {"NOT_FOUND": "SESSION_NOT_FOUND"},
}


_MAY_WAIT = "may_wait"


def command(
    count: int | None = None, *, least: int = 0, kind: str = "table", may_wait: bool = False
) -> Callable[[Callable[[S, list[str]], None]], Callable[[S, str], None]]:
    """Make a `do_` method of a function of words: exactly `count` of them, or at `least` so many.

    `kind` is what a refusal is called: "Invalid table operation (...)". `may_wait`: the command
    asks the switch nothing, so that it need not be done before the next one is read (`settle`).
    """

    def wrap(function: Callable[[S, list[str]], None]) -> Callable[[S, str], None]:
        @functools.wraps(function)
        def run(self: S, line: str) -> None:
            words = line.split()
            with self.told(kind):
                if count is not None and len(words) != count:
                    raise CommandError(
                        f"Wrong number of args, expected {count} but got {len(words)}"
                    )
                if len(words) < least:
                    raise CommandError("Insufficient number of args")
                function(self, words)

        setattr(run, _MAY_WAIT, may_wait)
        return run

    return wrap


class ShellBase(cmd.Cmd):
    """A command line on one switch. `failures` counts commands that were not done.

    `repeats`: an empty line does the line before once more.
    """

    prompt = "RuntimeCmd: "

    def __init__(
        self,
        connection: Connection,
        diagnostics: DiagnosticsClient,
        *,
        strict: bool = False,
        program: bytes = b"",
    ) -> None:
        """`strict`: the first failure ends it, and an empty line does nothing. `program`: the JSON
        to take names from, instead of the switch's own.

        Raises RefusedError without a program.
        """
        super().__init__()
        self.switch = connection
        self.diagnostics = diagnostics
        self._json = program
        self.read_program()
        self.strict = strict
        self.repeats = not strict
        self.failures = 0
        self.answers: Answers | None = None

    def read_program(self) -> None:
        """Ask the switch for its program. Raises RefusedError."""
        config = self.switch.config()
        self.program = Program.of(config.p4info, self._json or config.p4_device_config)

    def fail(self, message: str, why: str = "") -> None:
        """Print what is wrong, in one line; and why, for the user."""
        self.failures += 1
        self.say(" ".join(message.split()))
        if why:
            self.note(f"  {' '.join(why.split())}")

    @contextmanager
    def told(self, kind: str) -> Iterator[None]:
        """Print the errors raised in the block; `kind` as in `command`."""
        try:
            yield
        except CommandError as error:
            self.fail(error.line(), error.why)
        except RefusedError as error:
            name = _BMV2_NAMES.get(kind, {}).get(error.code, "ERROR")
            self.fail(OperationError(kind, name).line(), str(error))
        except DiagnosticsError as error:
            self.fail(OperationError(kind, "ERROR").line(), str(error))

    def say(self, *words: object) -> None:
        """Print a line."""
        self.stdout.write(f"{' '.join(map(str, words))}\n")
        self.stdout.flush()

    def note(self, message: str) -> None:
        """Print a note where scripts that read the output do not see it."""
        if self.answers is not None:
            self.answers.note(f"{message}\n")
        else:
            print(message, file=sys.stderr)

    # --- files of commands --------------------------------------------------------------------

    def read_commands(self, descriptor: int, intro: str) -> None:
        """Do the commands of an open file, where some may wait for others. Raises UsageError.

        What is printed, and its order, is as if they did not.
        """
        keyboard, terminal = self.stdin, self.stdout
        self.answers = Answers(terminal, sys.stderr)
        lines = Lines(descriptor, self._before_waiting)
        self.stdin = lines  # type: ignore[assignment]  # cmd asks for readline alone
        self.stdout = self.answers  # type: ignore[assignment]  # and for write and flush
        self.use_rawinput = False
        try:
            super().cmdloop(intro)
            self.settle()
        finally:
            self.answers.show()
            self.stdin, self.stdout, self.answers = keyboard, terminal, None

    def settle(self) -> None:
        """Do what waits."""

    def _before_waiting(self) -> None:
        self.settle()
        if self.answers is not None:
            self.answers.show()

    # --- cmd's hooks --------------------------------------------------------------------------

    def onecmd(self, line: str) -> bool:
        """Run a line; comments (`#`, `//`) are left out. True ends the loop."""
        if line.lstrip().startswith(("#", "//")):
            self.lastcmd = ""
            return False
        function = getattr(self, f"do_{self.parseline(line)[0]}", None)
        if function is not None and not getattr(function, _MAY_WAIT, False):
            self.settle()
        before = self.failures
        ended = bool(super().onecmd(line))
        return ended or (self.strict and self.failures > before)

    def emptyline(self) -> bool:
        """Repeat the line before, as simple_switch_CLI does: handles in old files depend on it."""
        if not self.repeats or not self.lastcmd:
            return False
        return self.onecmd(self.lastcmd)

    def default(self, line: str) -> None:
        """Report an unknown command."""
        self.fail(f"*** Unknown syntax: {line}")

    def do_help(self, arg: str) -> None:
        """List commands, or say what one does: help [command]"""
        function = getattr(self, f"do_{arg}", None) if arg else None
        if function is None or not function.__doc__:
            super().do_help(arg)
        else:
            self.say(" ".join(function.__doc__.split()))

    def do_shell(self, line: str) -> None:
        """Run a command of the system: shell <command>, or !<command>"""
        done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, check=False)
        self.say(done.stdout.decode(errors="replace"))

    def do_EOF(self, _line: str) -> bool:
        """Leave."""
        self.say()
        return True

    def do_quit(self, _line: str) -> bool:
        """Leave: quit"""
        return True

    do_exit = do_quit

    def completedefault(self, *given: object) -> list[str]:
        """Return the names that the command takes, then those of its actions."""
        text, line = str(given[0]), str(given[1])
        words = line.split()
        place = len(words) - (1 if text else 0)
        names: Iterable[str] = ()
        if place == 1:
            names = self._objects(words[0])
        elif place == 2 and words[0] in _WITH_ACTION:
            of_profile = words[0].startswith("act_prof_")
            with suppress(CommandError):  # no such table, no actions
                if of_profile:
                    names = find(self.program.profiles, words[1], "action profile").actions
                else:
                    names = find(self.program.tables, words[1], "table").actions
        return [name for name in sorted(names) if name.startswith(text)]

    def _objects(self, word: str) -> Iterable[str]:
        program = self.program
        if word in ("set_crc16_parameters", "set_crc32_parameters"):
            return [name for name, bits in program.crcs.items() if f"crc{bits}_" in word]
        for start, names in (
            ("table_", program.tables),
            ("act_prof_", program.profiles),
            ("counter_", program.counters),
            ("meter_", program.meters),
            ("register_", program.registers),
            ("pvs_", program.value_sets),
        ):
            if word.startswith(start):
                return names
        return ()

    # --- what several families need -----------------------------------------------------------

    def arguments(self, action: Action, words: list[str], called: str = "") -> list[int]:
        """Parse an action's arguments; `called`: its name in messages. Raises CommandError."""
        if len(words) != len(action.params):
            name, count = called or action.name, len(action.params)
            raise CommandError(f"Action {name} needs {count} parameters")
        params = zip(action.params, words, strict=True)
        return [argument(word, bits) for (_, _, bits), word in params]

    def given_data(self, action: Action, values: list[int]) -> str:
        """Format an action's arguments as the commands that set them print them."""
        params = zip(action.params, values, strict=True)
        return "\t".join(digits(value, bits, ":") for (_, _, bits), value in params)

    def dumped_data(self, values: Iterable[int]) -> str:
        """Format an action's arguments as dumps show them."""
        return ", ".join(short_digits(value) for value in values)


_WITH_ACTION = frozenset(
    {
        "table_add",
        "table_set_default",
        "table_modify",
        "act_prof_create_member",
        "act_prof_modify_member",
    }
)
