"""The windows whose horizon lies after the last known target."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from tft_keras.data.encoding import columns_by_matrix, encode_columns, encode_static
from tft_keras.data.fitting import Fitted
from tft_keras.data.layout import Layout, lay_out
from tft_keras.data.prepare import scaling_places, series_table
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.rows import Rows
from tft_keras.data.segments import first_of_segment
from tft_keras.data.series import Series, describe_series
from tft_keras.data.store import store_in_memory
from tft_keras.data.table import open_table
from tft_keras.data.windows import Skipped, Windows
from tft_keras.errors import InputError


def forecast_windows(source: Any, preprocessing: Preprocessing) -> Windows:
    """Makes the one window of each series whose horizon follows the last known target.

    Args:
        source: as for `tft_keras.data.prepare`. With known inputs in the schema it must have
            the rows of the horizon, their target missing; without, their times are
            extrapolated.
        preprocessing: of the run.

    Returns:
        One window for each series that has enough rows; `skipped` lists the others, of which a
        warning tells.

    Raises:
        InputError: the table does not suit the schema, known inputs are missing in the rows of the
            horizon, or no series has enough rows.
    """
    schema, config = preprocessing.schema, preprocessing.config
    table = open_table(source)
    schema.check_columns(table)
    layout = lay_out(table, schema, config, preprocessing.step)
    rows = Rows(table, layout)
    past = config.encoder_steps
    target = rows.target(schema.target, config.target_log1p)
    origins, skipped = _origins(layout, target, past)
    if not len(origins):
        raise InputError(_all_skipped(layout.series, skipped, past))
    there = _rows_there(layout, origins, config.horizon)
    if schema.known:
        whole = there.all(axis=1)
        skipped += _ended(layout, origins[~whole], past + config.horizon)
        if not whole.any():
            raise InputError(_no_future(layout, preprocessing, origins[0], there[0]))
        origins, there = origins[whole], there[whole]
    if skipped:
        warnings.warn(_describe_skipped(schema.group, skipped), UserWarning, stacklevel=3)
    layout, ahead = _cut(layout, origins, there, past + preprocessing.reach)
    rows = rows.laid_out(layout)
    target = np.where(ahead, np.nan, rows.reals(schema.target))
    fit = Fitted(preprocessing)
    places = scaling_places(layout, preprocessing)
    starts = layout.offsets[1:]
    series = series_table(layout, (starts, starts), places, encode_static(rows, schema, fit))
    per_series = bool(preprocessing.series)
    columns = encode_columns(rows, schema, fit, target, places, per_series, ahead)
    widths = {name: len(names) for name, names in columns_by_matrix(schema, fit).items()}
    store = store_in_memory(series, layout.times, target, widths, columns)
    ends = np.arange(1, len(origins) + 1)
    return Windows(
        store, preprocessing, layout.offsets[1:] - past - config.horizon, ends, tuple(skipped)
    )


def _origins(
    layout: Layout, target: np.ndarray, encoder_steps: int
) -> tuple[np.ndarray, list[Skipped]]:
    """Returns the row after each series' last known target, and the series with too few before."""
    begin = layout.offsets[:-1]
    rows = np.where(np.isnan(target), -1, np.arange(layout.rows))
    last = np.maximum.reduceat(rows, begin)
    segment = first_of_segment(layout.segments, last)
    past = np.where(last >= begin, last + 1 - segment, 0)
    skipped = [
        Skipped(layout.series.names[place], int(past[place]), encoder_steps)
        for place in np.flatnonzero(past < encoder_steps)
    ]
    return (last + 1)[past >= encoder_steps], skipped


def _rows_there(layout: Layout, origins: np.ndarray, horizon: int) -> np.ndarray:
    """Returns (windows, horizon) bool: which rows of the horizon the table has."""
    ends = layout.offsets[layout.series_of(origins - 1) + 1]
    rows = origins[:, None] + np.arange(horizon)
    # A gap ends what is there of the future: rows after it are not the next ones.
    gaps = np.searchsorted(layout.segments, origins - 1, side="right")
    next_segment = np.append(layout.segments, layout.rows)[gaps]
    there = rows < np.minimum(ends, next_segment)[:, None]
    if layout.order is not None:  # rows that were inserted have no known inputs
        there &= layout.order[np.where(there, rows, 0)] >= 0
    return there


def _cut(
    layout: Layout, origins: np.ndarray, there: np.ndarray, past: int
) -> tuple[Layout, np.ndarray]:
    """Keeps the rows up to each origin and its horizon; future rows that are not there are missing.

    Args:
        there: (windows, horizon) bool, which rows of the horizon the table has.
        past: rows before the origin that are kept, if there are so many without a gap.

    Returns:
        The layout of these rows, and whether each lies in a horizon.
    """
    horizon = there.shape[1]
    series = layout.series_of(origins - 1)
    first = np.maximum(first_of_segment(layout.segments, origins - 1), origins - past)
    lengths = origins - first + horizon
    offsets = np.append(0, np.cumsum(lengths))
    rows = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
    ahead = rows >= np.repeat(origins, lengths)
    known = ~ahead
    known[ahead] = there.ravel()
    safe = np.where(known, rows, 0)
    order = safe if layout.order is None else layout.order[safe]
    days = layout.axis.days(layout.times, layout.offsets)
    last = np.repeat(layout.times[origins - 1][:, None], horizon, axis=1)
    later = np.arange(1, horizon + 1)
    later = layout.axis.advance(last, later, None if days is None else days[series][:, None])
    times = layout.times[safe]
    times[ahead] = np.where(there, times[ahead].reshape(there.shape), later).ravel()
    cut = dataclasses.replace(
        layout,
        series=layout.series.take(series),
        offsets=offsets,
        order=np.where(known, order, -1),
        times=times,
        segments=offsets[:-1],
    )
    return cut, ahead


def _ended(layout: Layout, origins: np.ndarray, needed: int) -> list[Skipped]:
    places = layout.series_of(origins - 1)
    names = layout.series.names
    rows = layout.offsets[places + 1] - layout.offsets[places]
    return [
        Skipped(names[place], int(count), needed, ended=True)
        for place, count in zip(places, rows, strict=True)
    ]


def _all_skipped(series: Series, skipped: list[Skipped], encoder_steps: int) -> str:
    longest = max(skipped, key=lambda each: each.rows)
    name = describe_series(tuple(series.groups.column_names), longest.name)
    return (
        f"A forecast needs {encoder_steps} rows without a gap before it. Received: at "
        f"most {longest.rows} in a series, in {name}. Give more of the past."
    )


def _no_future(layout: Layout, preprocessing: Preprocessing, origin: int, there: np.ndarray) -> str:
    """Says that no series has the rows of the horizon, and which row the first one lacks."""
    place = int(layout.series_of(origin - 1))
    ahead = int(np.argmin(there)) + 1
    days = layout.axis.days(layout.times, layout.offsets)
    time = layout.axis.advance(
        layout.times[[origin - 1]], ahead, None if days is None else days[[place]]
    )
    return (
        f"The table must have the {preprocessing.config.horizon} rows after the last known "
        f"target, with the known inputs {', '.join(preprocessing.schema.known)}. Received: "
        f"{layout.series.describe(place)} without a row at "
        f"{preprocessing.schema.time}={layout.axis.text(int(time[0]))}. Add these rows, "
        "their target null."
    )


def _describe_skipped(group: tuple[str, ...], skipped: list[Skipped]) -> str:
    parts = []
    for ended, why in (
        (False, "for want of rows before it without a gap"),
        (True, "for want of the rows of the horizon with their known inputs"),
    ):
        those = [each for each in skipped if each.ended == ended]
        if those:
            first = those[0]
            count = "" if ended else f" has {first.rows} of {first.needed}"
            others = ", and others" if len(those) > 1 else ""
            parts.append(
                f"{len(those)} series without a forecast, {why}: "
                f"{describe_series(group, first.name)}{count}{others}."
            )
    return " ".join(parts)
