"""Arguments of the commands that look at results and at configurations: plot and lint."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]

PLOTS = ("queues", "links", "flows", "jobs", "pauses")


def add_commands(add: Add) -> None:
    """Add them; `add` is `weft.cli`'s, with the subparsers given."""
    _add_plot(add)


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
    command.add_argument("--json", action="store_true", help="print the result as JSON")
