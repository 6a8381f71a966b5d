"""Splits of every series into training, validation and test rows, in time order."""

from __future__ import annotations

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data.layout import Layout

SPLITS = ("train", "validation", "test")


def split_rows(
    layout: Layout, config: DataConfig, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Finds where the validation and the test rows of each series start.

    Shares, and numbers of last rows, are of a series' rows up to its last known target.

    Args:
        known: (rows,) bool, whether the row's target is known.

    Returns:
        Two (series,) int64 arrays of row numbers, the second never below the first.

    Raises:
        InputError: a split time is not a time of the table's kind.
    """
    begin, end = layout.offsets[:-1], layout.offsets[1:]
    last = np.maximum.reduceat(np.where(known, np.arange(layout.rows), -1), begin)
    stop = np.where(last >= begin, last + 1, end)
    test = _start(layout, config, "test", begin, stop, stop)
    validation = _start(layout, config, "validation", begin, stop, test)
    return np.minimum(validation, test), test


def _start(
    layout: Layout,
    config: DataConfig,
    name: str,
    begin: np.ndarray,
    stop: np.ndarray,
    before: np.ndarray,
) -> np.ndarray:
    """Returns the first row of a split that ends at `before`, or starts at a given time."""
    steps, value = getattr(config, f"{name}_steps"), getattr(config, name)
    if steps:
        return np.maximum(before - steps, begin)
    share_zero = type(value) is int and value == 0 and layout.axis.unit is not None
    if isinstance(value, float) or share_zero:
        rows = np.floor((stop - begin) * value + 0.5).astype(np.int64)
        return np.maximum(before - rows, begin)
    time = layout.axis.parse(value, name)
    earlier = np.add.reduceat((layout.times < time).astype(np.int64), begin)
    return np.minimum(begin + earlier, stop)
