"""`weft cli SWITCH`: simple_switch_CLI's commands on a running switch (docs/switch-cli.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from compat.bmv2_cli.connection import Connection, ConnectionFailedError, RefusedError
from compat.bmv2_cli.program_commands import ProgramCommands
from observe.errors import UsageError
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from weft.command_line import argument, command, flag, option, tls_files
from weft.tls_files import tls_of

INTRO = "Control utility for runtime P4 table manipulation"
_OBTAINED = "Obtaining JSON from switch...\nDone\n"


class SwitchShell(ProgramCommands):
    """All commands."""

    def cmdloop(self, intro: str | None = None) -> None:
        """Read commands of standard input until the end; Ctrl-C leaves. Raises UsageError."""
        try:
            if sys.stdin is None:
                raise UsageError("standard input is closed: give commands there, or with -c")
            if sys.stdin.isatty():
                super().cmdloop(intro)
            else:
                self.read_commands(sys.stdin.fileno(), intro or "")
        except KeyboardInterrupt:
            self.say()


def _id(text: str) -> int:
    """Parse an id of P4Runtime's, of 64 bits."""
    if not text.isdecimal() or not int(text) < 1 << 64:
        raise click.BadParameter(f"{text!r} is not a number from 0 to {(1 << 64) - 1}")
    return int(text)


def _tcp_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise click.BadParameter(f"{text!r} is not a TCP port")
    return int(text)


@command("""
    examples:
      weft cli s1                                a prompt, with completion
      weft cli s1 < s1-commands.txt              an old lab's file
      weft cli s1 -c 'table_dump ipv4_lpm'       one command
      weft cli --grpc 127.0.0.1:9559             any softswitch or simple_switch_grpc
      weft cli --thrift-port 9091 < commands.txt a softswitch started with that option
      weft cli --grpc 10.0.0.7:9559 --tls-ca ca.pem
                                                 one with --grpc-server-ssl
    """)
@argument("switch", required=False, help="a switch of the run")
@option("--grpc", metavar="HOST:PORT", help="address the switch by its P4Runtime address")
@option("--thrift-port", type=_tcp_port, metavar="N", help="address the switch by the "
        "--thrift-port that it was started with, as for simple_switch_CLI")  # fmt: skip
@option("--thrift-ip", default="127.0.0.1", metavar="HOST", help="with --thrift-port: its machine")
@option("--json", "program", type=Path, metavar="FILE", help="BMv2 JSON to take names from")
@option("--pre", hidden=True, expose_value=False)  # simple_switch_CLI's; there is one kind
@option("--device-id", type=_id, metavar="N",
        help="P4Runtime device id (default: the one that the switch reports, or 0)")  # fmt: skip
@option("--election-id", type=_id, metavar="N", help="become primary with this id instead of the "
        "controller (default: write next to it in a role, else with id 1)")  # fmt: skip
@option("-c", "commands", multiple=True, metavar="COMMAND", help="run this command and exit")
@flag("--strict", help="stop at the first command that fails, with exit code 1 "
      "(default: go on, exit with 0)")  # fmt: skip
@tls_files
def run(
    switch: str | None, grpc: str | None, thrift_port: int | None, thrift_ip: str,
    program: Path | None, device_id: int | None, election_id: int | None,
    commands: tuple[str, ...], strict: bool, tls_ca: Path | None, tls_cert: Path | None,
    tls_key: Path | None,
) -> int:  # fmt: skip
    """Read commands from standard input or a file until its end; return the exit code.

    Raises UsageError for a switch that is not there, NoRunError when nothing runs.
    """
    names = _program(program)
    try:
        address = _address(switch, grpc, thrift_ip, thrift_port)
        tls = tls_of(tls_ca, tls_cert, tls_key)
        with DiagnosticsClient(address, tls=tls) as diagnostics:
            if device_id is None:
                clear = tls_ca is None and tls_cert is None
                device_id = _device_id(diagnostics, _hint(thrift_port, clear=clear))
            with Connection(address, device_id, election_id=election_id, tls=tls) as connection:
                shell = SwitchShell(connection, diagnostics, strict=strict, program=names)
                if commands:
                    for line in commands:
                        if shell.onecmd(line):
                            break
                else:
                    shell.cmdloop(INTRO if names else _OBTAINED + INTRO)
    except (ConnectionFailedError, RefusedError) as error:
        raise UsageError(str(error)) from None
    return 1 if strict and shell.failures else 0


def _address(switch: str | None, grpc: str | None, thrift_ip: str, thrift_port: int | None) -> str:
    """Return where the switch listens."""
    ways = {"SWITCH": switch, "--grpc": grpc, "--thrift-port": thrift_port}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say which switch: give one of them")
    if grpc is not None:
        return grpc
    if thrift_port is not None:
        return f"{thrift_ip}:{thrift_port}"
    if switch is None:
        raise UsageError(
            "say which switch: weft cli s1, weft cli --grpc HOST:PORT or weft cli --thrift-port N"
        )
    from emulation import fabric_record  # imports topologies, which takes its time

    record = fabric_record.running()
    if switch not in record.addresses:
        names = ", ".join(record.addresses)
        raise UsageError(f"there is no switch {switch!r} in run {record.run}: it has {names}")
    return record.addresses[switch]


def _device_id(diagnostics: DiagnosticsClient, hint: str) -> int:
    """Return P4Runtime's device id: the one that the switch reports, else 0 (as BMv2's)."""
    try:
        return int(diagnostics.switch_stats()["device_id"])
    except DiagnosticsError as error:
        if error.gone:
            raise ConnectionFailedError(f"{error}{hint}") from None
        return 0


def _hint(thrift_port: int | None, *, clear: bool) -> str:
    tls = " (one with --grpc-server-ssl wants --tls-ca FILE here)" if clear else ""
    if thrift_port is None:
        return tls
    return f": a softswitch that was started with --thrift-port {thrift_port} would{tls}"


def _program(path: Path | None) -> bytes:
    """Read the JSON of `--json`. Raises UsageError."""
    if path is None:
        return b""
    try:
        data = path.read_bytes()
        found = json.loads(data)
    except OSError as error:
        raise UsageError(f"--json {path}: {error.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or "pipelines" not in found:
        raise UsageError(f"--json {path}: is not BMv2 JSON, as p4c or `weft compile` writes it")
    return data
