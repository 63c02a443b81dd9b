"""Reading a result folder back: each file is checked against the manifest before it is believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.result_model import ResultError
from simulator.results import FORMAT, SUMMARY

_RERUN = "run it again: weft sim FILE --out DIR"


class ResultFolder:
    """A folder that `weft sim --out` wrote. Raises ResultError where it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            what = "is a file" if path.exists() else "is not there"
            raise ResultError(f"{path} {what}", "give the folder that weft sim --out wrote")
        try:
            text = (path / SUMMARY).read_text(encoding="utf-8")
        except FileNotFoundError:
            state = "is empty" if not any(path.iterdir()) else f"has no {SUMMARY}"
            raise ResultError(
                f"{path} {state}: no result, or of a run that did not end", _RERUN
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ResultError(f"{path / SUMMARY} can't be read: {error}", _RERUN) from error
        self.summary = self._parsed(text)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            summary = json.loads(text)
        except ValueError as error:
            raise ResultError(f"{self.path / SUMMARY} is damaged: {error}", _RERUN) from error
        if not isinstance(summary, dict) or "format" not in summary:
            raise ResultError(f"{self.path / SUMMARY} is not a summary of a run", _RERUN)
        if summary["format"] != FORMAT:
            message = f"{self.path} is of result format {summary['format']}, this is {FORMAT}"
            raise ResultError(message, _RERUN)
        for key in ("run", "end", "files", "topology"):
            if not isinstance(summary.get(key), dict):
                raise ResultError(f"{self.path / SUMMARY} is damaged: no {key!r}", _RERUN)
        return summary

    @cached_property
    def caption(self) -> str:
        """What every figure of this result says: runtime, time scale, run, seed, where it ended."""
        run, end = self.summary["run"], self.summary["end"]
        text = (
            f"{self.summary['runtime']}, time scale {self.summary['time_scale']}, "
            f"{run['name']} on {self.summary['topology']['name']}, seed {run['seed']}"
        )
        return f"{text}, interrupted" if end["interrupted"] else text

    @property
    def now_ps(self) -> int:
        """When the run ended."""
        return int(self.summary["end"]["now_ps"])

    @property
    def sample_ps(self) -> int:
        """The time between samples."""
        return int(self.summary["run"]["sample_ps"])

    def has(self, name: str) -> bool:
        """Say whether the run wrote this table; some exist only where they were asked for."""
        return f"{name}.parquet" in self.summary["files"]

    def rows(self, name: str) -> int:
        """Return how many rows a table has. Raises ResultError for one that is not listed."""
        return int(self._entry(name)["rows"])

    def table(
        self, name: str, columns: Sequence[str] | None = None, filters: Any = None
    ) -> pa.Table:
        """Return columns of a table (None: all), after checking the file. Raises ResultError."""
        path = self._checked(name)
        try:
            names = None if columns is None else list(columns)
            return pq.read_table(path, columns=names, filters=filters)
        except (pa.ArrowException, OSError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise ResultError(f"{path} can't be read: {first}", _RERUN) from error

    def _entry(self, name: str) -> dict[str, Any]:
        entry = self.summary["files"].get(f"{name}.parquet")
        if not isinstance(entry, dict) or not {"rows", "sha256"} <= entry.keys():
            raise ResultError(f"{self.path / SUMMARY} lists no {name}.parquet", _RERUN)
        return entry

    def _checked(self, name: str) -> Path:
        path = self.path / f"{name}.parquet"
        if path in self._good:
            return path
        expected = self._entry(name)["sha256"]
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except FileNotFoundError:
            raise ResultError(f"{path} is missing", _RERUN) from None
        except OSError as error:
            raise ResultError(f"{path} can't be read: {error.strerror}", _RERUN) from error
        if digest.hexdigest() != expected:
            message = f"{path} is not the file that the run wrote: its SHA-256 differs"
            raise ResultError(message, _RERUN)
        self._good.add(path)
        return path

    @cached_property
    def _good(self) -> set[Path]:
        return set()
