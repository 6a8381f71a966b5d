"""Tables read one column at a time: Parquet files, pandas or Arrow tables."""

from __future__ import annotations

import abc
import glob
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tft_keras.errors import InputError, nearest

_CHUNK_ROWS = 1 << 18


class Table(abc.ABC):
    """Named columns of equal length that can be read one by one, in chunks.

    Attributes:
        columns: type of each column. A column that is all null in one file has its type from
            another one.
        rows: number of rows.
        fingerprint: JSON value that changes when the data do; None for a table in memory.
    """

    columns: dict[str, pa.DataType]
    rows: int
    fingerprint: list[Any] | None = None

    @abc.abstractmethod
    def chunks(self, column: str) -> Iterator[pa.Array]:
        """Yields the column's values from the first row to the last."""

    @abc.abstractmethod
    def types(self, column: str) -> list[pa.DataType]:
        """Returns every type that the column has in some part of the table."""


class ArrowTable(Table):
    """An Arrow table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = dict(zip(table.schema.names, table.schema.types, strict=True))
        self.rows = table.num_rows

    def chunks(self, column: str) -> Iterator[pa.Array]:
        yield from self._table.column(column).chunks

    def types(self, column: str) -> list[pa.DataType]:
        return [self.columns[column]]


class ParquetTable(Table):
    """Parquet files with the same columns, in any column order, read as one table.

    Args:
        paths: the files, in the order of their rows.

    Raises:
        InputError: a file is not a Parquet file.
    """

    def __init__(self, paths: list[pathlib.Path]) -> None:
        self._paths = paths
        self._schemas: list[pa.Schema] = []
        self.columns = {}
        self.rows = 0
        self.fingerprint = []
        for path in paths:
            with _open(path) as file:
                self._schemas.append(file.schema_arrow)
                self.rows += file.metadata.num_rows
            status = path.stat()
            self.fingerprint.append([str(path.resolve()), status.st_size, status.st_mtime_ns])
        for schema in self._schemas:
            for field in schema:
                if pa.types.is_null(self.columns.get(field.name, pa.null())):
                    self.columns[field.name] = field.type

    def chunks(self, column: str) -> Iterator[pa.Array]:
        for path, schema in zip(self._paths, self._schemas, strict=True):
            if column not in schema.names:
                raise InputError(
                    f"Every file must have the same columns. Received: no {column!r} in "
                    f"{path}.{nearest(column, schema.names)} It has: {', '.join(schema.names)}."
                )
            with _open(path) as file:
                for batch in file.iter_batches(batch_size=_CHUNK_ROWS, columns=[column]):
                    yield batch.column(0)

    def types(self, column: str) -> list[pa.DataType]:
        found = [schema.field(column).type for schema in self._schemas if column in schema.names]
        filled = [type_ for type_ in found if not pa.types.is_null(type_)]
        return list(dict.fromkeys(filled or found))


def _open(path: pathlib.Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"The table must be in Parquet files. Received: {path} ({error}). Write a CSV file as "
            "Parquet with `pandas.read_csv(...).to_parquet(...)`."
        ) from error


def open_table(source: Any) -> Table:
    """Opens a table without reading its rows.

    Args:
        source: path of a Parquet file, a folder of them, or a glob; a pandas or Arrow table, or
            any other that speaks Arrow's stream interface.

    Raises:
        InputError: there is no such file, or it is not a table.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, os.PathLike)):
        table: Table = ParquetTable(_find(str(source)))
    elif isinstance(source, pa.Table):
        table = ArrowTable(source)
    elif type(source).__module__.partition(".")[0] == "pandas":
        table = ArrowTable(_from_pandas(source))
    elif hasattr(source, "__arrow_c_stream__"):
        table = ArrowTable(pa.table(source))
    else:
        raise InputError(
            "A table is a path, a pandas or an Arrow table. "
            f"Received: {type(source).__name__}. Convert it to one of these."
        )
    if not table.rows:
        raise InputError(f"The table must have rows. Received: 0 rows in {source!r:.200}.")
    return table


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"Each column must hold values of one type. Received: {error}. Convert that column."
        ) from error


def _find(source: str) -> list[pathlib.Path]:
    path = pathlib.Path(source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = [p for p in path.rglob("*.parquet") if p.is_file() and _is_visible(p, path)]
    else:
        found = [pathlib.Path(name) for name in _glob(path)]
        found = [p for p in found if p.is_file()]
    if not found:
        raise InputError(
            "The table must be a Parquet file, a folder of them or a glob that matches some. "
            f"Received: {source}.{_neighbours(path)}"
        )
    return sorted(found, key=_natural)


def _glob(pattern: pathlib.Path) -> list[str]:
    # Path.glob refuses absolute patterns.
    return glob.glob(str(pattern), recursive=True)  # noqa: PTH207


def _is_visible(path: pathlib.Path, root: pathlib.Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)


def _neighbours(path: pathlib.Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent}."
    return nearest(path.name, names)


def _natural(path: pathlib.Path) -> list[tuple[int, str]]:
    """Sorts `part-2` before `part-10`."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))
    ]
