"""Where every row of a table goes: by series, then by time, without duplicates, gaps known."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data import zones
from tft_keras.data.schema import Schema
from tft_keras.data.series import Series, read_series
from tft_keras.data.steps import Step
from tft_keras.data.table import Table
from tft_keras.data.time_columns import TimeColumn, read_times
from tft_keras.data.time_steps import infer_axis, series_of_another_step
from tft_keras.data.times import TimeAxis
from tft_keras.errors import InputError

_MOST_INSERTED = 20


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The rows of a table in order.

    Attributes:
        axis: the time axis.
        series: the series.
        offsets: (series + 1,) first row of each series.
        order: (rows,) the table's row at each place, -1 for an inserted row; None if the table
            is in order.
        times: (rows,) int64.
        segments: first rows of the runs of rows without a gap, rising.
    """

    axis: TimeAxis
    series: Series
    offsets: np.ndarray
    order: np.ndarray | None
    times: np.ndarray
    segments: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.times)

    def take(self, values: np.ndarray, missing: Any) -> np.ndarray:
        """Returns a column of the table in order, `missing` in the inserted rows."""
        if self.order is None:
            return values
        taken = values[self.order]
        taken[self.order < 0] = missing
        return taken

    def series_of(self, rows: np.ndarray | int) -> np.ndarray:
        """Returns the series that rows belong to."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def describe(self, row: int) -> str:
        """Returns the series, time and row in the table of a row that is in it, for messages."""
        source = row if self.order is None else int(self.order[row])
        series = self.series.describe(int(self.series_of(row)))
        time = self.axis.text(self.times[row])
        return f"{series}, time={time}, row={source} (counted from 0)"


def lay_out(table: Table, schema: Schema, config: DataConfig, step: Step | None = None) -> Layout:
    """Sorts the rows of a table and finds its series, duplicates and gaps.

    Args:
        table: its columns were checked against `schema`.
        step: distance of rows of an earlier table; None finds the table's own.

    Raises:
        InputError: a group value or a time is missing, a series has two rows at one time, gaps
            cannot be filled, or series have different steps.
    """
    codes, series = read_series(table, schema.group)
    is_index = None if step is None else step.unit == "index"
    times, column = read_times(table, schema.time, config.time_zone, is_index)
    order = None
    if not _in_order(codes, times):
        order = np.lexsort((times, codes))
        codes, times = codes[order], times[order]
    same = _same(codes, times)
    if same.any() and column.naive and column.zone:
        order, times = _part_repeated_hours(codes, times, order, same, column)
        same = _same(codes, times)
    if same.any():
        if config.duplicates == "error":
            _refuse_duplicates(same, column, schema, series, codes, times)
        kept = np.append(~same, True)
        order = np.flatnonzero(kept) if order is None else order[kept]
        codes, times = codes[kept], times[kept]
    first = np.append(True, codes[1:] != codes[:-1])
    offsets = np.append(np.flatnonzero(first), len(times))
    if step is None:
        axis = infer_axis(times, offsets, column, config.gaps == "ignore")
    else:
        axis = TimeAxis.of_step(column, step, times)
    axis = axis.with_holidays(times)
    layout = Layout(axis, series, offsets, order, times, offsets[:-1])
    positions = axis.positions(times)
    if step is None:
        _check_steps(layout, positions, config.gaps)
    if config.gaps == "ignore":
        return layout
    if config.gaps == "fill":
        return _fill_gaps(layout, positions)
    starts = first
    starts[1:] |= np.diff(positions) != axis.stride
    return dataclasses.replace(layout, segments=np.flatnonzero(starts))


def _in_order(codes: np.ndarray, times: np.ndarray) -> bool:
    if (codes[1:] < codes[:-1]).any():
        return False
    return bool(((times[1:] >= times[:-1]) | (codes[1:] != codes[:-1])).all())


def _same(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Returns (rows - 1,) whether the next row is of the same series and time."""
    return (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])


def _part_repeated_hours(
    codes: np.ndarray,
    times: np.ndarray,
    order: np.ndarray | None,
    same: np.ndarray,
    column: TimeColumn,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the second of two rows at a clock time that clocks show twice for the later moment."""
    second = np.append(False, same)
    local = zones.to_local(times, column.unit, column.zone)
    times = np.where(second, zones.to_utc(local, column.unit, column.zone, later=True), times)
    again = np.lexsort((times, codes))
    return (again if order is None else order[again]), times[again]


def _refuse_duplicates(
    same: np.ndarray,
    column: TimeColumn,
    schema: Schema,
    series: Series,
    codes: np.ndarray,
    times: np.ndarray,
) -> None:
    row = int(same.argmax())
    axis = TimeAxis(column, Step(1, "index" if column.is_index else "nanoseconds", column.zone))
    raise InputError(
        "A series may have one row at a time. Received: "
        f"{series.describe(int(codes[row]))} twice at {schema.time}="
        f"{axis.text(times[row])} ({int(same.sum())} such rows). Drop them, name the columns that "
        "tell the series apart in `group`, or set duplicates='last' to keep the last row; local "
        "times repeat at the end of summer time: write them in UTC, or name their zone by "
        "time_zone."
    )


def _check_steps(layout: Layout, positions: np.ndarray, gaps: str) -> None:
    """Refuses or warns of series whose rows are regular, but not those of the table."""
    others = series_of_another_step(layout.axis, positions, layout.offsets)
    if not len(others):
        return
    message = (
        f"All series must have one step. Received: {len(others)} of {len(layout.series)} series "
        f"with another one than {layout.axis.step}, such as "
        f"{layout.series.describe(int(others[0]))}. Train each kind of series on a table of its own"
    )
    if gaps == "ignore":
        raise InputError(f"{message}.")
    if gaps == "split":
        warnings.warn(f"{message}; here their rows are gaps.", UserWarning, stacklevel=5)


def _fill_gaps(layout: Layout, positions: np.ndarray) -> Layout:
    """Inserts rows so that no series has a gap."""
    axis, offsets = layout.axis, layout.offsets
    lengths = np.diff(offsets)
    distance = positions - np.repeat(positions[offsets[:-1]], lengths)
    places, rest = np.divmod(distance, axis.stride)
    wrong = rest != 0
    wrong[1:] |= (np.diff(places) == 0) & (np.diff(layout.series_of(np.arange(layout.rows))) == 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            "Gaps can be filled if all rows are whole steps apart. Received: "
            f"{layout.describe(row)}, {axis.step} a step. Use gaps='split' "
            "or gaps='ignore', or round the times."
        )
    new_lengths = places[offsets[1:] - 1] + 1
    total = int(new_lengths.sum())
    if total == layout.rows:
        return layout
    if total > _MOST_INSERTED * layout.rows:
        raise InputError(
            f"Filling gaps may make a table at most {_MOST_INSERTED} times longer. Received: "
            f"{total} rows from {layout.rows}. Use gaps='split' or gaps='ignore'."
        )
    new_offsets = np.append(0, np.cumsum(new_lengths))
    target = places + np.repeat(new_offsets[:-1], lengths)
    order = np.full(total, -1, np.int64)
    order[target] = np.arange(layout.rows) if layout.order is None else layout.order
    first = np.repeat(layout.times[offsets[:-1]], new_lengths)
    steps = np.arange(total) - np.repeat(new_offsets[:-1], new_lengths)
    days = axis.days(layout.times, offsets)
    times = axis.advance(first, steps, None if days is None else np.repeat(days, new_lengths))
    times[target] = layout.times
    return dataclasses.replace(
        layout, offsets=new_offsets, order=order, times=times, segments=new_offsets[:-1]
    )
