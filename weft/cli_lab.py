"""Arguments of `weft lab`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]

_RUNTIMES = ("simulator", "softswitch", "bmv2")


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "lab",
        "weft.lab:run",
        "list the labs, or run one: all its variants, its checks and its report",
        "  weft lab list\n"
        "  weft lab run cnp-by-hand                    in virtual time; results/cnp-by-hand\n"
        "  sudo weft lab run cnp-by-hand --runtime softswitch      in real time\n"
        "  weft lab run NAME --quick --json            some variants, for a first look or CI\n"
        "  weft lab run NAME --variant A --seeds 1,2 --out my/results\n"
        "\nexit codes: 0 all checks passed, 1 a check or a run failed, 2 wrong input, "
        "3 the runtime is not on this machine\n",
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the labs")
    _add_labs(listing)
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    listing.set_defaults(handler="weft.lab:show_list")
    _add_run(actions.add_parser("run", help="run a lab"))


def _add_run(command: argparse.ArgumentParser) -> None:
    command.set_defaults(handler="weft.lab:run_lab")
    command.add_argument("name", metavar="NAME", help="a name that `weft lab list` shows")
    command.add_argument(
        "--runtime", metavar="R", default="simulator",
        help=f"one of {', '.join(_RUNTIMES)} (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--variant", action="append", default=[], metavar="V",
        help="only this variant (may be given again)",
    )  # fmt: skip
    command.add_argument(
        "--seeds", metavar="N,...", help="run each variant with these (default: the lab's)"
    )
    command.add_argument(
        "--quick", action="store_true", help="only the variants that the lab marks as quick"
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: results/NAME)"
    )
    command.add_argument(
        "--p4", type=Path, metavar="PROG.p4", help="run another program than the lab's"
    )
    command.add_argument(
        "--workers", type=int, metavar="N",
        help="simulations at the same time (default: as many as there are processors)",
    )  # fmt: skip
    _add_labs(command)
    command.add_argument("--json", action="store_true", help="print results.json")


def _add_labs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--labs", type=Path, metavar="DIR",
        help="look for labs in DIR/*/lab.yaml (default: those of Weft)",
    )  # fmt: skip
