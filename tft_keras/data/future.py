"""The windows whose horizon lies after the last known target."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from tft_keras.data import columns as read_columns
from tft_keras.data.fitting import read_target
from tft_keras.data.layout import Layout, describe_series, lay_out
from tft_keras.data.prepare import series_table, store_in_memory
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.table import Table, open_table
from tft_keras.data.transform import matrix_widths, row_columns
from tft_keras.data.windows import Skipped, Windows
from tft_keras.errors import InputError


def forecast_windows(source: Any, preprocessing: Preprocessing) -> Windows:
    """Makes one window per series; see `Preprocessing.forecast_windows`."""
    schema, config = preprocessing.schema, preprocessing.config
    table = open_table(source)
    schema.check_columns(table.columns)
    layout = lay_out(table, schema, config, preprocessing.step)
    target = read_target(table, layout, schema.target, config.target_log1p)
    origins, skipped = _origins(layout, target, config.encoder_steps)
    if not len(origins):
        raise InputError(
            f"A forecast needs {config.encoder_steps} rows without a gap before it. Received: at "
            f"most {max(s.rows for s in skipped)} in a series. Give more of the past."
        )
    if skipped:
        warnings.warn(_describe_skipped(schema.group, skipped), UserWarning, stacklevel=3)
    layout = _cut(layout, origins, config.encoder_steps, config.horizon)
    if schema.known:
        _check_future_rows(layout, preprocessing)
        _check_known(table, layout, preprocessing)
    target = _past(layout, read_target(table, layout, schema.target, False), preprocessing)
    starts = layout.offsets[1:]
    series = series_table(table, layout, preprocessing, (starts, starts))
    columns = row_columns(table, layout, target, preprocessing, series.scaling)
    widths = matrix_widths(preprocessing)
    store = store_in_memory(series, layout.times, target, widths, columns)
    ends = np.arange(1, len(origins) + 1)
    return Windows(store, preprocessing, layout.offsets[:-1], ends, tuple(skipped))


def _origins(
    layout: Layout, target: np.ndarray, encoder_steps: int
) -> tuple[np.ndarray, list[Skipped]]:
    """Returns the row after each series' last known target, and the series with too few before."""
    begin = layout.offsets[:-1]
    rows = np.where(np.isnan(target), -1, np.arange(layout.rows))
    last = np.maximum.reduceat(rows, begin)
    segments = layout.segments
    segment = segments[np.searchsorted(segments, last, side="right") - 1]
    past = np.where(last >= begin, last + 1 - segment, 0)
    skipped = [
        Skipped(layout.names[place], int(past[place]), encoder_steps)
        for place in np.flatnonzero(past < encoder_steps)
    ]
    return (last + 1)[past >= encoder_steps], skipped


def _describe_skipped(group: tuple[str, ...], skipped: list[Skipped]) -> str:
    first = skipped[0]
    return (
        f"{len(skipped)} series without a forecast, for want of rows before it without a gap: "
        f"{describe_series(group, first.name)} has {first.rows} of {first.needed}"
        f"{', and others' if len(skipped) > 1 else ''}."
    )


def _cut(layout: Layout, origins: np.ndarray, encoder_steps: int, horizon: int) -> Layout:
    """Keeps the rows of the windows; future rows that are not in the table become missing ones."""
    series = layout.series_of(origins - 1)
    ends = layout.offsets[series + 1]
    rows = origins[:, None] + np.arange(-encoder_steps, horizon)
    # A gap ends what is there of the future: rows after it are not the next ones.
    gaps = np.searchsorted(layout.segments, origins - 1, side="right")
    next_segment = np.append(layout.segments, layout.rows)[gaps]
    there = rows < np.minimum(ends, next_segment)[:, None]
    safe = np.where(there, rows, 0)
    order = safe if layout.order is None else layout.order[safe]
    steps = np.arange(-encoder_steps, horizon) + 1
    last = np.repeat(layout.times[origins - 1][:, None], rows.shape[1], axis=1)
    times = np.where(there, layout.times[safe], layout.axis.advance(last, steps))
    offsets = np.arange(len(origins) + 1) * rows.shape[1]
    return dataclasses.replace(
        layout,
        names=[layout.names[place] for place in series],
        offsets=offsets,
        order=np.where(there, order, -1).ravel(),
        times=times.ravel(),
        segments=offsets[:-1],
    )


def _check_future_rows(layout: Layout, preprocessing: Preprocessing) -> None:
    missing = (layout.order < 0).reshape(len(layout.names), -1)
    missing = missing[:, preprocessing.config.encoder_steps :]
    if missing.any():
        place = int(missing.any(axis=1).argmax())
        row = layout.offsets[place] + preprocessing.config.encoder_steps + missing[place].argmax()
        raise InputError(
            f"The table must have the {preprocessing.config.horizon} rows after the last known "
            f"target, with the known inputs {', '.join(preprocessing.schema.known)}. Received: "
            f"{describe_series(layout.group, layout.names[place])} without a row at "
            f"{preprocessing.schema.time}={layout.axis.text(layout.times[row])}. Add these rows, "
            "their target null."
        )


def _check_known(table: Table, layout: Layout, preprocessing: Preprocessing) -> None:
    for column in preprocessing.schema.known:
        if column in preprocessing.vocabularies:
            if preprocessing.vocabularies[column].missing:
                continue  # Missing is one of its categories, such as "no holiday".
            missing = layout.take(read_columns.categories(table, column)[0], -1) < 0
        else:
            missing = np.isnan(layout.take(read_columns.reals(table, column), np.nan))
        future = missing.reshape(len(layout.names), -1)[:, preprocessing.config.encoder_steps :]
        if future.any():
            place, step = (int(i[0]) for i in np.nonzero(future))
            row = layout.offsets[place] + preprocessing.config.encoder_steps + step
            raise InputError(
                "Known inputs must be there over the whole horizon. Received: no "
                f"{column!r} in {layout.describe(row)}. Fill it in."
            )


def _past(layout: Layout, target: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """Hides what the target would be after the origin."""
    target = target.reshape(len(layout.names), -1).copy()
    target[:, preprocessing.config.encoder_steps :] = np.nan
    return target.ravel()
