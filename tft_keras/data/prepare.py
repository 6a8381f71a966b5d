"""A table to windows for training, validation and test."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data.cache import Cache
from tft_keras.data.fitting import fit, read_target
from tft_keras.data.layout import Layout, lay_out
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.schema import Schema
from tft_keras.data.splits import SPLITS, split_rows
from tft_keras.data.store import SeriesTable, Store
from tft_keras.data.table import Table, open_table
from tft_keras.data.transform import matrix_widths, row_columns, static_variables
from tft_keras.data.windows import Skipped, Windows, split_windows
from tft_keras.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PreparedData:
    """Windows of the three splits.

    Attributes:
        preprocessing: what was fitted on the training rows.
        train, validation, test: the windows whose horizon lies in that split.
        skipped: the series too short for any window.
    """

    preprocessing: Preprocessing
    train: Windows
    validation: Windows
    test: Windows
    skipped: list[Skipped]


def prepare(
    source: Any, schema: Schema, config: DataConfig, preprocessing: Preprocessing | None = None
) -> PreparedData:
    """Makes windows of a table.

    Args:
        source: path of a Parquet file, a folder of them, or a glob; a pandas or Arrow table. Rows
            may be in any order.
        schema: roles of the columns.
        config: treatment of the data. With `config.cache` the prepared rows of Parquet files are
            kept in a memory-mapped file there, used again as long as files and settings are the
            same.
        preprocessing: of an earlier table, to be applied as it is; None fits one on the training
            rows.

    Raises:
        InputError: the table does not suit the schema or the settings, or no window can be made.
    """
    table = open_table(source)
    schema.check_columns(table.columns)
    cache = Cache.find(table, schema, config, preprocessing)
    cached = cache.load() if cache else None
    fitted = preprocessing is not None
    preprocessing, store = cached or _build(table, schema, config, preprocessing, cache)
    preprocessing = dataclasses.replace(preprocessing, config=config)
    splits, skipped = split_windows(store, preprocessing)
    _check_splits(splits, store, config, fitted)
    return PreparedData(preprocessing, **splits, skipped=skipped)


def _build(
    table: Table,
    schema: Schema,
    config: DataConfig,
    fitted: Preprocessing | None,
    cache: Cache | None,
) -> tuple[Preprocessing, Store]:
    layout = lay_out(table, schema, config, fitted.step if fitted else None)
    target = read_target(table, layout, schema.target, config.target_log1p)
    starts = split_rows(layout, config, ~np.isnan(target))
    preprocessing = fitted or fit(table, layout, starts[0], target, schema, config)
    series = series_table(table, layout, preprocessing, starts)
    columns = row_columns(table, layout, target, preprocessing, series.scaling)
    widths = matrix_widths(preprocessing)
    if cache:
        cache.write(preprocessing, series, layout.times, target, widths, columns)
        return cache.load()
    return preprocessing, store_in_memory(series, layout.times, target, widths, columns)


def series_table(
    table: Table,
    layout: Layout,
    preprocessing: Preprocessing,
    starts: tuple[np.ndarray, np.ndarray],
) -> SeriesTable:
    """Collects what is one per series; `starts` are the first validation and test rows."""
    places = {name: place for place, name in enumerate(preprocessing.series)}
    scaling = np.array([places.get(name, -1) for name in layout.names], np.int64)
    static_real, static_categorical = static_variables(table, layout, preprocessing)
    return SeriesTable(
        axis=layout.axis,
        names=layout.names,
        offsets=layout.offsets,
        segments=layout.segments,
        validation=starts[0],
        test=starts[1],
        scaling=scaling,
        static_real=static_real,
        static_categorical=static_categorical,
    )


def store_in_memory(
    series: SeriesTable,
    times: np.ndarray,
    target: np.ndarray,
    widths: dict[str, int],
    columns: Iterator[tuple[str, int, np.ndarray]],
) -> Store:
    """Fills a store from the columns that `row_columns` yields."""
    matrices = {
        name: np.empty((len(times), width), np.float32 if name.endswith("real") else np.int32)
        for name, width in widths.items()
    }
    for name, position, values in columns:
        matrices[name][:, position] = values
    return Store(series, times, target, **matrices)


def _check_splits(
    splits: dict[str, Windows], store: Store, config: DataConfig, fitted: bool
) -> None:
    needed = config.encoder_steps + config.horizon
    ways_out = (
        "Set a smaller encoder_steps or horizon, later starts or smaller shares of validation and "
        "test, or gaps='ignore' or 'fill'."
    )
    received = f"encoder_steps={config.encoder_steps}, horizon={config.horizon}"
    if not any(len(windows) for windows in splits.values()):
        longest = int(np.diff(np.append(store.series.segments, store.rows)).max())
        raise InputError(
            f"A window needs {needed} rows of one series without a gap and a target among the last "
            f"{config.horizon}. Received: {received}, at most {longest} rows. {ways_out}"
        )
    ends = dict(zip(SPLITS, _split_lengths(store.series), strict=True))
    if not fitted and not len(splits["train"]):
        raise InputError(
            f"A training window needs {needed} rows before the validation split. Received: "
            f"{received}, at most {ends['train']} training rows in a series. {ways_out}"
        )
    for name in ("validation", "test"):
        if getattr(config, name) not in (0, 0.0) and not len(splits[name]):
            warnings.warn(
                f"No window fits into the {name} split. Received: {received}, at most {ends[name]} "
                "rows of a series in it.",
                UserWarning,
                stacklevel=3,
            )


def _split_lengths(series: SeriesTable) -> tuple[int, int, int]:
    starts = (series.offsets[:-1], series.validation, series.test, series.offsets[1:])
    train, validation, test = (int((b - a).max()) for a, b in zip(starts, starts[1:], strict=False))
    return train, validation, test
