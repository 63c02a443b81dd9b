"""`weft plot`: figures from a result folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from observe.errors import UsageError
from simulator.result_model import ResultError
from simulator.result_reader import ResultFolder
from weft.command_line import argument, as_json, command, option
from weft.plot_axes import NothingToPlotError
from weft.plot_figures import TOPICS, draw, has_something

ENDINGS = (".png", ".svg", ".pdf")


@command("""
    examples:
      weft plot build/sim/incast-32                         all there is, into that folder
      weft plot build/sim/incast-32 --what queues -o queues.svg
      weft plot build/sim/incast-32 -o incast.png           incast-queues.png and so on
    """)
@argument("result", type=Path, metavar="DIR", help="a result folder of weft sim")
@option("-o", "out", type=Path, metavar="FILE",
        help="where the figure goes: .png, .svg or .pdf (default: DIR/WHAT.png)")  # fmt: skip
@option("--what", type=click.Choice(list(TOPICS)), help="one topic (default: all that has data)")
@as_json
def run(result: Path, out: Path | None, what: str | None, as_json: bool) -> int:
    """Draw one topic, or all that the result has something of; return the exit code.

    Prints the files that it wrote. Raises ResultError, UsageError.
    """
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError(f"plot -o {out}: it must end in one of {', '.join(ENDINGS)}")
    folder = ResultFolder(result)
    if what is not None:
        files = {what: out or folder.path / f"{what}.png"}
    else:
        there = [topic for topic in TOPICS if has_something(folder, topic)]
        files = {topic: _named(folder.path, out, topic) for topic in there}
    written = []
    for topic, path in files.items():
        try:
            draw(folder, topic, path)
        except NothingToPlotError:
            # Samples may be there and all be zero; only who asked for the topic wants to know.
            if what is not None:
                raise
            continue
        written.append(str(path))
        if not as_json:
            print(path)
    if not written:
        raise ResultError(
            f"{folder.path}: nothing to plot: the run ended before anything happened",
            "give it more time (--until) or traffic",
        )
    if as_json:
        print(json.dumps({"files": written, "about": folder.caption}))
    return 0


def _named(folder: Path, out: Path | None, what: str) -> Path:
    return folder / f"{what}.png" if out is None else out.with_stem(f"{out.stem}-{what}")
