"""Prepared rows in a memory-mapped Arrow file, for tables larger than memory."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tft_keras import atomic
from tft_keras.config import DataConfig
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.schema import Schema
from tft_keras.data.store import SeriesTable, Store
from tft_keras.data.table import Table
from tft_keras.data.times import TimeAxis

_FORMAT = 1
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
            if loaded and dataclasses.replace(loaded[0], config=config) == fitted:
                return own
        settings = dataclasses.replace(config, cache=None).to_dict()
        content = [_FORMAT, table.fingerprint, schema.to_dict(), settings]
        content.append(fitted.to_dict() if fitted else None)
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
        axis = TimeAxis(
            pa.ipc.read_schema(pa.py_buffer(metadata[b"time"])).field(0).type, preprocessing.step
        )
        names = [tuple(name) for name in described["names"]]
        with np.load(io.BytesIO(metadata[b"series"])) as arrays:
            series = SeriesTable(axis, names, **{name: arrays[name] for name in _SERIES_ARRAYS})
        columns = {name: _as_numpy(batch.column(name)) for name in batch.schema.names}
        return preprocessing, Store(series, **columns)

    def write(
        self,
        preprocessing: Preprocessing,
        series: SeriesTable,
        times: np.ndarray,
        target: np.ndarray,
        widths: dict[str, int],
        columns: Iterator[tuple[str, int, np.ndarray]],
    ) -> None:
        """Writes the file with one column and a few rows of all in memory at a time."""
        rows = len(times)
        types = {"times": pa.int64(), "target": pa.float64()}
        for name, width in widths.items():
            kind = pa.float32() if name.endswith("real") else pa.int32()
            types[name] = pa.list_(kind, width)
        schema = pa.schema(types.items(), metadata=_metadata(preprocessing, series))
        with atomic.replacing(self.path) as temporary:
            places = _lay_out_file(temporary, schema, rows)
            with temporary.open("r+b") as file:
                for name, array in (("times", times), ("target", target)):
                    file.seek(places[name])
                    array.tofile(file)
                _write_matrices(file, places, widths, columns, rows, self.path.parent)


def _metadata(preprocessing: Preprocessing, series: SeriesTable) -> dict[bytes, bytes]:
    described = {"preprocessing": preprocessing.to_dict(), "names": series.names}
    arrays = io.BytesIO()
    np.savez(arrays, **{name: getattr(series, name) for name in _SERIES_ARRAYS})
    return {
        b"described": json.dumps(described).encode(),
        b"series": arrays.getvalue(),
        b"time": pa.schema([("time", series.axis.type)]).serialize().to_pybytes(),
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


def _write_matrices(
    file: io.BufferedRandom,
    places: dict[str, int],
    widths: dict[str, int],
    columns: Iterator[tuple[str, int, np.ndarray]],
    rows: int,
    folder: pathlib.Path,
) -> None:
    """Brings columns, which come one by one, into matrices, row by row.

    Writing single columns into the file would go through all of it for each; instead they are put
    one after another into a temporary file, from which a few rows of all are read at a time.
    """
    with tempfile.TemporaryFile(dir=folder) as staged:
        staged_at: dict[tuple[str, int], int] = {}
        for name, position, values in columns:
            staged_at[name, position] = staged.tell()
            values.tofile(staged)
        for name, width in widths.items():
            dtype = np.dtype(np.float32 if name.endswith("real") else np.int32)
            step = max(1, _CHUNK_BYTES // (dtype.itemsize * max(width, 1)))
            for start in range(0, rows if width else 0, step):
                count = min(step, rows - start)
                piece = np.empty((count, width), dtype)
                for position in range(width):
                    staged.seek(staged_at[name, position] + start * dtype.itemsize)
                    piece[:, position] = np.fromfile(staged, dtype, count)
                file.seek(places[name] + start * dtype.itemsize * width)
                piece.tofile(file)
