"""Forecasts of windows in the target's own units, by whatever computes the scaled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tft_keras.data.series import describe_series
from tft_keras.data.windows import Inputs, Windows
from tft_keras.errors import InputError

# From the inputs of a batch of windows to scaled quantiles (windows, horizon, quantiles).
Predict = Callable[[Inputs], np.ndarray]


def forecast_batches(
    predict: Predict, windows: Windows, batch_size: int, chosen: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Forecasts windows in their order, batch by batch.

    Args:
        chosen: positions of the windows to forecast; all by default.

    Yields:
        The positions of the batch's windows, and their forecasts (windows, horizon, quantiles),
        calibrated and in the target's units, float64.

    Raises:
        InputError: a forecast is not finite.
    """
    chosen = np.arange(len(windows)) if chosen is None else chosen
    calibration = windows.preprocessing.calibration
    for start in range(0, len(chosen), batch_size):
        positions = chosen[start : start + batch_size]
        inputs, _ = windows.gather(positions)
        scaled = np.asarray(predict(inputs), np.float64)
        if calibration:
            scaled = calibration.apply(scaled)
        with np.errstate(over="ignore", invalid="ignore"):
            forecast = windows.unscale(positions, scaled)
        _check_finite(windows, positions, forecast)
        yield positions, forecast


def _check_finite(windows: Windows, positions: np.ndarray, forecast: np.ndarray) -> None:
    finite = np.isfinite(forecast).all(axis=(1, 2))
    if not finite.all():
        place = int(np.argmin(finite))
        names = windows.store.series.series
        series = describe_series(
            tuple(names.groups.column_names), windows.series(positions[place : place + 1])[0]
        )
        raise InputError(
            f"Forecasts must be finite. Received: one that is not, of {series} from "
            f"{windows.wall_clock(windows.times(positions[[place]]))[0, 0]} on. Look for values "
            "far outside of those trained on, or train with scaling='robust' or target_log1p."
        )


def interpolated(
    forecast: np.ndarray, trained: Sequence[float], asked: Sequence[float]
) -> np.ndarray:
    """Returns other quantiles than those trained, on straight lines between their neighbours.

    Args:
        forecast: (..., trained), rising.
        trained: the quantiles forecast.
        asked: those wanted, between the lowest and the highest of them.

    Raises:
        InputError: one of them lies outside.
    """
    outside = [q for q in asked if not trained[0] <= q <= trained[-1]]
    if outside:
        raise InputError(
            f"Quantiles are interpolated between those trained, {trained[0]:g} and "
            f"{trained[-1]:g}. Received: {', '.join(f'{q:g}' for q in outside)}. "
            "Ask for others, or train with more quantiles."
        )
    if len(trained) == 1:
        return forecast
    upper = np.clip(np.searchsorted(trained, asked), 1, len(trained) - 1)
    known = np.asarray(trained, np.float64)
    weight = (np.asarray(asked) - known[upper - 1]) / (known[upper] - known[upper - 1])
    low, high = forecast[..., upper - 1], forecast[..., upper]
    # A quantile that was trained stays what it is, to the last bit.
    return np.where(weight == 1, high, low + weight * (high - low))


def forecast_table(
    predict: Predict,
    windows: Windows,
    quantiles: Sequence[float],
    batch_size: int,
    asked: Sequence[float] = (),
) -> pa.Table:
    """Returns one row per window and horizon step.

    Args:
        quantiles: that `predict` forecasts.
        asked: those wanted, by default the same; see `interpolated`.

    Returns:
        The group and time columns in the types they have in the table, `step` (from 1) and one
        column `q<quantile>` per quantile, in the target's units.

    Raises:
        InputError: there is no window, or a quantile lies outside of those forecast.
    """
    asked = sorted(set(asked)) or quantiles
    interpolated(np.zeros(len(quantiles)), quantiles, asked)  # what is wrong is said at once
    if not len(windows):
        raise InputError(
            "A forecast needs a series with encoder_steps rows. Received: a table without one, "
            f"where encoder_steps={windows.encoder_steps}. Give the series' earlier rows."
        )
    batches = list(forecast_batches(predict, windows, batch_size))
    positions = np.concatenate([positions for positions, _ in batches])
    values = np.concatenate([forecast for _, forecast in batches])
    values = interpolated(values, quantiles, asked)
    horizon, schema = values.shape[1], windows.preprocessing.schema
    rows = np.repeat(positions, horizon)
    groups = windows.group_columns(rows)
    columns = {name: groups[name] for name in schema.group}
    columns[schema.time] = windows.time_column(positions)
    columns["step"] = np.tile(np.arange(1, horizon + 1, dtype=np.int32), len(positions))
    for index, quantile in enumerate(asked):
        columns[f"q{quantile:g}"] = values[..., index].reshape(-1)
    return pa.table(columns)
