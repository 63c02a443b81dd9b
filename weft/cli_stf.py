"""Arguments of `weft stf`."""

from __future__ import annotations

from pathlib import Path

from weft.cli_arguments import Add, add_json, add_preprocessor


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "stf",
        "compat.commands.stf:run",
        "run a test in p4c's simple test format: packets in, packets expected, digit by digit",
        "  weft stf prog.p4 prog.stf                  on our switch, in virtual time\n"
        "  weft stf prog.p4 prog.stf --target bmv2    on simple_switch_grpc, if it is on PATH\n"
        "  weft stf prog.p4 prog.stf --compiler p4c   as p4c compiles it\n"
        "  weft stf --all testdata/p4_16_samples --report stf.md\n"
        "                                             every *-bmv2.stf there, and a page of it\n"
        "\nexit codes: 0 all is as expected, 1 not all, 2 wrong arguments\n",
    )
    command.add_argument("program", nargs="?", type=Path, metavar="PROGRAM.p4")
    command.add_argument("test", nargs="?", type=Path, metavar="TEST.stf")
    command.add_argument(
        "--target", choices=("softswitch", "bmv2"), default="softswitch",
        help="the switch to run on (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--compiler", choices=("weft", "p4c"), default="weft",
        help="who compiles the program (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--all", type=Path, metavar="DIR", help="run every *-bmv2.stf of DIR with its program"
    )
    command.add_argument(
        "--report", type=Path, metavar="FILE", help="with --all: write the results as Markdown"
    )
    command.add_argument(
        "--jobs", type=int, default=2, metavar="N",
        help="with --all: so many tests at once (default: %(default)s)",
    )  # fmt: skip
    add_preprocessor(command)
    add_json(command)
