"""Naive forecasts, which need no model, and the season whose naive forecast is best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tft_keras.data.windows import Windows

# Windows looked at; of a season that fewer than half of their cells have, nothing is known.
_WINDOWS = 2000
_LEAST_SHARE = 0.5


def seasonal_naive(
    windows: Windows, positions: np.ndarray, season: int, otherwise: np.ndarray
) -> np.ndarray:
    """Returns the value one season before each forecast row, (windows, horizon).

    A horizon longer than the season goes back as many whole seasons as lie before the forecast
    origin. Where the table has no value there, the forecast is `otherwise`, so that all
    forecasts are measured on the same cells.
    """
    horizon = otherwise.shape[1]
    forecast = np.array(otherwise, np.float64)
    for seasons in range(1, -(-horizon // season) + 1):
        steps = slice((seasons - 1) * season, min(seasons * season, horizon))
        earlier = windows.lagged(positions, seasons * season)[:, steps]
        forecast[:, steps] = np.where(np.isnan(earlier), forecast[:, steps], earlier)
    return forecast


def find_season(windows: Windows, candidates: Sequence[int]) -> int | None:
    """Returns the season whose naive forecast has the least mean absolute error.

    Every series counts by the mean size of its own errors, so that none drowns the others.

    Args:
        windows: of the training split.
        candidates: rows in a season; see `Step.seasons`.

    Returns:
        One of the candidates; None if there are none that the windows reach back for.
    """
    if not len(windows) or not candidates:
        return None
    count = min(len(windows), _WINDOWS)
    positions = np.arange(count, dtype=np.int64) * len(windows) // count
    actual = windows.actuals(positions)
    last = np.repeat(windows.last_value(positions)[:, None], windows.horizon, axis=1)
    size = np.abs(actual - last)
    _, series = np.unique(windows.series_places(positions), return_inverse=True)
    weight = _mean_by(series, size)
    best, least = None, np.inf
    for season in candidates:
        known = seasonal_naive(windows, positions, season, np.full_like(actual, np.nan))
        there = np.isfinite(known) & np.isfinite(actual)
        if there.sum() < _LEAST_SHARE * np.isfinite(actual).sum() or not there.any():
            continue
        naive = seasonal_naive(windows, positions, season, last)
        error = np.nanmean(np.abs(naive - actual) / weight[series][:, None])
        if error < least:
            best, least = season, error
    return best


def _mean_by(series: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the mean size of each series, 1 where nothing is known or all is zero."""
    known = np.isfinite(sizes)
    sums = np.bincount(series, np.where(known, sizes, 0).sum(axis=1))
    counts = np.bincount(series, known.sum(axis=1))
    return np.where((sums > 0) & (counts > 0), sums / np.maximum(counts, 1), 1.0)
