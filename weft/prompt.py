"""The prompt of a run that stays up: a few commands, by hand or from a pipe.

Ctrl-C cancels the line or the command, Ctrl-D or `exit` ends the run. Commands from a pipe are
shown as if typed, and the programs that they start get no input.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft import console

if TYPE_CHECKING:
    from emulation.interrupts import Interrupts
    from emulation.session import Session

PROMPT = "weft> "
_CHILD_PATIENCE_S = 2.0


class CommandError(Exception):
    """A command at the prompt that can't be done; the message says what would be right."""


class Prompt:
    """Reads commands until the end of input and runs them against a session."""

    def __init__(self, session: Session, interrupts: Interrupts) -> None:
        self._session = session
        self._interrupts = interrupts
        self._is_terminal = sys.stdin.isatty()
        # Name -> arguments, what it does, how. The order is that of `help`.
        self._commands: dict[str, tuple[str, str, Callable[[str], None]]] = {
            "pingall": ("", "ping between all pairs of hosts", self._pingall),
            "exec": ("HOST COMMAND", "run a command in a host, e.g. exec h1 ip route", self._exec),
            "counters": ("", "the counters of every port, over P4Runtime", self._counters),
            "tables": ("SWITCH", "what a switch's tables hold, over P4Runtime", self._tables),
            "help": ("", "this list", self._help),
            "exit": ("", "take everything down", self._exit),
        }
        self._ends = False

    def run(self) -> bool:
        """Run commands until `exit` or the end of input.

        Returns whether all commands from a pipe worked; a person has seen what did not. Raises
        SwitchDiedError when a switch ends, Interrupted on a signal other than Ctrl-C.
        """
        if self._is_terminal:
            self._prepare_terminal()
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

    def _prepare_terminal(self) -> None:
        import readline

        words = [*self._commands, *self._session.network.hosts, *self._session.network.switches]

        def complete(text: str, state: int) -> str | None:
            fitting = [word + " " for word in words if word.startswith(text)]
            return fitting[state] if state < len(fitting) else None

        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")
        print("type help for the commands, exit (or Ctrl-D) to take everything down")

    def _read(self) -> str | None:
        """Return the next line, None at the end of input."""
        sys.stdout.flush()
        if not self._is_terminal:
            line = sys.stdin.readline()
            if not line:
                return None
            print(PROMPT + line.strip(), flush=True)
            return line.strip()
        try:
            return input(PROMPT).strip()
        except EOFError:
            print()
            return None

    def _do(self, line: str) -> bool:
        """Run one command line; say whether it worked."""
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            return True
        try:
            if word not in self._commands:
                raise CommandError(f"no command {word!r}: try help")
            self._commands[word][2](rest.strip())
        except Exception as error:
            from emulation.session import explain

            shown = explain(self._session, error)
            if shown is not error:
                raise shown from error
            console.error(str(error) or type(error).__name__, getattr(error, "remedy", ""))
            return False
        return True

    def _pingall(self, rest: str) -> None:
        from emulation import proofs
        from emulation.errors import TrafficError

        _no_arguments("pingall", rest)
        row = proofs.all_pairs_ping(self._session)
        print(row.result)
        if not row.ok:
            raise TrafficError("not every ping was answered")

    def _exec(self, rest: str) -> None:
        name, _, command = rest.partition(" ")
        hosts = {host.name: host for host in self._session.network.live_hosts()}
        if name not in hosts or not command.strip():
            raise CommandError(f"exec HOST COMMAND, with a host of {', '.join(hosts)}")
        sys.stdout.flush()
        child = subprocess.Popen(
            hosts[name].command(["sh", "-c", command]),
            stdin=None if self._is_terminal else subprocess.DEVNULL,
        )
        try:
            code = child.wait()
        except KeyboardInterrupt:
            # The terminal has told the child too: it ends by itself, or is made to.
            try:
                child.wait(_CHILD_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise
        if code != 0:
            raise CommandError(f"exit code {code}")

    def _counters(self, rest: str) -> None:
        from emulation import proofs
        from weft.run_topo import print_counters

        _no_arguments("counters", rest)
        print_counters(self._session, proofs.read_counters(self._session))

    def _tables(self, rest: str) -> None:
        switches = self._session.network.switches
        if rest not in switches:
            raise CommandError(f"tables SWITCH, with one of {', '.join(switches)}")
        console.table(
            ["table", "key", "action", "priority"],
            [
                [row.table, row.key, row.action, str(row.priority or "")]
                for row in self._session.controller.read_table(rest)
            ],
            title=f"tables of {rest}, over P4Runtime",
        )

    def _help(self, rest: str) -> None:
        _no_arguments("help", rest)
        width = max(len(f"{name} {given}") for name, (given, _, _) in self._commands.items())
        for name, (given, text, _) in self._commands.items():
            print(f"  {f'{name} {given}':{width}}  {text}")

    def _exit(self, rest: str) -> None:
        _no_arguments("exit", rest)
        self._ends = True


def _no_arguments(command: str, rest: str) -> None:
    if rest:
        raise CommandError(f"{command} takes no arguments")
