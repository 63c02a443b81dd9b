"""Arguments of `weft drop-in`."""

from __future__ import annotations

from pathlib import Path

from weft.cli_arguments import Add


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "drop-in",
        "compat.dropin.drop_in:run",
        "make p4c-bm2-ss, p4c, simple_switch_grpc, simple_switch and simple_switch_CLI of this "
        "installation, for others' scripts",
        '  eval "$(weft drop-in ~/weft-bin)"             then they are first on PATH\n'
        "  weft drop-in ~/weft-bin --python              python3 and ptf too, with all that the\n"
        "                                                scripts of p4lang/tutorials import\n",
    )
    command.add_argument(
        "directory", type=Path, metavar="DIR", help="the folder; made if it is not there"
    )
    command.add_argument(
        "--python",
        action="store_true",
        help="add python3 and ptf with the modules that p4lang's scripts import",
    )
