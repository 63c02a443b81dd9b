"""`weft plot`: figures from results of runs, one or several beside each other, and from sweeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from experiments.figures.axes import NothingToPlotError
from experiments.figures.choice import Choice
from experiments.figures.swept import Sweep, draw_sweep, is_sweep, sweep_rows
from experiments.sweep_result import FIGURE
from observe.errors import UsageError
from simulator.result_model import ResultError
from simulator.result_reader import ResultFolder
from weft import console
from weft.command_line import argument, as_json, command, flag, option
from weft.plot_figures import TOPICS, draw, follows, has_something

ENDINGS = (".png", ".svg", ".pdf")
COMPARISONS = Path("build/plot")
"""Where figures of several results go."""


@command("""
    examples:
      weft plot build/sim/incast-32                         all there is, into that folder
      weft plot build/sim/incast-32 --what queues -o queues.svg
      weft plot build/sim/incast-32 -o incast.png           incast-queues.png and so on
      weft plot build/sim/a build/sim/b --what fct          several results in one figure
      weft plot build/sim/incast-32 --flows 'h2>h1,h3>h1' --window 1ms..2ms
      weft plot build/sweep/two-flows --metric fct_p99      a sweep: a metric by what was varied
      weft plot build/sweep/two-flows --list                its runs, as a table
    """)
@argument("results", type=Path, metavar="DIR...", nargs=-1, required=True,
          help="what weft sim --out or weft sweep --out wrote; several are compared")  # fmt: skip
@option("-o", "out", type=Path, metavar="FILE",
        help="where the figure goes: .png, .svg or .pdf (default: DIR/WHAT.png; of several "
        "results build/plot/WHAT.png)")  # fmt: skip
@option("--what", type=click.Choice(list(TOPICS)), help="one topic (default: all that has data)")
@option("--flows", metavar="SRC>DST,...",
        help="these flows alone, such as 'h1>h3', '*>h3' or a flow's number")  # fmt: skip
@option("--ports", metavar="NODE:PORT,...", help="these ports alone, such as s1:2 or h3")
@option("--window", metavar="FROM..TO", help="this time alone, such as 100us..300us")
@option("--metric", multiple=True, metavar="NAME",
        help="of a sweep: draw this, such as fct_p99 (may be given again)")  # fmt: skip
@option("--along", metavar="PATH",
        help="of a sweep: what is on the axis (default: what has most values)")  # fmt: skip
@flag("--list", "listing", help="of a sweep: list its runs")
@as_json
def run(
    results: tuple[Path, ...], out: Path | None, what: str | None, flows: str | None,
    ports: str | None, window: str | None, metric: tuple[str, ...], along: str | None,
    listing: bool, as_json: bool,
) -> int:  # fmt: skip
    """Draw one topic, or all that the results have something of; returns the exit code.

    Prints the files that it wrote. Raises ResultError, UsageError.
    """
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError(f"plot -o {out}: it must end in one of {', '.join(ENDINGS)}")
    choice = Choice.of(flows, ports, window)
    if any(is_sweep(path) for path in results):
        if len(results) > 1:
            raise UsageError("plot: a sweep is drawn alone: give one folder of a sweep")
        if what is not None or choice.options:
            given = "what" if what is not None else min(choice.options)
            raise UsageError(f"plot --{given}: {results[0]} is a sweep: choose with --metric")
        return _sweep(Sweep.read(results[0]), out, metric, along, listing, as_json)
    if metric or along is not None or listing:
        option = "metric" if metric else "along" if along is not None else "list"
        raise UsageError(f"plot --{option}: {results[0]} is no sweep's folder")
    folders = [ResultFolder(path) for path in results]
    if len(folders) == 1:
        [folder] = folders
        topics = _topics(list(TOPICS), folders, what, choice)
        caption = folder.caption
        paths = [_named(out, folder.path, topic, alone=what is not None) for topic in topics]
        written = _drawn(topics, paths, what, lambda t, p: draw(folder, t, p, choice), as_json)
    else:
        # Here, so that using one name of `weft` does not load what the others need.
        from experiments.figures.compare import COMPARED, MOST_RESULTS, compare
        from experiments.figures.compare import caption as of_several

        if len(folders) > MOST_RESULTS:
            message = f"{len(folders)} results can't be told apart: at most {MOST_RESULTS}"
            raise UsageError(f"plot: {message}")
        if what is not None and what not in COMPARED:
            message = f"draws one result; several are compared by {', '.join(COMPARED)}"
            raise UsageError(f"plot --what {what}: {message}")
        topics = _topics(list(COMPARED), folders, what, choice)
        caption = of_several(folders)
        if out is None:
            COMPARISONS.mkdir(parents=True, exist_ok=True)
        paths = [_named(out, COMPARISONS, topic, alone=what is not None) for topic in topics]
        written = _drawn(topics, paths, what, lambda t, p: compare(folders, t, p, choice), as_json)
    if not written:
        if choice.options or len(folders) > 1:
            raise ResultError("plot: nothing of what was chosen is in all of these results")
        raise ResultError(
            f"{folders[0].path}: nothing to plot: the run ended before anything happened",
            "give it more time (--until) or traffic",
        )
    if as_json:
        print(json.dumps({"files": written, "about": caption}))
    return 0


def _topics(
    offered: Sequence[str], folders: Sequence[ResultFolder], what: str | None, choice: Choice
) -> list[str]:
    """Return what is drawn: the topic asked for, or all that have data and follow the choice."""
    for folder in folders:  # names that are not there are mistakes, whatever is drawn
        choice.flow_numbers(folder)
        choice.endpoints(folder)
    if what is None:
        return [
            topic
            for topic in offered
            if follows(topic, choice) and all(has_something(folder, topic) for folder in folders)
        ]
    if not follows(what, choice):
        options = ", ".join(f"--{name}" for name in sorted(choice.options))
        fit = [topic for topic in offered if follows(topic, choice)]
        remedy = f"these draw by {options}: {', '.join(fit)}" if fit else f"drop one of {options}"
        raise UsageError(f"plot --what {what} can't be drawn by {options}: {remedy}")
    return [what]


def _drawn(
    topics: Sequence[str],
    paths: Sequence[Path],
    asked: str | None,
    drawing: Callable[[str, Path], None],
    quiet: bool,
) -> list[str]:
    """Draw each topic, and print its file; returns the files."""
    written = []
    for topic, path in zip(topics, paths, strict=True):
        try:
            drawing(topic, path)
        except NothingToPlotError:
            # Samples may be there and all be zero; only who asked for the topic wants to know.
            if asked is not None:
                raise
            continue
        written.append(str(path))
        if not quiet:
            print(path)
    return written


def _named(out: Path | None, folder: Path, what: str, *, alone: bool) -> Path:
    if out is None:
        return folder / f"{what}.png"
    return out if alone else out.with_stem(f"{out.stem}-{what}")


def _sweep(
    sweep: Sweep,
    out: Path | None,
    metrics: Sequence[str],
    along: str | None,
    listing: bool,
    as_json: bool,
) -> int:
    """Draw a sweep, or list its runs."""
    if listing:
        heads, rows = sweep_rows(sweep, metrics)
        if as_json:
            print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows]))
        else:
            console.table(heads, rows, title=str(sweep.path), caption=sweep.caption())
        return 0
    path = out or sweep.path / FIGURE
    draw_sweep(sweep, path, metrics, along)
    print(json.dumps({"files": [str(path)], "about": sweep.caption()}) if as_json else path)
    return 0
