"""The columns of a table in the order of its layout."""

from __future__ import annotations

import functools

import numpy as np

from tft_keras.data import calendar, columns
from tft_keras.data.layout import Layout
from tft_keras.data.table import Table
from tft_keras.errors import InputError


class Rows:
    """Reads columns in the order of series and time, one at a time.

    Args:
        table: whose columns they are.
        layout: the order of its rows.
    """

    def __init__(self, table: Table, layout: Layout) -> None:
        self.table, self.layout = table, layout
        self._last: tuple[str, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.layout.rows

    def laid_out(self, layout: Layout) -> Rows:
        """Returns the same table in another layout; the column read last is not decoded again."""
        rows = Rows(self.table, layout)
        rows._last = self._last
        return rows

    def reals(self, column: str) -> np.ndarray:
        """Reads a real-valued column.

        Returns:
            (rows,) float64, NaN where missing.

        Raises:
            InputError: a value is infinite.
        """
        if self._last is None or self._last[0] != column:
            self._last = column, columns.reals(self.table, column)
        values = self.layout.take(self._last[1], np.nan)
        infinite = np.isinf(values)
        if infinite.any():
            row = int(infinite.argmax())
            raise InputError(
                "Values must be finite or missing. Received: "
                f"{column}={float(values[row])} in {self.layout.describe(row)}; "
                f"{int(infinite.sum())} such rows. Replace infinity by a number or by null."
            )
        return values

    def target(self, column: str, log1p: bool) -> np.ndarray:
        """Reads the target; see `reals`.

        Raises:
            InputError: a value is infinite, or below zero where its logarithm is asked for.
        """
        target = self.reals(column)
        negative = target < 0
        if log1p and negative.any():
            row = int(negative.argmax())
            raise InputError(
                "target_log1p needs a target that is never negative. Received: "
                f"{column}={float(target[row])} in {self.layout.describe(row)}. "
                "Set target_log1p=False."
            )
        return target

    def categories(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Reads a categorical column.

        Returns:
            (rows,) int32 positions in the keys, -1 where missing; the keys.
        """
        found = columns.categories(self.table, column)
        return self.layout.take(found.codes, -1), found.keys

    def calendar_categories(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Returns a categorical calendar input as `categories` does."""
        return calendar.categories(name, self._clock)

    def calendar_wave(self, name: str) -> np.ndarray:
        """Returns a real-valued calendar input, (rows,) float64."""
        return calendar.wave(name, self._clock)

    @functools.cached_property
    def _clock(self) -> np.ndarray:
        return self.layout.axis.wall_clock(self.layout.times)

    def static_reals(self, column: str) -> np.ndarray:
        """Reads a real-valued column that is constant in each series, missing values apart.

        Returns:
            (series,) float64, NaN where missing in all rows.

        Raises:
            InputError: it is not constant, or infinite.
        """
        values = self.reals(column)
        low = np.fmin.reduceat(values, self.layout.offsets[:-1])
        high = np.fmax.reduceat(values, self.layout.offsets[:-1])
        self._check_static(column, low < high, low, high)
        return low

    def static_categories(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Reads a categorical column that is constant in each series, missing values apart.

        Returns:
            (series,) int32 positions in the keys, -1 where missing in all rows; the keys.

        Raises:
            InputError: it is not constant.
        """
        codes, keys = self.categories(column)
        high = np.maximum.reduceat(codes, self.layout.offsets[:-1])
        low = np.minimum.reduceat(np.where(codes < 0, len(keys), codes), self.layout.offsets[:-1])
        text = np.array([*keys, ""], object)
        self._check_static(column, low < high, text[low], text[high])
        return high, keys

    def _check_static(
        self, column: str, varies: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        if varies.any():
            place = int(varies.argmax())
            one, other = (ends.tolist()[place] for ends in (low, high))
            raise InputError(
                "A static column must be constant in each series. Received: "
                f"{column}={one!r} and {other!r} in {self.layout.series.describe(place)}. "
                "Name it in `known` or `observed`, or complete `group`."
            )
