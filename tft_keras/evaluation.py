"""How good a run's forecasts are, beside the two forecasts that need no model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tft_keras.data import Windows, prepare_again
from tft_keras.data.batches import epoch_order
from tft_keras.data.calibration import Calibration, fit_calibration
from tft_keras.data.forecasts import Predict, forecast_batches
from tft_keras.data.seasons import seasonal_naive
from tft_keras.errors import InputError, nearest
from tft_keras.metrics import ForecastMetrics, median_place
from tft_keras.training.run import Run

SPLITS = ("train", "validation", "test")
MODEL = "model"
LAST_VALUE = "last value"
SEASONAL_NAIVE = "seasonal naive"
# Whose errors are looked at for a baseline's interval.
_INTERVAL_WINDOWS = 8192


def evaluate(
    run: Run,
    source: str | os.PathLike[str] | pa.Table | None = None,
    splits: Sequence[str] = ("validation", "test"),
    season: int | None = None,
    batch_size: int = 256,
    origins: str = "all",
) -> dict[str, dict[str, Any]]:
    """Measures a run and the baselines on the same windows of a table.

    Args:
        run: whose model and preprocessing to use.
        source: the table; by default the one the run was trained on.
        splits: which splits, made as they were for training.
        season: rows in a season, for the seasonal naive forecast; by default the one whose forecast
            is best on the training split.
        batch_size: windows per step.
        origins: which windows count; see `Windows.origins`.

    Returns:
        `{split: {"model" | "last value" | "seasonal naive": ForecastMetrics.result()}}`, leaving
        out splits without windows. The baselines' intervals come from their errors on the
        validation split, or without one on the training split. The seasonal naive's has its
        `season`, too; it is left out where there is no season.

    Raises:
        InputError: a split's name is wrong, or there is no window to measure on.
    """
    _check(splits, season)
    preprocessing = run.preprocessing()
    data = prepare_again(table_of(run, source), preprocessing)
    predict = run.model().predict_on_batch
    season = season or data.preprocessing.season
    quantiles = run.config.model.quantiles
    earlier = data.validation if len(data.validation) else data.train
    results = {
        split: measure(predict, quantiles, windows, season, batch_size, origins, earlier)
        for split in splits
        if len(windows := getattr(data, split))
    }
    if not results:
        raise InputError(
            "Evaluation needs at least one window. "
            f"Received: splits={', '.join(splits)}, all without windows. Give a longer table."
        )
    return results


def table_of(
    run: Run, source: str | os.PathLike[str] | pa.Table | None
) -> str | os.PathLike[str] | pa.Table:
    """Returns `source`, or the table the run was trained on."""
    if source is None and run.config.source is None:
        raise InputError(
            "The run was trained on a table in memory, so it needs one here. "
            "Received: source=None. Name a table."
        )
    return run.config.source if source is None else source


def measure(
    predict: Predict,
    quantiles: Sequence[float],
    windows: Windows,
    season: int | None,
    batch_size: int = 256,
    origins: str = "all",
    earlier: Windows | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns the measures of the model and of both baselines on the same windows.

    Args:
        predict: the model whose forecasts are measured.
        quantiles: that it forecasts.
        windows: what is forecast.
        season: rows in a season; None leaves the seasonal naive forecast out.
        batch_size: windows per step.
        origins: which windows count; see `Windows.origins`.
        earlier: windows whose errors give the baselines an interval; without any they have none.
    """
    chosen = windows.origins(origins)
    baselines = {LAST_VALUE: None} | ({SEASONAL_NAIVE: season} if season else {})
    intervals = {
        name: _interval(earlier, quantiles, rows) if earlier and len(earlier) else None
        for name, rows in baselines.items()
    }
    collected = {MODEL: ForecastMetrics(quantiles, windows.horizon)} | {
        name: ForecastMetrics(quantiles, windows.horizon, point=interval is None)
        for name, interval in intervals.items()
    }
    for positions, forecast in forecast_batches(predict, windows, batch_size, chosen):
        last = _last(windows, positions)
        # A window without any past target has no baseline; it counts for none of the three.
        actual = np.where(np.isnan(last), np.nan, windows.actuals(positions))
        collected[MODEL].update(actual, forecast)
        for name, rows in baselines.items():
            naive = seasonal_naive(windows, positions, rows, last) if rows else last
            if intervals[name]:
                scaled = windows.scale(positions, naive)[..., None]
                naive = windows.unscale(positions, intervals[name].apply(scaled))
            collected[name].update(actual, naive)
    results = {name: metrics.result() for name, metrics in collected.items()}
    if season:
        results[SEASONAL_NAIVE]["season"] = season
    return results


def _last(windows: Windows, positions: np.ndarray) -> np.ndarray:
    """Returns the last value as a forecast, (batch, horizon)."""
    return np.repeat(windows.last_value(positions)[:, None], windows.horizon, axis=1)


def _interval(windows: Windows, quantiles: Sequence[float], season: int | None) -> Calibration:
    """Returns what makes a naive forecast one of quantiles: those of its scaled errors.

    The median is left as it is.
    """
    positions = epoch_order(len(windows), None, 0, _INTERVAL_WINDOWS)
    naive = _last(windows, positions)
    if season:
        naive = seasonal_naive(windows, positions, season, naive)
    naive = windows.scale(positions, naive)
    forecasts = np.repeat(naive[..., None], len(quantiles), axis=-1)
    known = np.where(np.isnan(naive), np.nan, windows.targets(positions))
    errors = fit_calibration(tuple(quantiles), forecasts, known, np.inf)
    offsets = np.array(errors.offsets)
    offsets[:, median_place(quantiles)] = 0
    return Calibration(tuple(map(tuple, offsets.tolist())))


def best_baseline(results: dict[str, Any]) -> str | None:
    """Returns the baseline that beats the model by the weighted quantile loss, if one does."""
    others = {n: r["wql"] for n, r in results.items() if n != MODEL and r["wql"] is not None}
    best = min(others, key=others.__getitem__, default=None)
    return best if best and others[best] < (results[MODEL]["wql"] or 0) else None


def _check(splits: Sequence[str], season: int | None) -> None:
    for split in splits:
        if split not in SPLITS:
            raise InputError(
                f"splits must be among {', '.join(SPLITS)}. "
                f"Received: {split!r}.{nearest(split, SPLITS)}"
            )
    if season is not None and season < 1:
        raise InputError(f"season must be at least 1 row. Received: season={season}.")
