"""Measures over the last bars, exact and causal.

A window's sum is built of sums of 1, 2, 4, ... values, so that each result depends on the values of
its window only. A running sum would carry rounding, and all of a huge value that has left the
window, to every later row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# A variance this small beside the mean square is rounding.
_FLAT = 1e-12


def shift(values: np.ndarray, rows: int) -> np.ndarray:
    """Returns the values so many rows before, NaN where there are none."""
    result = np.full(len(values), np.nan)
    if rows < len(values):
        result[rows:] = values[: len(values) - rows]
    return result


def _windowed(
    values: np.ndarray, window: int, join: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    result, covered, block, size = None, 0, np.asarray(values, np.float64), 1
    while True:
        if window & size:
            part = shift(block, covered) if covered else block
            result = part if result is None else join(result, part)
            covered += size
        if covered == window:
            return result
        block = join(block, shift(block, size))
        size *= 2


def total(values: np.ndarray, window: int) -> np.ndarray:
    """Returns (rows,) sums of the last `window` values; NaN where there are fewer."""
    return _windowed(values, window, np.add)


def mean(values: np.ndarray, window: int) -> np.ndarray:
    """Returns (rows,) means of the last `window` values."""
    return total(values, window) / window


def highest(values: np.ndarray, window: int) -> np.ndarray:
    """Returns (rows,) largest of the last `window` values."""
    return _windowed(values, window, np.maximum)


def lowest(values: np.ndarray, window: int) -> np.ndarray:
    """Returns (rows,) smallest of the last `window` values."""
    return _windowed(values, window, np.minimum)


def deviation(values: np.ndarray, window: int) -> np.ndarray:
    """Returns (rows,) standard deviations of the last `window` values; 0 where they are alike."""
    square, center = mean(values * values, window), mean(values, window)
    variance = square - center * center
    flat = (variance <= _FLAT * square) | (highest(values, window) == lowest(values, window))
    return np.sqrt(np.where(flat, 0.0, variance))


def ratio(above: np.ndarray, below: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """Returns `above / below`, and `otherwise` where `below` is 0."""
    none = below == 0
    return np.where(none, otherwise, above / np.where(none, 1.0, below))


def position(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns where values lie between low (0) and high (1); 0.5 where these are alike."""
    return ratio(values - low, high - low, 0.5)


def within(values: np.ndarray, period: np.ndarray, accumulate: Callable) -> np.ndarray:
    """Accumulates (rows,) values anew in each run of equal `period`."""
    starts = np.flatnonzero(np.append(True, np.diff(period) != 0))
    parts = [accumulate(part) for part in np.split(values, starts[1:])]
    return np.concatenate(parts)
