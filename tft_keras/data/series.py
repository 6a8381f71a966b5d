"""The series of a table: which rows belong to one, and what its group columns hold."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tft_keras.data import columns
from tft_keras.data.table import Table
from tft_keras.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Series:
    """The series of a table, in the order of their group values.

    Attributes:
        groups: one row a series; the group columns in the types that they have in the table.
        keys: for each series the keys (`keys.key`) of its group values, which name it across
            tables whatever their types.
    """

    groups: pa.Table
    keys: list[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.keys)

    @functools.cached_property
    def names(self) -> list[tuple[Any, ...]]:
        """For each series its group values, as Python values."""
        if not self.groups.num_columns:
            return [()] * len(self)
        return list(zip(*(_python_values(c) for c in self.groups.columns), strict=True))

    def take(self, places: np.ndarray) -> Series:
        """Returns some of the series."""
        groups = (
            self.groups.take(pa.array(places, pa.int64())) if len(self.keys[0]) else self.groups
        )
        return Series(groups, [self.keys[place] for place in places])

    def describe(self, place: int) -> str:
        """Returns `series (store=3, item='A')`."""
        return describe_series(tuple(self.groups.column_names), self.take([place]).names[0])


def describe_series(group: tuple[str, ...], name: tuple[Any, ...]) -> str:
    """Returns `series (store=3, item='A')`."""
    values = ", ".join(f"{g}={v!r}" for g, v in zip(group, name, strict=True))
    return f"series ({values})" if group else "the only series"


def read_series(table: Table, group: tuple[str, ...]) -> tuple[np.ndarray, Series]:
    """Returns the series of each row, (rows,) int32, and the series.

    Raises:
        InputError: a group value is missing, or is not plain.
    """
    combined: np.ndarray = np.zeros(table.rows, np.int32)
    keys: list[tuple[str, ...]] = [()]
    groups: dict[str, Any] = {}
    for column in group:
        codes, own_keys, values = _sorted_categories(table, column)
        if not groups:
            combined, places = codes, np.arange(len(values))
            keys = [(key,) for key in own_keys]
        else:
            pairs = combined.astype(np.int64) * len(values) + codes
            present, combined = np.unique(pairs, return_inverse=True)
            combined = combined.astype(np.int32)
            before, places = np.divmod(present, len(values))
            groups = {name: taken.take(pa.array(before)) for name, taken in groups.items()}
            keys = [(*keys[b], own_keys[p]) for b, p in zip(before, places, strict=True)]
        groups[column] = values.take(pa.array(places))
    typed = {
        name: columns.as_written(values, table.columns[name]) for name, values in groups.items()
    }
    return combined, Series(pa.table(typed), keys)


def _sorted_categories(table: Table, column: str) -> tuple[np.ndarray, list[str], pa.Array]:
    """Returns a group column as codes that sort like its values, the keys and the values."""
    found = columns.categories(table, column)
    missing = found.codes < 0
    if missing.any():
        raise InputError(
            f"Every row needs its group. Received: no {column!r} in row {int(missing.argmax())} "
            "(counted from 0). Drop such rows or fill the group in."
        )
    try:
        order = pc.sort_indices(found.values).to_numpy()
    except pa.ArrowNotImplementedError:
        order = np.array(sorted(range(len(found.keys)), key=found.keys.__getitem__))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    keys = [found.keys[place] for place in order]
    return rank[found.codes], keys, found.values.take(pa.array(order))


def _python_values(values: pa.ChunkedArray) -> list[Any]:
    try:
        return values.to_pylist()
    except (ValueError, ImportError):  # nanoseconds, which Python's own times do not have
        return values.cast(pa.string()).to_pylist()
