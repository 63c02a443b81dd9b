"""Parquet files whose bytes depend on nothing but their rows.

Row groups have a fixed number of rows however the rows came, integers are delta-coded, names are
dictionaries, everything is zstd at one level, and no time, path or host name is written. Missing
numbers are nulls; on the way in they are -1.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GROUP = 1 << 17
_ZSTD_LEVEL = 3
_PAGE_BYTES = 1 << 20

Values = npt.ArrayLike


class Kind(enum.Enum):
    """What a column holds."""

    INTEGER = "int64"
    FLAG = "bool"
    NAME = "string"  # one of `Column.names`, given as its number
    TEXT = "text"  # any string


@dataclass(frozen=True)
class Column:
    """A column. `names` are the strings that a NAME column's numbers stand for."""

    name: str
    kind: Kind = Kind.INTEGER
    names: tuple[str, ...] = ()


def integers(*names: str) -> tuple[Column, ...]:
    """Return integer columns of these names."""
    return tuple(Column(name) for name in names)


class TableWriter:
    """Writes one file, row group by row group; holds at most one group and what was just given."""

    def __init__(
        self, path: Path, columns: Sequence[Column], about: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self.rows = 0
        self._columns = tuple(columns)
        self._pending: list[dict[str, npt.NDArray[Any]]] = []
        self._pending_rows = 0
        self._names = {
            column.name: pa.array(column.names, pa.string())
            for column in columns
            if column.kind is Kind.NAME
        }
        texts = [c.name for c in columns if c.kind in (Kind.NAME, Kind.TEXT)]
        self._schema = pa.schema([(column.name, self._type(column)) for column in columns])
        self._about = {key: about[key] for key in sorted(about)} if about else {}
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            version="2.6",
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=texts,
            column_encoding={
                c.name: "DELTA_BINARY_PACKED" for c in columns if c.kind is Kind.INTEGER
            }
            or None,
            data_page_size=_PAGE_BYTES,
            store_schema=False,
            write_statistics=True,
            write_page_checksum=True,
        )

    @staticmethod
    def _type(column: Column) -> pa.DataType:
        match column.kind:
            case Kind.INTEGER:
                return pa.int64()
            case Kind.FLAG:
                return pa.bool_()
            case Kind.NAME:
                return pa.dictionary(pa.int32(), pa.string())
            case Kind.TEXT:
                return pa.string()

    def append(self, columns: Mapping[str, Values]) -> None:
        """Add rows: for each column equally many values. Raises KeyError for a missing column."""
        arrays = {c.name: np.asarray(columns[c.name], _DTYPES[c.kind]) for c in self._columns}
        lengths = {len(array) for array in arrays.values()}
        if len(lengths) != 1:
            raise ValueError(f"{self.path.name}: columns of {sorted(lengths)} rows")
        (count,) = lengths
        if not count:
            return
        self._pending.append(arrays)
        self._pending_rows += count
        self.rows += count
        if self._pending_rows >= ROWS_PER_GROUP:
            self._write_groups()

    def append_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows given one by one, for tables that are small."""
        self.append({c.name: [row[c.name] for row in rows] for c in self._columns})

    def close(self) -> None:
        """Write what is left, and the file's end."""
        if self._pending_rows:
            self._write_groups()
            if self._pending_rows:
                self._write(self._joined())
        self._pending, self._pending_rows = [], 0
        if self._about:
            self._writer.add_key_value_metadata(self._about)
        self._writer.close()

    def _joined(self) -> dict[str, npt.NDArray[Any]]:
        return {
            c.name: np.concatenate([chunk[c.name] for chunk in self._pending])
            for c in self._columns
        }

    def _write_groups(self) -> None:
        joined, start = self._joined(), 0
        while self._pending_rows - start >= ROWS_PER_GROUP:
            stop = start + ROWS_PER_GROUP
            self._write({name: values[start:stop] for name, values in joined.items()})
            start = stop
        self._pending = [{name: values[start:].copy() for name, values in joined.items()}]
        self._pending_rows -= start

    def _write(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        table = pa.Table.from_arrays(
            [self._array(column, arrays[column.name]) for column in self._columns],
            schema=self._schema,
        )
        self._writer.write_table(table, row_group_size=ROWS_PER_GROUP)

    def _array(self, column: Column, values: npt.NDArray[Any]) -> pa.Array:
        match column.kind:
            case Kind.INTEGER:
                return pa.array(values, pa.int64(), mask=values < 0)
            case Kind.FLAG:
                return pa.array(values, pa.bool_())
            case Kind.NAME:
                codes = pa.array(values, pa.int32(), mask=values < 0)
                return pa.DictionaryArray.from_arrays(codes, self._names[column.name])
            case Kind.TEXT:
                return pa.array(values.tolist(), pa.string())


_DTYPES: dict[Kind, Any] = {
    Kind.INTEGER: np.int64,
    Kind.FLAG: np.bool_,
    Kind.NAME: np.int32,
    Kind.TEXT: np.object_,
}
