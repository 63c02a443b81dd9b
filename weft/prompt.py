"""The prompt of a run that stays up: commands by hand or from a pipe.

Ctrl-C cancels the line or the command, Ctrl-D or `exit` ends the run. Commands from a pipe are
shown as if typed, and the programs that they start get no input. What happens meanwhile (a switch
died and is back) is shown between the lines.
"""

from __future__ import annotations

import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from controller.errors import ControllerError, NotPrimary, failures
from emulation.run_state import log_root
from emulation.session import Session, explain
from weft import console, full_disk
from weft.prompt_command import Command, CommandError, Shell, no_arguments
from weft.prompt_fabric import ELECTION_ID, FabricCommands
from weft.prompt_nodes import NodeCommands
from weft.prompt_registers import RegisterCommands
from weft.prompt_traffic import TrafficCommands

if TYPE_CHECKING:
    from emulation.interrupts import Interrupts
    from weft.reload import Programs

PROMPT = "weft> "
HISTORY = "prompt-history"
_HISTORY_LINES = 1000


class Prompt:
    """Reads commands until the end of input and runs them against a session."""

    def __init__(self, session: Session, interrupts: Interrupts, programs: Programs) -> None:
        self._session = session
        self._interrupts = interrupts
        self._is_terminal = sys.stdin.isatty()
        self._reads = False
        shell = Shell(session, self._is_terminal)
        self._traffic = TrafficCommands(shell)
        self._nodes = NodeCommands(shell)
        listed = [
            *self._traffic.commands(),
            *FabricCommands(shell, programs).commands(),
            *RegisterCommands(shell).commands(),
            *self._nodes.commands(),
            Command(
                "help",
                "[COMMAND]",
                "this list, or more about one command",
                self._help,
                complete=lambda before: () if before else list(self._commands),
            ),
            Command("exit", "", "take everything down (also Ctrl-D)", self._exit),
        ]
        self._commands = {command.name: command for command in listed}
        self._ends = False

    def run(self) -> bool:
        """Run commands until `exit` or the end of input.

        Returns whether all commands from a pipe worked; a person has seen what did not. Raises
        SwitchDiedError when a switch ends and isn't supervised, Interrupted on a signal other
        than Ctrl-C.
        """
        if self._is_terminal:
            self._prepare_terminal()
        try:
            return self._run()
        finally:
            if self._is_terminal:
                self._save_history()
            self._traffic.close()

    def _run(self) -> bool:
        worked = True
        while not self._ends:
            try:
                with self._interrupts.cancelling():
                    line = self._read()
                    if line is None:
                        break
                    worked = self._do(line) and worked
            except KeyboardInterrupt as interrupt:
                if getattr(interrupt, "number", signal.SIGINT) != signal.SIGINT:
                    raise
                print("^C" if not self._is_terminal else "")
            self._session.check_switches()
        return worked or self._is_terminal

    # --- reading ------------------------------------------------------------------------------

    def tell(self, message: str) -> None:
        """Print something that has happened by itself; may be called from any thread."""
        if not (self._is_terminal and self._reads):
            console.notice(message)
            return
        import readline  # at terminals alone: it changes how input() reads

        # The line being typed is shown again below the message.
        print(f"\r\033[K{message}\n{PROMPT}{readline.get_line_buffer()}", end="", flush=True)

    def _history_path(self) -> Path:
        return log_root() / HISTORY

    def _prepare_terminal(self) -> None:
        import readline  # at terminals alone: it changes how input() reads

        readline.set_completer(self._complete)
        readline.set_completer_delims(" ")
        readline.parse_and_bind("tab: complete")
        with suppress(OSError):
            readline.read_history_file(self._history_path())
        print("type help for the commands, exit (or Ctrl-D) to take everything down")

    def _save_history(self) -> None:
        import readline  # at terminals alone: it changes how input() reads

        readline.set_history_length(_HISTORY_LINES)
        with suppress(OSError):
            readline.write_history_file(self._history_path())

    def _complete(self, text: str, state: int) -> str | None:
        import readline  # at terminals alone: it changes how input() reads

        typed = readline.get_line_buffer()[: readline.get_begidx()]
        with suppress(Exception):  # an exception here would be lost in readline, with the key
            fitting = [word + " " for word in self.following(typed) if word.startswith(text)]
            return fitting[state] if state < len(fitting) else None
        return None

    def following(self, typed: str) -> list[str]:
        """Return the words that may come after what was typed so far (whole words)."""
        try:
            before = shlex.split(typed)
        except ValueError:
            return []
        if not before:
            return [*self._commands, *self._nodes.hosts()]
        command = self._commands.get(before[0])
        if command is None and before[0] in self._nodes.hosts():
            return list(self._nodes.words(before[1:]))
        return list(command.complete(before[1:])) if command else []

    def _read(self) -> str | None:
        """Return the next line, None at the end of input."""
        sys.stdout.flush()
        if not self._is_terminal:
            line = sys.stdin.readline()
            if not line:
                return None
            print(PROMPT + line.strip(), flush=True)
            return line.strip()
        self._reads = True
        try:
            return input(PROMPT).strip()
        except EOFError:
            print()
            return None
        finally:
            self._reads = False

    # --- doing --------------------------------------------------------------------------------

    def _do(self, line: str) -> bool:
        """Run one command line; say whether it worked."""
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            return True
        try:
            command = self._commands.get(word)
            if command is None and word not in self._nodes.hosts():
                raise CommandError(f"no command {word!r}: try help")
            # A switch that has just died is back in a moment.
            for name in self._session.settle():
                print(f"{name} has a program of another client, and is left alone with it")
            if command is not None:
                command.run(rest.strip())
            else:
                self._nodes.in_host(word, rest.strip())
        except Exception as error:
            shown = explain(self._session, error)
            if shown is not error:
                raise shown from error
            _show(error)
            return False
        return True

    def _help(self, rest: str) -> None:
        if rest:
            command = self._commands.get(rest)
            if command is None:
                raise CommandError(f"no command {rest!r}: try help")
            print(f"  {command.usage}\n  {command.text}")
            for line in command.more.splitlines():
                print(f"    {line}")
            return
        width = max(len(command.usage) for command in self._commands.values())
        print(f"  {'HOST COMMAND':{width}}  run a command in a host: h1 ping h3, h1 bash")
        for command in self._commands.values():
            print(f"  {command.usage:{width}}  {command.text}")

    def _exit(self, rest: str) -> None:
        no_arguments("exit", rest)
        self._ends = True


def _show(error: Exception) -> None:
    full = full_disk.said_of(error)
    elsewhere = failures(error) if isinstance(error, ControllerError) else ()
    taken = [each.election_id for each in elsewhere if isinstance(each, NotPrimary)]
    if taken:
        back = f"stop it, or take the switches back: controller restart {ELECTION_ID}"
        console.error(str(error), f"{back} {max(taken) + 1}")
        return
    if full:
        console.error(*full)
    else:
        console.report(error)
