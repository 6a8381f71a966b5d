"""How good a run's forecasts are, beside the two forecasts that need no model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tft_keras.data import Windows
from tft_keras.data.forecasts import Predict, forecast_batches
from tft_keras.errors import InputError, nearest
from tft_keras.metrics import ForecastMetrics
from tft_keras.training.run import Run

SPLITS = ("train", "validation", "test")
MODEL = "model"
LAST_VALUE = "last value"
SEASONAL_NAIVE = "seasonal naive"


def evaluate(
    run: Run,
    source: str | os.PathLike[str] | pa.Table | None = None,
    splits: Sequence[str] = ("validation", "test"),
    season: int | None = None,
    batch_size: int = 256,
) -> dict[str, dict[str, Any]]:
    """Measures a run and the baselines on the same windows of a table.

    Args:
        run: whose model and preprocessing to use.
        source: the table; by default the one the run was trained on.
        splits: which splits, made as they were for training.
        season: rows in a season, for the seasonal naive forecast; by default guessed from the
            table's time step.
        batch_size: windows per step.

    Returns:
        `{split: {"model" | "last value" | "seasonal naive": ForecastMetrics.result()}}`, leaving
        out splits without windows.

    Raises:
        InputError: a split's name is wrong, or there is no window to measure on.
    """
    _check(splits, season)
    preprocessing = run.preprocessing()
    data = preprocessing.prepare(table_of(run, source))
    model = run.model()
    season = season or preprocessing.season
    quantiles = run.config.model.quantiles
    results = {
        split: measure(model.predict_on_batch, quantiles, getattr(data, split), season, batch_size)
        for split in splits
        if len(getattr(data, split))
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
    season: int,
    batch_size: int = 256,
) -> dict[str, dict[str, Any]]:
    """Returns the measures of the model and of both baselines on the same windows.

    Args:
        predict: the model whose forecasts are measured.
        quantiles: that it forecasts.
        windows: what is forecast.
        season: rows in a season.
        batch_size: windows per step.
    """
    horizon = windows.horizon
    collected = {
        MODEL: ForecastMetrics(quantiles, horizon),
        LAST_VALUE: ForecastMetrics(quantiles, horizon, point=True),
        SEASONAL_NAIVE: ForecastMetrics(quantiles, horizon, point=True),
    }
    for positions, forecast in forecast_batches(predict, windows, batch_size):
        last = np.repeat(windows.last_value(positions)[:, None], horizon, axis=1)
        # A window without any past target has no baseline; it counts for none of the three.
        actual = np.where(np.isnan(last), np.nan, windows.actuals(positions))
        seasonal = seasonal_naive(windows, positions, season, last)
        for name, values in ((MODEL, forecast), (LAST_VALUE, last), (SEASONAL_NAIVE, seasonal)):
            collected[name].update(actual, values)
    return {name: metrics.result() for name, metrics in collected.items()}


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


def _check(splits: Sequence[str], season: int | None) -> None:
    for split in splits:
        if split not in SPLITS:
            raise InputError(
                f"splits must be among {', '.join(SPLITS)}. "
                f"Received: {split!r}.{nearest(split, SPLITS)}"
            )
    if season is not None and season < 1:
        raise InputError(f"season must be at least 1 row. Received: season={season}.")
