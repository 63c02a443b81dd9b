"""Arguments of the commands that act on a run that is up, and of what its prompt needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli_arguments import Add


def add_commands(add: Add) -> None:
    """Add them; `add` is `weft.cli`'s, with the subparsers given."""
    _add_agent(add)
    _add_exec(add)
    _add_link(add)
    _add_reload(add)
    add(
        "setup-p4rt-shell",
        "weft.p4rt_shell:setup",
        "install p4runtime-shell, which the prompt's `p4rt-shell` starts",
        "  weft setup-p4rt-shell\n",
    )


def _add_agent(add: Add) -> None:
    command = add(
        "agent",
        "weft.agent:run",
        "show live what the hosts' eBPF keeps of every RoCE queue pair: rate, alpha, CNPs",
        "  sudo weft agent                  all queue pairs, until Ctrl-C\n"
        "  sudo weft agent h1 --once --json\n"
        "  sudo weft agent --restart        load the program anew; state and traffic go on\n",
    )
    command.add_argument("only", nargs="*", metavar="HOST", help="hosts; default: all")
    command.add_argument(
        "--interval", default="1s", metavar="T", help="time between looks (default: %(default)s)"
    )
    command.add_argument("--once", action="store_true", help="one look")
    command.add_argument("--json", action="store_true", help="print each look as JSON, in a line")
    command.add_argument(
        "--restart", action="store_true", help="compile and load the program anew, then end"
    )


def _add_exec(add: Add) -> None:
    command = add(
        "exec",
        "weft.remote:execute",
        "run a command in a host of the run that is up",
        "  sudo weft exec h1 ping 10.0.2.1\n  sudo weft exec h1 sh -c 'ip route; ip neigh'\n",
    )
    command.add_argument("host", metavar="HOST", help="the host")
    command.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the program and its arguments"
    )


def _add_link(add: Add) -> None:
    command = add(
        "link",
        "weft.remote:link",
        "pull a cable of the run that is up, or plug it in again",
        "  sudo weft link s1 s3 down\n  sudo weft link s1:3 s3:1 up\n",
    )
    command.add_argument("ends", nargs=2, metavar="END", help="a node, or a port: s1, s1:3, h1")
    command.add_argument("state", choices=("down", "up"), help="what to do")


def _add_reload(add: Add) -> None:
    command = add(
        "reload",
        "weft.remote:reload",
        "compile a changed P4 program and load it into switches of the run that is up",
        "  sudo weft reload s1\n  sudo weft reload all my/fabric.p4\n",
    )
    command.add_argument("switch", metavar="SWITCH", help="a switch, or all")
    command.add_argument(
        "program", nargs="?", type=Path, metavar="FILE.p4", help="another program than it runs"
    )
