"""Where every row of a table goes: by series, then by time, without duplicates, gaps known."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data import columns
from tft_keras.data.schema import Schema
from tft_keras.data.table import Table
from tft_keras.data.times import Step, TimeAxis
from tft_keras.errors import InputError

_MOST_INSERTED = 20


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The rows of a table in order.

    Attributes:
        axis: the time axis, its step known.
        group: names of the group columns.
        names: for each series its group values.
        offsets: (series + 1,) first row of each series.
        order: (rows,) the table's row at each place, -1 for an inserted row; None if the table
            is in order.
        times: (rows,) int64.
        segments: first rows of the runs of rows without a gap, rising.
    """

    axis: TimeAxis
    group: tuple[str, ...]
    names: list[tuple[Any, ...]]
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
        series = describe_series(self.group, self.names[int(self.series_of(row))])
        time = self.axis.text(self.times[row])
        return f"{series}, time={time}, row={source} (counted from 0)"


def describe_series(group: tuple[str, ...], name: tuple[Any, ...]) -> str:
    """Returns `series (store=3, item='A')`."""
    values = ", ".join(f"{g}={v!r}" for g, v in zip(group, name, strict=True))
    return f"series ({values})" if group else "the only series"


def lay_out(table: Table, schema: Schema, config: DataConfig, step: Step | None = None) -> Layout:
    """Sorts the rows of a table and finds its series, duplicates and gaps.

    Args:
        table: its columns were checked against `schema`.
        step: distance of rows of an earlier table; None: the most frequent one.

    Raises:
        InputError: a group value or a time is missing, a series has two rows at one time, or gaps
            cannot be filled.
    """
    codes, names = _series(table, schema.group)
    times, type_ = columns.times(table, schema.time)
    order = None
    if not _in_order(codes, times):
        order = np.lexsort((times, codes))
        codes, times = codes[order], times[order]
    same = (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])
    if same.any():
        if config.duplicates == "error":
            _refuse_duplicates(same, TimeAxis(type_), schema, names, codes, times)
        kept = np.append(~same, True)
        order = np.flatnonzero(kept) if order is None else order[kept]
        codes, times = codes[kept], times[kept]
    first = np.append(True, codes[1:] != codes[:-1])
    axis = TimeAxis(type_, step) if step else TimeAxis(type_).infer_step(times, first)
    offsets = np.append(np.flatnonzero(first), len(times))
    layout = Layout(axis, schema.group, names, offsets, order, times, offsets[:-1])
    if config.gaps == "ignore":
        return layout
    positions = axis.positions(times)
    if config.gaps == "fill":
        return _fill_gaps(layout, positions)
    starts = first
    starts[1:] |= np.diff(positions) != axis.stride
    return dataclasses.replace(layout, segments=np.flatnonzero(starts))


def _series(table: Table, group: tuple[str, ...]) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """Returns the series of each row, (rows,) int32, and each series' group values, sorted."""
    combined: np.ndarray = np.zeros(table.rows, np.int32)
    names: list[tuple[Any, ...]] = [()]
    for column in group:
        codes, values = _group_codes(table, column)
        if len(names) == 1:
            combined, names = codes, [(*names[0], value) for value in values]
            continue
        pairs = combined.astype(np.int64) * len(values) + codes
        present, combined = np.unique(pairs, return_inverse=True)
        combined = combined.astype(np.int32)
        names = [(*names[p // len(values)], values[p % len(values)]) for p in present.tolist()]
    return combined, names


def _group_codes(table: Table, column: str) -> tuple[np.ndarray, list[Any]]:
    """Returns a group column as codes that sort like its values, and the values."""
    codes, keys, values = columns.categories(table, column)
    missing = codes < 0
    if missing.any():
        raise InputError(
            f"Every row needs its group. Received: no {column!r} in row {int(missing.argmax())} "
            "(counted from 0). Drop such rows or fill the group in."
        )
    plain = all(type(value) in (int, str) for value in values)
    values = values if plain else keys
    try:
        ranked = sorted(range(len(values)), key=values.__getitem__)
    except TypeError:  # numbers in one file, text in another one
        values = keys
        ranked = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(ranked), np.int32)
    rank[ranked] = np.arange(len(ranked), dtype=np.int32)
    return rank[codes], [values[i] for i in ranked]


def _in_order(codes: np.ndarray, times: np.ndarray) -> bool:
    if not (codes[1:] >= codes[:-1]).all():
        return False
    return bool(((times[1:] >= times[:-1]) | (codes[1:] != codes[:-1])).all())


def _refuse_duplicates(
    same: np.ndarray,
    axis: TimeAxis,
    schema: Schema,
    names: list[tuple[Any, ...]],
    codes: np.ndarray,
    times: np.ndarray,
) -> None:
    row = int(same.argmax())
    raise InputError(
        "A series may have one row at a time. Received: "
        f"{describe_series(schema.group, names[codes[row]])} twice at {schema.time}="
        f"{axis.text(times[row])} ({int(same.sum())} such rows). Drop them, name the columns that "
        "tell the series apart in `group`, or set duplicates='last' to keep the last row; local "
        "times repeat at the end of summer time: write them in UTC."
    )


def _fill_gaps(layout: Layout, positions: np.ndarray) -> Layout:
    """Inserts rows so that no series has a gap."""
    axis, offsets = layout.axis, layout.offsets
    lengths = np.diff(offsets)
    distance = positions - np.repeat(positions[offsets[:-1]], lengths)
    places, rest = np.divmod(distance, axis.stride)
    if rest.any():
        row = int((rest != 0).argmax())
        raise InputError(
            "Gaps can be filled if all rows are whole steps apart. Received: "
            f"{layout.describe(row)}, {axis.step.size} {axis.step.unit} a step. Use gaps='split' "
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
    times = axis.advance(first, steps)
    times[target] = layout.times
    return dataclasses.replace(
        layout, offsets=new_offsets, order=order, times=times, segments=new_offsets[:-1]
    )
