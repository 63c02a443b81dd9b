"""`weft cli SWITCH`: simple_switch_CLI's commands on a running switch (docs/switch-cli.md)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from compat.bmv2_cli.connection import Connection, ConnectionFailedError, RefusedError
from compat.bmv2_cli.program_commands import ProgramCommands
from observe.errors import UsageError
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
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


def run(arguments: argparse.Namespace) -> int:
    """Read commands from standard input or a file until its end; returns the exit code.

    Raises UsageError for a switch that is not there, NoRunError when nothing runs.
    """
    program = _program(arguments.json)
    try:
        address = _address(arguments)
        tls = tls_of(arguments)
        with DiagnosticsClient(address, tls=tls) as diagnostics:
            device_id = _device_id(arguments, diagnostics)
            with Connection(
                address, device_id, election_id=arguments.election_id, tls=tls
            ) as connection:
                shell = SwitchShell(
                    connection, diagnostics, strict=arguments.strict, program=program
                )
                if arguments.command:
                    for line in arguments.command:
                        if shell.onecmd(line):
                            break
                else:
                    shell.cmdloop(INTRO if program else _OBTAINED + INTRO)
    except (ConnectionFailedError, RefusedError) as error:
        raise UsageError(str(error)) from None
    return 1 if arguments.strict and shell.failures else 0


def _address(arguments: argparse.Namespace) -> str:
    """Where the switch listens."""
    given = [
        name
        for name, value in (
            ("SWITCH", arguments.switch),
            ("--grpc", arguments.grpc),
            ("--thrift-port", arguments.thrift_port),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say which switch: give one of them")
    if arguments.grpc is not None:
        return str(arguments.grpc)
    if arguments.thrift_port is not None:
        return f"{arguments.thrift_ip}:{arguments.thrift_port}"
    if arguments.switch is None:
        raise UsageError(
            "say which switch: weft cli s1, weft cli --grpc HOST:PORT or weft cli --thrift-port N"
        )
    from emulation import fabric_record  # imports topologies, which takes its time

    record = fabric_record.running()
    if arguments.switch not in record.addresses:
        names = ", ".join(record.addresses)
        raise UsageError(
            f"there is no switch {arguments.switch!r} in run {record.run}: it has {names}"
        )
    return record.addresses[arguments.switch]


def _device_id(arguments: argparse.Namespace, diagnostics: DiagnosticsClient) -> int:
    """P4Runtime's device id: the one given, else the switch's own word, else 0 (as BMv2's)."""
    if arguments.device_id is not None:
        return int(arguments.device_id)
    try:
        return int(diagnostics.switch_stats()["device_id"])
    except DiagnosticsError as error:
        if error.gone:
            raise ConnectionFailedError(f"{error}{_hint(arguments)}") from None
        return 0


def _hint(arguments: argparse.Namespace) -> str:
    clear = not (arguments.tls_ca or arguments.tls_cert)
    tls = " (one with --grpc-server-ssl wants --tls-ca FILE here)" if clear else ""
    if arguments.thrift_port is None:
        return tls
    return f": a softswitch that was started with --thrift-port {arguments.thrift_port} would{tls}"


def _program(path: Path | None) -> bytes:
    """The JSON of `--json`; raises UsageError."""
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
