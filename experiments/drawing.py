"""Figures of labs, in the style of all of Weft's: colours that colour-blind readers distinguish
(Okabe and Ito), units on every axis, and below it what ran where.

    with drawing(out / "queues.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(end="near"), "peak_queue")
    yield Figure(out / "queues.png", "The queue at its longest.")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.api import Table, Variant
from experiments.errors import LabError, NotRunError

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1)), "-", (0, (5, 2)), (0, (1, 1)))
GREY, INK, NOTE = "#9aa5ad", "#37424a", "#5c6770"
WIDTH, HEIGHT = 9.0, 4.6  # inches
DPI = 150


def use_no_screen() -> None:
    """Give matplotlib a backend that needs no screen; a notebook's needs none, and stays."""
    import matplotlib as mpl  # heavy, and only pictures need it

    if "inline" not in (mpl.get_backend(auto_select=False) or ""):
        mpl.use("Agg")


def use_style() -> None:
    """Give matplotlib the style, and a backend that needs no screen."""
    import matplotlib as mpl  # as above

    use_no_screen()
    mpl.rcParams.update(
        {
            "svg.hashsalt": "weft",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.grid": True,
            "grid.color": "#e6eaed",
            "grid.linewidth": 0.7,
            "axes.axisbelow": True,
        }
    )


def where(table: Table) -> str:
    """Say what every figure says: the runtime, the time scale and the seeds."""
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.seed for run in table))
    return f"{table.runtime}, time scale {table.time_scale}, seeds {seeds}"


@contextmanager
def drawing(
    path: Path, note: str = "", *, width: float = WIDTH, height: float = HEIGHT
) -> Iterator[Any]:
    """Give a matplotlib Figure to draw on, and write it to `path` when the block ends.

    `note` stands below it. Raises LabError where it can't be written.
    """
    use_style()
    from matplotlib import pyplot  # heavy, and only pictures need it

    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    try:
        yield figure
        if note:
            figure.supxlabel(note, fontsize=8, color=NOTE, x=0.01, ha="left")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=DPI, metadata=metadata)
    except OSError as error:
        raise LabError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        pyplot.close(figure)


def title(axes: Any, text: str) -> None:
    """Put a title above axes, at the left."""
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=INK)


def bars(
    axes: Any,
    table: Table,
    variants: Sequence[Variant],
    metric: str,
    *,
    beside: bool = False,
    log: bool = False,
    names: Mapping[str, str] | None = None,
    colour: str = COLOURS[0],
) -> None:
    """Draw a bar a variant: the median of a metric, with its 95 % interval.

    `names`: what variants are called here in the place of their titles, by name. `beside`: the
    simulator's values too, below each. A variant in which it never happened says so, with no bar.
    """
    kinds = (False, True) if beside else (False,)
    thickness = 0.76 / len(kinds)
    unit = ""
    for kind, simulated in enumerate(kinds):
        for place, variant in enumerate(variants):
            try:
                found = table.estimate(variant, metric, beside=simulated)
            except NotRunError:
                continue
            unit = found.unit or unit
            at = place + (kind - (len(kinds) - 1) / 2) * thickness
            if found.median is None:
                axes.annotate(
                    "never", (0, at), xycoords=("axes fraction", "data"), xytext=(4, 0),
                    textcoords="offset points", va="center", fontsize=8, color=NOTE,
                )  # fmt: skip
                continue
            whiskers = None
            if found.low is not None and found.high is not None:
                whiskers = [[found.median - found.low], [found.high - found.median]]
            axes.barh(
                at, found.median, height=thickness * 0.92, xerr=whiskers, capsize=3,
                color=GREY if simulated else colour, ecolor=INK, error_kw={"linewidth": 1.1},
                label=_kind(table, simulated) if place == 0 and beside else None,
            )  # fmt: skip
    called = names or {}
    axes.set_yticks(range(len(variants)), [called.get(v.name, v.title) for v in variants])
    axes.set_ylim(len(variants) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{metric.replace('_', ' ')} [{unit}]" if unit else metric.replace("_", " "))
    if log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    if beside:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def lines(axes: Any, series: Mapping[str, tuple[Any, Any]], *, steps: bool = False) -> None:
    """Draw lines, each (x, y) under its label; at most six can be distinguished.

    `steps`: a value holds until the next one. Raises LabError for too many.
    """
    if len(series) > len(COLOURS):
        raise LabError(
            f"{len(series)} lines in one figure can't be told apart: draw {len(COLOURS)}"
        )
    for number, (label, (x, y)) in enumerate(series.items()):
        axes.plot(
            x, y, color=COLOURS[number], linestyle=STYLES[number], linewidth=1.4, label=label,
            drawstyle="steps-post" if steps else "default",
        )  # fmt: skip
    axes.legend(
        fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=2.6
    )
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _kind(table: Table, simulated: bool) -> str:
    return "simulator" if simulated else str(table.runtime)
