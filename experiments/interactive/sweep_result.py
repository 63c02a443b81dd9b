"""What a sweep came to, for notebooks: a table of all runs, medians with intervals, a figure."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.interactive import html
from experiments.interactive.errors import WeftError, plainly
from experiments.interactive.figures import own_style
from experiments.interactive.result import as_pandas
from experiments.interactive.sweep_figure import value_text
from experiments.value_words import show_value

if TYPE_CHECKING:
    import pyarrow as pa

    from experiments import sweep_result
    from experiments.statistics import Estimate
    from experiments.sweep_result import PointResult

_SHOWN_ROWS = 60


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """All runs of a sweep. `raw` is the `experiments.sweep_result.SweepResult` below.

    `shown`: the metrics that were asked for; the table has no others.
    """

    raw: sweep_result.SweepResult
    shown: tuple[str, ...]

    def table(self) -> pa.Table:
        """Return a row for each run: point, seed, parameters, metrics, and why it failed."""
        table = self.raw.table()
        unwanted = [name for name in self.raw.metrics if name not in self.shown]
        return table.drop_columns([name for name in unwanted if name in table.column_names])

    def pandas(self) -> Any:
        """Return `table()` as a pandas.DataFrame. Raises MissingPackageError."""
        return as_pandas(self.table())

    @property
    def points(self) -> tuple[PointResult, ...]:
        """The points: `.parameters`, `.medians` and `.runs` of each."""
        return self.raw.points

    @property
    def best(self) -> PointResult | None:
        """The best point that keeps to every bound; None without a goal, or where there is none."""
        return self.raw.best()

    @plainly
    def estimate(self, metric: str, point: int = 0) -> Estimate:
        """Return a metric's median over the seeds of a point, with its 95 % interval.

        From six seeds on the interval is by ranks, with fewer it assumes a normal distribution.
        Raises WeftError for an unknown metric or point.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from experiments.statistics import Estimate
        from topologies.errors import did_you_mean

        if metric not in self.raw.metrics:
            known = self.raw.metrics
            hint = did_you_mean(metric, known) or f": there is {', '.join(known)}"
            raise WeftError(f"no metric {metric!r} was measured{hint}")
        for each in self.points:
            if each.number == point:
                good = [run.metrics.get(metric) for run in each.runs if not run.failure]
                return Estimate.of(good, self.raw.units[metric])
        raise WeftError(f"no point {point}: they count from 0 to {len(self.raw.spec.points) - 1}")

    @plainly
    def plot(self, metric: str | None = None, *, x: str | None = None) -> html.Picture:
        """Draw a metric (the first one) over a parameter (the first one), with 95 % intervals.

        The other parameters' values are a line each. Raises WeftError for unknown names, and for
        more lines than can be told apart.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from experiments.drawing import drawing
        from experiments.interactive.sweep_figure import draw

        with tempfile.TemporaryDirectory(prefix="weft-plot-") as scratch:
            path = Path(scratch) / "sweep.png"
            with own_style(), drawing(path, self._caption()) as figure:
                draw(self, figure, metric or self.shown[0], x)
            return html.Picture(path.read_bytes(), "png", f"{metric or self.shown[0]} of a sweep")

    @plainly
    def write(self, folder: str | Path) -> Path:
        """Write what `weft sweep --out` writes: results.json, .csv and .parquet, and best.yaml."""
        self.raw.write(folder)
        return Path(folder)

    def _caption(self) -> str:
        seeds = ", ".join(dict.fromkeys(str(run.seed) for run in self.raw.runs))
        return f"runtime simulator, virtual time, time_scale 1, seeds {seeds}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows to look at: a point each, medians and intervals."""
        paths = list(self.raw.spec.parameters)
        rows = []
        for each in self.points[:_SHOWN_ROWS]:
            cells = [value_text(each.parameters.get(path)) for path in paths]
            if each.failures:
                rows.append([*cells, f"FAILED: {each.failures[0].failure}"])
            else:
                rows.append([*cells, *(self._cell(name, each.number) for name in self.shown)])
        columns = [*paths, *self.shown]
        return columns, [[*row, *[""] * (len(columns) - len(row))] for row in rows]

    def _cell(self, metric: str, point: int) -> str:
        found = self.estimate(metric, point)
        ends = [show_value(end, found.unit) for end in (found.low, found.high) if end is not None]
        return show_value(found.median, found.unit) + (f" [{', '.join(ends)}]" if ends else "")

    def _note(self) -> str:
        more = len(self.points) - _SHOWN_ROWS
        rest = f"; {more} more points in .table()" if more > 0 else ""
        return f"median [95 % interval]; {self._caption()}{rest}"

    def __repr__(self) -> str:
        columns, rows = self._cells()
        return html.text([columns, *rows], title=self.raw.spec.name, caption=self._note())

    def _repr_html_(self) -> str:
        columns, rows = self._cells()
        return html.table(columns, rows, title=self.raw.spec.name, caption=self._note())
