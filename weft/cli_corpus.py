"""Arguments of `weft corpus`."""

from __future__ import annotations

import math
import os
from pathlib import Path

from weft.cli_arguments import Add, add_json, add_preprocessor


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "corpus",
        "compat.commands.corpus:run",
        "every v1model program of a checkout: does it compile, how fast, as with p4c, same packets",
        "  weft corpus tutorials/exercises           each program below that makes a V1Switch\n"
        "  weft corpus --list fabrics.txt            a line a program: PROG.p4 [-I DIR] [-D NAME]\n"
        "  weft corpus p4-guide --packets 300        generated packets too, as weft parity makes\n"
        "\nWith p4c-bm2-ss on PATH its verdict and P4Info are compared: what p4c accepts has to\n"
        "be accepted, with the same P4Info, within --limit. With --packets, both compilers'\n"
        "programs have to answer alike (docs/parity.md).\n"
        "\nexit codes: 0 all is so, 1 not, 2 wrong arguments or no program\n",
    )
    command.add_argument("directories", type=Path, nargs="*", metavar="DIR")
    command.add_argument(
        "--list", type=Path, metavar="FILE", help="programs, and what each needs to compile"
    )
    add_preprocessor(command)
    command.add_argument(
        "--limit", type=float, default=10.0, metavar="SECONDS",
        help="a program takes no longer from source to machine code (default: %(default)g)",
    )  # fmt: skip
    command.add_argument(
        "--packets", type=int, default=0, metavar="N",
        help="so many generated packets through each program (default: none)",
    )  # fmt: skip
    command.add_argument(
        "--live-packets", type=int, default=0, metavar="N",
        help="so many of them on simple_switch_grpc too, which needs root (default: none)",
    )  # fmt: skip
    command.add_argument(
        "--time-limit", type=float, default=180.0, metavar="SECONDS",
        help="for each program, to compile and again for its packets; then it is ended and "
        "counted as not done (default: %(default)g)",
    )  # fmt: skip
    command.add_argument(
        "--total-time", type=float, default=math.inf, metavar="SECONDS",
        help="for all together; what is not done then is counted as such (default: no limit)",
    )  # fmt: skip
    command.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
        help="so many programs at once (default: the cores, %(default)s)",
    )  # fmt: skip
    add_json(command)
