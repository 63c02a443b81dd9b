"""Arguments of `weft grade`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "grade",
        "weft.grade:run",
        "judge a P4 program that was written for a lab: marks, and the reason for each missing one",
        "  weft grade cnp-by-hand --p4 my_cnp.p4\n"
        "  weft grade cnp-by-hand --p4 my_cnp.p4 --seed 7    the same packets as another time\n"
        "  weft grade cnp-by-hand --p4 my_cnp.p4 --json      for a program to read\n"
        "  weft grade cnp-by-hand --reference                what the lab's own answer gets\n"
        "\nexit codes: 0 full marks, 1 not all of them, 2 wrong arguments\n",
    )
    command.add_argument("lab", metavar="LAB", help="the lab; `weft lab list` shows them")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--p4", type=Path, metavar="FILE", help="the program to judge")
    what.add_argument(
        "--reference", action="store_true", help="judge the reference: starter.p4 and its diff"
    )
    command.add_argument(
        "--seed", type=int, metavar="N",
        help="addresses, lengths and numbers come from it (default: another one each time)",
    )  # fmt: skip
    command.add_argument(
        "--all", action="store_true", help="show what was right, too, field by field"
    )
    command.add_argument("--labs", type=Path, metavar="DIR", help="where the labs' folders are")
    command.add_argument("--json", action="store_true", help="print the result as JSON")
