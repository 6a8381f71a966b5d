"""Everything that windows read: scaled rows, series and where they begin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from tft_keras.data.derived import STATISTICS
from tft_keras.data.series import Series
from tft_keras.data.times import TimeAxis

ROW_MATRICES = {
    "known_real": np.float32,
    "known_categorical": np.int32,
    "observed_real": np.float32,
    "observed_categorical": np.int32,
    STATISTICS: np.float64,
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SeriesTable:
    """What is one per series.

    Attributes:
        axis: the time axis.
        series: their names.
        offsets: (series + 1,) first row of each series.
        segments: first rows of the runs of rows without a gap, rising.
        validation, test: (series,) first row of these splits.
        scaling: (series,) the series' place among those that scaling was fitted on, -1 if it is
            not one of them.
        static_real: (series, variables) float32, scaled.
        static_categorical: (series, variables) int32.
    """

    axis: TimeAxis
    series: Series
    offsets: np.ndarray
    segments: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    scaling: np.ndarray
    static_real: np.ndarray
    static_categorical: np.ndarray

    def longest(self) -> tuple[int, int]:
        """Returns the longest run of rows without a gap, and its series."""
        lengths = np.diff(np.append(self.segments, self.offsets[-1]))
        place = int(lengths.argmax())
        first = self.segments[place]
        return int(lengths[place]), int(np.searchsorted(self.offsets, first, side="right")) - 1


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Store:
    """The rows of all series, one after another, in memory or mapped from a file.

    Attributes:
        series: what is one per series.
        times: (rows,) int64.
        target: (rows,) float64 in its own units, NaN where missing.
        known_real, observed_real: (rows, columns) float32, scaled, NaN where missing, row by row in
            memory: the rows of a window are one contiguous piece. The first observed one is the
            target.
        known_categorical, observed_categorical: (rows, columns) int32.
        target_statistics: (rows, 2) float64, the target's center and scale at each row with local
            scaling; (rows, 0) without.
    """

    series: SeriesTable
    times: np.ndarray
    target: np.ndarray
    known_real: np.ndarray
    known_categorical: np.ndarray
    observed_real: np.ndarray
    observed_categorical: np.ndarray
    target_statistics: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.times)


def store_in_memory(
    series: SeriesTable,
    times: np.ndarray,
    target: np.ndarray,
    widths: dict[str, int],
    columns: Iterator[tuple[str, int, np.ndarray]],
) -> Store:
    """Fills a store.

    Args:
        widths: number of columns of each of `ROW_MATRICES`.
        columns: as `encode_columns` yields them.
    """
    matrices = {
        name: np.empty((len(times), width), ROW_MATRICES[name]) for name, width in widths.items()
    }
    for name, position, values in columns:
        matrices[name][:, position] = values
    return Store(series, times, target, **matrices)
