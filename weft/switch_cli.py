"""`weft cli SWITCH`: simple_switch_CLI's commands on a running switch (docs/switch-cli.md)."""

from __future__ import annotations

import argparse

from emulation import fabric_record
from softswitch.diagnostics import DiagnosticsClient
from weft.errors import UsageError
from weft.switch_cli_connection import Connection, ConnectionFailedError, RefusedError
from weft.switch_cli_ports import PortCommands

INTRO = "Control utility for runtime P4 table manipulation"


class SwitchShell(PortCommands):
    """All commands."""

    def cmdloop(self, intro: str | None = None) -> None:
        """Read commands until the end; Ctrl-C leaves."""
        try:
            super().cmdloop(intro)
        except KeyboardInterrupt:
            self.say()


def run(arguments: argparse.Namespace) -> int:
    """Read commands from standard input or a file until its end; returns the exit code.

    Raises UsageError for a switch that is not there, NoRunError when nothing runs.
    """
    address, device_id = _where(arguments)
    try:
        with (
            Connection(address, device_id, election_id=arguments.election_id) as connection,
            DiagnosticsClient(address) as diagnostics,
        ):
            shell = SwitchShell(connection, diagnostics, strict=arguments.strict)
            if arguments.command:
                for line in arguments.command:
                    if shell.onecmd(line):
                        break
            else:
                shell.cmdloop(INTRO)
    except (ConnectionFailedError, RefusedError) as error:
        raise UsageError(str(error)) from None
    return 1 if arguments.strict and shell.failures else 0


def _where(arguments: argparse.Namespace) -> tuple[str, int]:
    """The address and P4Runtime's device id."""
    if arguments.grpc is not None:
        return arguments.grpc, arguments.device_id or 0
    if arguments.switch is None:
        raise UsageError("say which switch: weft cli s1, or weft cli --grpc HOST:PORT")
    record = fabric_record.running()
    if arguments.switch not in record.addresses:
        names = ", ".join(record.addresses)
        raise UsageError(
            f"there is no switch {arguments.switch!r} in run {record.run}: it has {names}"
        )
    device_id = arguments.device_id or record.topology.switch(arguments.switch).device_id
    return record.addresses[arguments.switch], device_id
