"""Tables read one column at a time: Parquet files anywhere, pandas, polars or Arrow tables."""

from __future__ import annotations

import abc
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tft_keras.data.files import Files, find_files
from tft_keras.errors import InputError, nearest

_CHUNK_ROWS = 1 << 18
# More would be read ahead than a column needs.
_CHUNKS_AHEAD = 2


class Table(abc.ABC):
    """Named columns of equal length that can be read one by one, in chunks.

    Attributes:
        columns: type of each column. A column that is all null in one file has its type from
            another one.
        rows: number of rows.
        repeated: names that more than one column has, which therefore name none.
        fingerprint: JSON value that changes when the data do; None for a table in memory.
    """

    columns: dict[str, pa.DataType]
    rows: int
    repeated: frozenset[str] = frozenset()
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
        self.repeated = _repeated(table.schema)
        self.columns = dict(zip(table.schema.names, table.schema.types, strict=True))
        self.rows = table.num_rows

    def chunks(self, column: str) -> Iterator[pa.Array]:
        yield from self._table.column(column).chunks

    def types(self, column: str) -> list[pa.DataType]:
        return [self.columns[column]]


class ParquetTable(Table):
    """Parquet files with the same columns, in any column order, read as one table.

    Folders named `column=value` (hive partitions) are columns, too: of whole numbers where all
    values are written as such, else of text.

    Args:
        files: in the order of their rows.

    Raises:
        InputError: a file is not a Parquet file.
    """

    def __init__(self, files: Files) -> None:
        # Loads pandas where it is installed, which a command's help need not wait for.
        import pyarrow.dataset as ds

        self._files = files
        self._fragments = []
        self._schemas: list[pa.Schema] = []
        self._rows: list[int] = []
        self.columns = {}
        for path in files.paths:
            fragment = ds.ParquetFileFormat().make_fragment(path, filesystem=files.system)
            try:
                self._schemas.append(fragment.physical_schema)
                self._rows.append(fragment.metadata.num_rows)
            except (pa.ArrowException, OSError) as error:
                raise InputError(
                    f"The table must be in Parquet files. Received: {path} ({error}). Write a CSV "
                    "file as Parquet with `pandas.read_csv(...).to_parquet(...)`."
                ) from error
            self._fragments.append(fragment)
        self.rows = sum(self._rows)
        self.repeated = frozenset().union(*map(_repeated, self._schemas))
        self.fingerprint = files.fingerprint
        for schema in self._schemas:
            for field in schema:
                if pa.types.is_null(self.columns.get(field.name, pa.null())):
                    self.columns[field.name] = field.type
        self._partitions = {
            name: values
            for name, values in _partition_columns(files).items()
            if name not in self.columns
        }
        self.columns |= {name: values.type for name, values in self._partitions.items()}

    def chunks(self, column: str) -> Iterator[pa.Array]:
        if column in self._partitions:
            values = self._partitions[column]
            for place, rows in enumerate(self._rows):
                yield pa.repeat(values[place], rows)
            return
        for path, fragment, schema in zip(
            self._files.paths, self._fragments, self._schemas, strict=True
        ):
            if column not in schema.names:
                raise InputError(
                    f"Every file must have the same columns. Received: no {column!r} in "
                    f"{path}.{nearest(column, schema.names)} It has: {', '.join(schema.names)}."
                )
            batches = fragment.to_batches(
                columns=[column], batch_size=_CHUNK_ROWS, batch_readahead=_CHUNKS_AHEAD
            )
            for batch in batches:
                yield batch.column(0)

    def types(self, column: str) -> list[pa.DataType]:
        if column in self._partitions:
            return [self.columns[column]]
        found = [schema.field(column).type for schema in self._schemas if column in schema.names]
        filled = [type_ for type_ in found if not pa.types.is_null(type_)]
        return list(dict.fromkeys(filled or found))


def open_table(source: Any) -> Table:
    """Opens a table without reading its rows.

    Args:
        source: path or address (`s3://...`, anything that fsspec knows) of a Parquet file, a folder
            of them, or a glob; a pandas or Arrow table, or any other that speaks Arrow's stream
            interface, such as polars.

    Raises:
        InputError: there is no such file, or it is not a table.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, os.PathLike)):
        table: Table = ParquetTable(find_files(os.fspath(source)))
    else:
        table = ArrowTable(_in_memory(source))
    if not table.rows:
        raise InputError(f"The table must have rows. Received: 0 rows in {source!r:.200}.")
    return table


def _in_memory(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    try:
        if type(source).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(source)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            "Each column must have its own name and hold values of one type. "
            f"Received: {error}. Rename or convert that column."
        ) from error
    raise InputError(
        "A table is a path, a pandas or an Arrow table. "
        f"Received: {type(source).__name__}. Convert it to one of these."
    )


def _repeated(schema: pa.Schema) -> frozenset[str]:
    return frozenset(name for name, count in Counter(schema.names).items() if count > 1)


def _partition_columns(files: Files) -> dict[str, pa.Array]:
    """Returns the value that each folder `column=value` gives to each file, by column."""
    folders = [path.split("/")[:-1] for path in files.below_root]
    names = {part.partition("=")[0]: None for parts in folders for part in parts if "=" in part}
    if not names:
        return {}
    import pyarrow.dataset as ds

    texts = ds.HivePartitioning(pa.schema([(name, pa.string()) for name in names]))
    found = [ds.get_partition_keys(texts.parse("/".join(parts) + "/")) for parts in folders]
    columns = {}
    for name in names:
        values = [keys.get(name) for keys in found]
        given = [value for value in values if value is not None]
        # "01" and "1" are two values: only numbers written in the one usual way are numbers.
        if given and all(value.isdecimal() and str(int(value)) == value for value in given):
            values = [None if value is None else int(value) for value in values]
        columns[name] = pa.array(values, pa.int64() if _are_int64(values) else pa.string())
    return columns


def _are_int64(values: list[Any]) -> bool:
    numbers = [value for value in values if value is not None]
    return all(isinstance(value, int) and value < 2**63 for value in numbers) and bool(numbers)
