"""Everything that windows read: scaled rows, series and where they begin."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tft_keras.data.times import TimeAxis

ROW_MATRICES = ("known_real", "known_categorical", "observed_real", "observed_categorical")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SeriesTable:
    """What is one per series.

    Attributes:
        axis: the time axis.
        names: group values.
        offsets: (series + 1,) first row of each series.
        segments: first rows of the runs of rows without a gap, rising.
        validation, test: (series,) first row of these splits.
        scaling: (series,) the series' place among those that scaling was fitted on, -1 if it is
            not one of them.
        static_real: (series, variables) float32, scaled.
        static_categorical: (series, variables) int32.
    """

    axis: TimeAxis
    names: list[tuple[Any, ...]]
    offsets: np.ndarray
    segments: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    scaling: np.ndarray
    static_real: np.ndarray
    static_categorical: np.ndarray


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
    """

    series: SeriesTable
    times: np.ndarray
    target: np.ndarray
    known_real: np.ndarray
    known_categorical: np.ndarray
    observed_real: np.ndarray
    observed_categorical: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.times)
