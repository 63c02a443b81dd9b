"""`weft plot`: figures from a result folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from observe.errors import UsageError

ENDINGS = (".png", ".svg", ".pdf")


def run(arguments: argparse.Namespace) -> int:
    """Draw one topic, or all that the result has something of; returns the exit code.

    Prints the files that it wrote. Raises ResultError, UsageError.
    """
    from simulator.result_model import ResultError
    from simulator.result_reader import ResultFolder
    from weft.plot_figures import TOPICS, NothingToPlotError, draw, has_something

    out: Path | None = arguments.out
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError(f"plot -o {out}: it must end in one of {', '.join(ENDINGS)}")
    folder = ResultFolder(arguments.result)
    if arguments.what is not None:
        files = {arguments.what: out or folder.path / f"{arguments.what}.png"}
    else:
        files = {what: _named(folder.path, out, what) for what in TOPICS}
        files = {what: path for what, path in files.items() if has_something(folder, what)}
    written = []
    for what, path in files.items():
        try:
            draw(folder, what, path)
        except NothingToPlotError:
            # Samples may be there and all be zero; only who asked for the topic wants to know.
            if arguments.what is not None:
                raise
            continue
        written.append(str(path))
        if not arguments.json:
            print(path)
    if not written:
        raise ResultError(
            f"{folder.path}: nothing to plot: the run ended before anything happened",
            "give it more time (--until) or traffic",
        )
    if arguments.json:
        print(json.dumps({"files": written, "about": folder.caption}))
    return 0


def _named(folder: Path, out: Path | None, what: str) -> Path:
    return folder / f"{what}.png" if out is None else out.with_stem(f"{out.stem}-{what}")
