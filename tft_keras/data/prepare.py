"""A table to windows for training, validation and test."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data.cache import Cache
from tft_keras.data.encoding import columns_by_matrix, encode_columns, encode_static
from tft_keras.data.fitting import Fit, Fitted, Fitting
from tft_keras.data.layout import Layout, lay_out
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.rows import Rows
from tft_keras.data.schema import Schema
from tft_keras.data.seasons import find_season
from tft_keras.data.splits import SPLITS, split_rows
from tft_keras.data.store import SeriesTable, Store, store_in_memory
from tft_keras.data.table import Table, open_table
from tft_keras.data.window_index import find_windows
from tft_keras.data.windows import Skipped, Windows, skipped_series
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

    def describe(self) -> str:
        """Returns the step, scaling and inputs made, gaps, and what each split has, in lines."""
        table = self.train.store.series
        series = len(table.series)
        lines = [f"step: {table.axis.step}" + (f" in {table.axis.zone}" if table.axis.zone else "")]
        gaps = len(table.segments) - series
        if gaps:
            lines[0] += f"; {gaps:,} gaps, which no window spans"
        lines.append(self.preprocessing.describe())
        for name in SPLITS:
            windows = getattr(self, name)
            count = windows.series_count()
            without = f", {series - count:,} without" if count < series else ""
            lines.append(f"{name}: {len(windows):,} windows of {count:,} series{without}")
        return "\n".join(lines)


def prepare(
    source: Any, schema: Schema, config: DataConfig, preprocessing: Preprocessing | None = None
) -> PreparedData:
    """Makes windows of a table.

    Args:
        source: path of a Parquet file, a folder of them, a glob or an address that fsspec knows; a
            pandas or Arrow table. Rows may be in any order.
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
    schema.check_columns(table)
    cache = Cache.find(table, schema, config, preprocessing)
    cached = cache.load() if cache else None
    fitted = preprocessing is not None
    found, store = cached or _build(table, schema, config, preprocessing, cache)
    preprocessing = dataclasses.replace(preprocessing or found, config=config)
    splits = _split_windows(store, preprocessing)
    _check_splits(splits, store, config, fitted)
    if preprocessing.season is None:
        season = find_season(splits["train"], preprocessing.step.seasons)
        preprocessing = dataclasses.replace(preprocessing, season=season)
        splits = {n: dataclasses.replace(w, preprocessing=preprocessing) for n, w in splits.items()}
    skipped = skipped_series(store, config.encoder_steps + config.horizon)
    return PreparedData(preprocessing, **splits, skipped=skipped)


def prepare_again(source: Any, preprocessing: Preprocessing) -> PreparedData:
    """Makes windows of a table, split as configured, without fitting anything; see `prepare`."""
    return prepare(source, preprocessing.schema, preprocessing.config, preprocessing)


def series_table(
    layout: Layout,
    starts: tuple[np.ndarray, np.ndarray],
    places: np.ndarray,
    static: tuple[np.ndarray, np.ndarray],
) -> SeriesTable:
    """Collects what is one per series.

    Args:
        starts: (series,) first validation and first test rows.
        places: (series,) places among the series that scaling was fitted on.
        static: the static variables, from `encode_static`.
    """
    return SeriesTable(
        axis=layout.axis,
        series=layout.series,
        offsets=layout.offsets,
        segments=layout.segments,
        validation=starts[0],
        test=starts[1],
        scaling=places,
        static_real=static[0],
        static_categorical=static[1],
    )


def scaling_places(layout: Layout, preprocessing: Preprocessing) -> np.ndarray:
    """Returns each series' place among those that scaling was fitted on, with a warning of others.

    Returns:
        (series,) int64; -1 where it is none of them.
    """
    known = {name: place for place, name in enumerate(preprocessing.series)}
    places = np.array([known.get(name, -1) for name in layout.series.keys], np.int64)
    new = np.flatnonzero(places < 0)
    if preprocessing.series and len(new):
        warnings.warn(
            f"{len(new)} of {len(places)} series were not trained and are scaled like all of them "
            f"together: {layout.series.describe(int(new[0]))}"
            f"{' is the first' if len(new) > 1 else ''}.",
            UserWarning,
            stacklevel=4,
        )
    return places


def _build(
    table: Table,
    schema: Schema,
    config: DataConfig,
    fitted: Preprocessing | None,
    cache: Cache | None,
) -> tuple[Preprocessing, Store]:
    layout = lay_out(table, schema, config, fitted.step if fitted else None)
    rows = Rows(table, layout)
    target = rows.target(schema.target, config.target_log1p)
    known = ~np.isnan(target)
    starts = split_rows(layout, config, known)
    if fitted:
        fit: Fit = Fitted(fitted)
        places, per_series = scaling_places(layout, fitted), bool(fitted.series)
    else:
        past, steps = config.encoder_steps, config.encoder_steps + config.horizon
        found = find_windows(layout.offsets, layout.segments, starts, known, past, steps)
        fit = Fitting(table, layout, starts[0], found["train"], schema, config)
        places, per_series = np.arange(len(layout.series)), config.scale_per_series
        places = places if per_series else np.full(len(places), -1)
    columns = encode_columns(rows, schema, fit, target, places, per_series)
    series = series_table(layout, starts, places, encode_static(rows, schema, fit))
    widths = {name: len(names) for name, names in columns_by_matrix(schema, fit).items()}
    if cache:
        result = (lambda: fitted) if fitted else fit.result
        cache.write(result, series, layout.times, target, widths, columns)
        return cache.load()
    store = store_in_memory(series, layout.times, target, widths, columns)
    return fitted or fit.result(), store


def _split_windows(store: Store, preprocessing: Preprocessing) -> dict[str, Windows]:
    config, series = preprocessing.config, store.series
    past, steps = config.encoder_steps, config.encoder_steps + config.horizon
    starts = series.validation, series.test
    known = ~np.isnan(store.target)
    found = find_windows(series.offsets, series.segments, starts, known, past, steps)
    return {name: Windows(store, preprocessing, *runs) for name, runs in found.items()}


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
        longest, place = store.series.longest()
        raise InputError(
            f"A window needs {needed} rows of one series without a gap and a target among the last "
            f"{config.horizon}. Received: {received}, at most {longest} rows, in "
            f"{store.series.series.describe(place)}; the step is {store.series.axis.step}. "
            f"{ways_out}"
        )
    ends = dict(zip(SPLITS, _split_lengths(store.series), strict=True))
    if not fitted and not len(splits["train"]):
        raise InputError(
            f"A training window needs {needed} rows before the validation split. Received: "
            f"{received}, at most {ends['train']} training rows in a series. {ways_out}"
        )
    for name in ("validation", "test"):
        wanted = getattr(config, name) not in (0, 0.0) or getattr(config, f"{name}_steps")
        if wanted and not len(splits[name]):
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
