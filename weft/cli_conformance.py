"""Arguments of `weft conformance`."""

from __future__ import annotations

import os
from pathlib import Path

from weft.cli_arguments import Add, add_json


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "conformance",
        "compat.commands.conformance:run",
        "p4c's own test programs and packets through our compiler and switch, beside p4c",
        "  weft conformance P4C                     P4C is a checkout of p4c, or its testdata\n"
        "  weft conformance P4C --report docs/CONFORMANCE.md\n"
        "  weft conformance P4C --no-stf --require refusals=90%,unsupported=5%,crashes=0\n"
        "  weft conformance P4C --pairings          packets on each compiler and switch\n"
        "\nWith p4c-bm2-ss on PATH, programs for v1model are compared with what it says now;\n"
        "without, with the outputs that p4c keeps beside its tests.\n"
        "\nexit codes: 0 nothing is worse than required, 1 something is, 2 wrong arguments\n",
    )
    command.add_argument("testdata", type=Path, metavar="P4C")
    command.add_argument(
        "--report", type=Path, metavar="FILE", help="write the results as Markdown"
    )
    command.add_argument(
        "--require", metavar="NAME=LIMIT,...", default="",
        help="limits: stf (tests passed, at least); refusals, refusals-json (without P4Info; only "
        "with p4c-bm2-ss on PATH), core-refusals, p4info, warnings-precision, warnings-recall "
        "(at least N%%); unsupported (at most N%%); crashes (at most)",
    )  # fmt: skip
    command.add_argument(
        "--outputs", action="store_true", help="compare with p4c's outputs though it is on PATH"
    )
    stf = command.add_mutually_exclusive_group()
    stf.add_argument("--no-stf", action="store_true", help="leave the packets out")
    stf.add_argument(
        "--pairings", action="store_true",
        help="packets with each of {weft, p4c} x {softswitch, bmv2} that is on PATH",
    )  # fmt: skip
    command.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
        help="so many programs at once (default: the cores, %(default)s)",
    )  # fmt: skip
    add_json(command)
