"""What a simulation came to: its summary, its numbers, its tables as Arrow or pandas."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from experiments.interactive import html
from experiments.interactive.errors import MissingPackageError, WeftError, plainly

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from experiments.sweep_metrics import Ended, Value
    from simulator.result_reader import ResultFolder

_PS_PER_S = 10**12


class TableOf:
    """An attribute that reads the table of its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, result: RunResult | None, owner: type | None = None) -> pa.Table:
        return self if result is None else result.table(self.name)


@dataclass(frozen=True, repr=False, eq=False)
class RunResult:
    """One run in virtual time. Tables are read when they are asked for, and checked first.

    Times are picoseconds (`_ps`), sizes bytes, rates bits a second (`_bps`), ratios millionths
    (`_ppm`), as docs/results.md has them. `folder`: the files; they go with the last reference to
    this result where no `out` was given.
    """

    folder: Path
    summary: Mapping[str, Any]
    rows: Sequence[tuple[str, str]] = ()
    ended: Ended | None = None
    kept: tempfile.TemporaryDirectory[str] | None = field(default=None)

    flows = TableOf()
    messages = TableOf()
    jobs = TableOf()
    queues = TableOf()
    links = TableOf()
    flow_rates = TableOf()
    ports = TableOf()
    hosts = TableOf()
    drops = TableOf()
    pauses = TableOf()
    blocked = TableOf()
    victims = TableOf()
    planes = TableOf()
    paths = TableOf()
    gaps = TableOf()
    imbalance = TableOf()

    @classmethod
    @plainly
    def load(cls, folder: str | Path) -> Self:
        """Read what `weft sim --out` or `simulate(out=...)` wrote. Raises WeftError."""
        # Here, so that using one name of `weft` does not load what the others need.
        from simulator.result_reader import ResultFolder

        read = ResultFolder(Path(folder))
        return cls(read.path, read.summary)

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.summary["run"]["name"])

    @property
    def seed(self) -> int:
        """The seed that it ran with."""
        return int(self.summary["run"]["seed"])

    @property
    def now_ps(self) -> int:
        """The virtual time at which it ended."""
        return int(self.summary["end"]["now_ps"])

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that this run has."""
        files = (Path(name) for name in self.summary["files"])
        return tuple(path.stem for path in files if path.suffix == ".parquet")

    @plainly
    def table(
        self, name: str, columns: Sequence[str] | None = None, filters: Any = None
    ) -> pa.Table:
        """Return a table, or some of its columns. Raises WeftError for one that there is not.

        `filters`: rows to read, as pyarrow takes them, such as [("src", "==", "h1")].
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from topologies.errors import did_you_mean

        if name not in self.tables:
            hint = "" if isinstance(vars(RunResult).get(name), TableOf) else name
            there = did_you_mean(hint, self.tables) or f": there is {', '.join(self.tables)}"
            raise WeftError(f"this run has no table {name!r}{there}")
        return self._files().table(name, columns, filters)

    def pandas(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Return a table as a pandas.DataFrame. Raises MissingPackageError, WeftError."""
        return as_pandas(self.table(name, columns))

    @plainly
    def metric(self, name: str) -> Value:
        """Return one of the numbers that `weft sweep --list-metrics` lists, such as "goodput".

        Bytes, bits a second and picoseconds; None where the run has no such thing. `peak_queue` is
        of one port, too: "peak_queue[s1:3]". Raises WeftError for an unknown name, and for a result
        that was read from files: they do not hold all that metrics are made of.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from experiments.sweep_metrics import measured

        if self.ended is None:
            raise WeftError("metrics are known where the run was simulated; read .summary instead")
        return measured(self.ended, [name])[name]

    def flow_completion_times(self) -> npt.NDArray[np.float64]:
        """Return from when each message could be sent to when it was done, in seconds.

        Those that are not done, and barriers and compute gaps, which carry no bytes, are left out.
        """
        rows = self.table("messages", ["bytes", "completion_ps"])
        return _present(rows, "completion_ps") / _PS_PER_S

    def slowdowns(self) -> npt.NDArray[np.float64]:
        """Return each message's completion time over what it would need in an empty fabric."""
        rows = self.table("messages", ["bytes", "slowdown_ppm"])
        return _present(rows, "slowdown_ppm") / 10**6

    def _files(self) -> ResultFolder:
        # Here, so that using one name of `weft` does not load what the others need.
        from simulator.result_reader import ResultFolder

        return ResultFolder(self.folder)

    def _title(self) -> str:
        return f"{self.name}: {self.summary['run']['description']}".rstrip(": ")

    def _caption(self) -> str:
        return (
            f"runtime {self.summary['runtime']}, virtual time, time_scale "
            f"{self.summary['time_scale']}, seed {self.seed}"
        )

    def _shown(self) -> Sequence[tuple[str, str]]:
        if self.rows:
            return self.rows
        return [(name, f"{self._files().rows(name)} rows") for name in self.tables]

    def __repr__(self) -> str:
        return html.text(self._shown(), title=self._title(), caption=self._caption())

    def _repr_html_(self) -> str:
        columns = ("what", "result")
        return html.table(columns, self._shown(), title=self._title(), caption=self._caption())


def as_pandas(table: pa.Table) -> Any:
    """Return an Arrow table as a pandas.DataFrame. Raises MissingPackageError."""
    try:
        import pandas  # noqa: F401 - pyarrow needs it for this
    except ImportError:
        raise MissingPackageError(
            "pandas is not installed: make setup-notebook installs it with Jupyter; "
            "or .venv/bin/pip install pandas"
        ) from None
    return table.to_pandas()


def _present(rows: pa.Table, column: str) -> npt.NDArray[np.float64]:
    # Here, so that using one name of `weft` does not load what the others need.
    import numpy as np

    values = rows.column(column).to_numpy().astype(np.float64)
    done = (rows.column("bytes").to_numpy() > 0) & ~np.isnan(values)
    found: npt.NDArray[np.float64] = values[done]
    return found
