"""Arguments of the commands that look at results and at configurations: plot and lint."""

from __future__ import annotations

from pathlib import Path

from weft.cli_arguments import Add, add_json, add_preprocessor

PLOTS = ("queues", "links", "flows", "rates", "jobs", "pauses")


def add_commands(add: Add) -> None:
    """Add them; `add` is `weft.cli`'s, with the subparsers given."""
    _add_plot(add)
    _add_lint(add)


def _add_plot(add: Add) -> None:
    command = add(
        "plot",
        "weft.plot:run",
        "draw figures from the results of a simulation",
        "  weft plot build/sim/incast-32                         all there is, into that folder\n"
        "  weft plot build/sim/incast-32 --what queues -o queues.svg\n"
        "  weft plot build/sim/incast-32 -o incast.png           incast-queues.png and so on\n",
    )
    command.add_argument("result", type=Path, metavar="DIR", help="what weft sim --out wrote")
    command.add_argument(
        "-o", dest="out", type=Path, metavar="FILE",
        help="where the figure goes: .png, .svg or .pdf (default: DIR/WHAT.png)",
    )  # fmt: skip
    command.add_argument("--what", choices=PLOTS, help="one topic (default: all that has data)")
    add_json(command)


def _add_lint(add: Add) -> None:
    command = add(
        "lint",
        "weft.lint:run",
        "check programs, topologies and run files for what goes wrong only when it runs",
        "  weft lint p4src/fabric.p4           registers that threads would tear\n"
        "  weft lint my/net.yaml               class map against what the program really does\n"
        "  weft lint incast-32 --strict        a run: buffer, ECN, headroom; warnings fail too\n"
        "  weft lint my/net.yaml --p4 my/fabric.p4\n",
    )
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="a .p4, BMv2 .json, topology or run file, or name"
    )
    command.add_argument(
        "--p4", type=Path, metavar="PROG.p4",
        help="check class maps against this program (default: p4src/fabric.p4)",
    )  # fmt: skip
    add_preprocessor(command)
    command.add_argument("--strict", action="store_true", help="warnings fail too")
    add_json(command)
