"""Arguments of `weft cli` and `weft lab-files`."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli_arguments import Add, add_json, add_tls, id_number


def add_commands(add: Add) -> None:
    """Add the commands; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "cli",
        "compat.bmv2_cli.main:run",
        "take simple_switch_CLI's commands for a running switch: tables, registers, multicast",
        "  weft cli s1                                a prompt, with completion\n"
        "  weft cli s1 < s1-commands.txt              an old lab's file\n"
        "  weft cli s1 -c 'table_dump ipv4_lpm'       one command\n"
        "  weft cli --grpc 127.0.0.1:9559             any softswitch or simple_switch_grpc\n"
        "  weft cli --thrift-port 9091 < commands.txt a softswitch started with that option\n"
        "  weft cli --grpc 10.0.0.7:9559 --tls-ca ca.pem\n"
        "                                             one with --grpc-server-ssl\n",
    )
    command.add_argument("switch", nargs="?", metavar="SWITCH", help="a switch of the run")
    command.add_argument("--grpc", metavar="HOST:PORT", help="a switch by its P4Runtime address")
    command.add_argument(
        "--thrift-port", type=_tcp_port, metavar="N",
        help="a switch by the --thrift-port that it was started with, as for simple_switch_CLI",
    )  # fmt: skip
    command.add_argument("--thrift-ip", default="127.0.0.1", metavar="HOST", help="its machine")
    command.add_argument("--json", type=Path, metavar="FILE", help="BMv2 JSON to take names from")
    command.add_argument("--pre", help=argparse.SUPPRESS)  # simple_switch_CLI's; there is one kind
    command.add_argument(
        "--device-id", type=id_number, metavar="N",
        help="P4Runtime's device id (default: what the switch says, or 0)",
    )  # fmt: skip
    command.add_argument(
        "--election-id", type=id_number, metavar="N",
        help="take the controller's place with this id (default: write beside it, if the "
        "switch has roles, else with id 1)",
    )  # fmt: skip
    command.add_argument(
        "-c", dest="command", action="append", metavar="COMMAND", help="do this and leave"
    )
    command.add_argument(
        "--strict", action="store_true",
        help="end at the first command that fails, with exit code 1 (default: go on, end with 0)",
    )  # fmt: skip

    add_tls(command)

    check = add(
        "lab-files",
        "compat.dropin.lab_files:run",
        "run every file of simple_switch_CLI's commands in a folder, each with its program",
        "  weft lab-files p4-learning                 what our switch refuses, and why\n"
        "  weft lab-files p4-learning --beside simple_switch_CLI\n"
        "                                             and whether BMv2 prints the same\n"
        "\nexit codes: 0 nothing is refused or differs, 1 something, 2 wrong arguments\n",
    )
    check.add_argument("folder", type=Path, metavar="DIR")
    check.add_argument(
        "--beside", metavar="CLI",
        help="BMv2's own CLI, as a command; simple_switch_grpc has to be on PATH",
    )  # fmt: skip
    add_json(check)


def _tcp_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a TCP port")
    return int(text)
