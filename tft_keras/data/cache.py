"""Prepared rows in a memory-mapped Arrow file, for tables larger than memory."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tft_keras import atomic
from tft_keras.config import DataConfig
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.schema import Schema
from tft_keras.data.series import Series
from tft_keras.data.steps import Step
from tft_keras.data.store import ROW_MATRICES, SeriesTable, Store
from tft_keras.data.table import Table
from tft_keras.data.time_columns import TimeColumn
from tft_keras.data.times import TimeAxis

_FORMAT = 3
_CHUNK_BYTES = 1 << 25
_SERIES_ARRAYS = (
    *("offsets", "segments", "validation", "test", "scaling"),
    *("static_real", "static_categorical"),
)


@dataclasses.dataclass(frozen=True)
class Cache:
    """One file: a single Arrow record batch whose columns are the arrays of a `Store`.

    Matrices are columns of fixed-size lists, so that each is one piece of the file, row by row. The
    file's metadata hold the preprocessing and what is one per series.

    Args:
        path: the file.
    """

    path: pathlib.Path

    @classmethod
    def find(
        cls, table: Table, schema: Schema, config: DataConfig, fitted: Preprocessing | None
    ) -> Cache | None:
        """Returns the cache of these files and settings; None if none is wanted or possible.

        The name of the file is made from the source files' names, sizes and times of change, the
        schema, the settings and a preprocessing fitted before, unless it was fitted on these files.
        """
        if config.cache is None or table.fingerprint is None:
            return None
        if fitted:
            own = cls.find(table, schema, config, None)
            loaded = own.load()
            if loaded and _same(loaded[0], fitted):
                return own
        settings = dataclasses.replace(config, cache=None).to_dict()
        content = [_FORMAT, table.fingerprint, schema.to_dict(), settings]
        content.append(dataclasses.replace(fitted, calibration=None).to_dict() if fitted else None)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return cls(pathlib.Path(config.cache).expanduser() / f"prepared_{digest[:16]}.arrow")

    def load(self) -> tuple[Preprocessing, Store] | None:
        """Maps the file; returns None if there is none, or it is not whole."""
        try:
            source = pa.memory_map(str(self.path))
            batch = pa.ipc.open_file(source).get_batch(0)
        except (OSError, pa.ArrowInvalid):
            return None
        metadata = batch.schema.metadata
        described = json.loads(metadata[b"described"])
        preprocessing = Preprocessing.from_dict(described["preprocessing"])
        # The type of the time column is kept as the type of its array.
        type_ = pa.ipc.read_schema(pa.py_buffer(metadata[b"time"])).field(0).type
        step = Step.from_dict(described["step"])
        groups = pa.ipc.open_stream(metadata[b"groups"]).read_all()
        named = Series(groups, [tuple(keys) for keys in described["keys"]])
        with np.load(io.BytesIO(metadata[b"series"])) as arrays:
            axis = TimeAxis(TimeColumn(type_, **described["time"]), step, arrays["holidays"])
            series = SeriesTable(axis, named, **{name: arrays[name] for name in _SERIES_ARRAYS})
        columns = {name: _as_numpy(batch.column(name)) for name in batch.schema.names}
        return preprocessing, Store(series, **columns)

    def write(
        self,
        preprocessing: Callable[[], Preprocessing],
        series: SeriesTable,
        times: np.ndarray,
        target: np.ndarray,
        widths: dict[str, int],
        columns: Iterator[tuple[str, int, np.ndarray]],
    ) -> None:
        """Writes the file with one column and a few rows of all in memory at a time.

        Args:
            preprocessing: returns what was fitted, once the columns have been taken.
            columns: as `encode_columns` yields them.
        """
        rows = len(times)
        types = {"times": pa.int64(), "target": pa.float64()}
        for name, width in widths.items():
            types[name] = pa.list_(pa.from_numpy_dtype(ROW_MATRICES[name]), width)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.path.parent) as staged:
            places = _stage(staged, columns)
            schema = pa.schema(types.items(), metadata=_metadata(preprocessing(), series))
            with atomic.replacing(self.path) as temporary:
                begin = _lay_out_file(temporary, schema, rows)
                with temporary.open("r+b") as file:
                    for name, array in (("times", times), ("target", target)):
                        file.seek(begin[name])
                        array.tofile(file)
                    _write_matrices(file, begin, widths, staged, places, rows)


def _same(cached: Preprocessing, fitted: Preprocessing) -> bool:
    """Whether what was fitted is the same, whatever was chosen or found later."""
    later = {name: getattr(fitted, name) for name in ("config", "season", "calibration")}
    return dataclasses.replace(cached, **later) == fitted


def _metadata(preprocessing: Preprocessing, series: SeriesTable) -> dict[bytes, bytes]:
    axis = series.axis
    time = dataclasses.asdict(axis.column)
    del time["type"]
    described = {
        "preprocessing": preprocessing.to_dict(),
        "keys": series.series.keys,
        "step": axis.step.to_dict(),
        "time": time,
    }
    arrays = io.BytesIO()
    own = {name: getattr(series, name) for name in _SERIES_ARRAYS}
    np.savez(arrays, holidays=axis.holidays, **own)
    groups = pa.BufferOutputStream()
    with pa.ipc.new_stream(groups, series.series.groups.schema) as writer:
        writer.write_table(series.series.groups)
    return {
        b"described": json.dumps(described).encode(),
        b"series": arrays.getvalue(),
        b"groups": groups.getvalue().to_pybytes(),
        b"time": pa.schema([("time", axis.column.type)]).serialize().to_pybytes(),
    }


def _lay_out_file(path: pathlib.Path, schema: pa.Schema, rows: int) -> dict[str, int]:
    """Writes the file full of zeros and returns where each column's values begin.

    Arrow writes a record batch in one go from memory; so its place is made first, from zeros that
    take no memory, and filled in bit by bit.
    """
    arrays = []
    for type_ in schema.types:
        lists = pa.types.is_fixed_size_list(type_)
        width, kind = (type_.list_size, type_.value_type) if lists else (1, type_)
        zeros = pa.array(np.zeros(rows * width, kind.to_pandas_dtype()))
        arrays.append(
            pa.Array.from_buffers(type_, rows, [None], children=[zeros]) if lists else zeros
        )
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)
    mapped = pa.memory_map(str(path)).read_buffer()
    batch = pa.ipc.open_file(pa.BufferReader(mapped)).get_batch(0)
    places = {}
    for name in schema.names:
        values = _as_numpy(batch.column(name))
        places[name] = values.__array_interface__["data"][0] - mapped.address if values.size else 0
    return places


def _as_numpy(array: pa.Array) -> np.ndarray:
    """Returns an array of the file without copying it."""
    if not pa.types.is_fixed_size_list(array.type):
        return array.to_numpy()
    return array.values.to_numpy().reshape(len(array), array.type.list_size)


def _stage(
    staged: BinaryIO, columns: Iterator[tuple[str, int, np.ndarray]]
) -> dict[tuple[str, int], int]:
    """Puts columns, which come one by one, one after another into a file; returns where they are.

    Writing single columns into matrices would go through all of these for each.
    """
    places = {}
    for name, position, values in columns:
        places[name, position] = staged.tell()
        values.tofile(staged)
    return places


def _write_matrices(
    file: BinaryIO,
    begin: dict[str, int],
    widths: dict[str, int],
    staged: BinaryIO,
    places: dict[tuple[str, int], int],
    rows: int,
) -> None:
    """Brings staged columns into matrices, row by row, a few rows of all at a time."""
    for name, width in widths.items():
        dtype = np.dtype(ROW_MATRICES[name])
        step = max(1, _CHUNK_BYTES // (dtype.itemsize * max(width, 1)))
        for start in range(0, rows if width else 0, step):
            count = min(step, rows - start)
            piece = np.empty((count, width), dtype)
            for position in range(width):
                staged.seek(places[name, position] + start * dtype.itemsize)
                piece[:, position] = np.fromfile(staged, dtype, count)
            file.seek(begin[name] + start * dtype.itemsize * width)
            piece.tofile(file)
