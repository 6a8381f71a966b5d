"""Forecasts of windows in the target's own units, by whatever computes the scaled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tft_keras.data.windows import Inputs, Windows
from tft_keras.errors import InputError

# From the inputs of a batch of windows to scaled quantiles (windows, horizon, quantiles).
Predict = Callable[[Inputs], np.ndarray]


def forecast_batches(
    predict: Predict, windows: Windows, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Forecasts windows in their order, batch by batch.

    Yields:
        The positions of the batch's windows, and their forecasts (windows, horizon, quantiles) in
        the target's units, float64.
    """
    for start in range(0, len(windows), batch_size):
        positions = np.arange(start, min(start + batch_size, len(windows)))
        inputs, _ = windows.gather(positions)
        scaled = np.asarray(predict(inputs), np.float64)
        yield positions, windows.unscale(positions, scaled)


def forecast_table(
    predict: Predict, windows: Windows, quantiles: Sequence[float], batch_size: int
) -> pa.Table:
    """Returns one row per window and horizon step.

    Returns:
        The group columns, the time column in the type it has in the table, `step` (from 1) and one
        column `q<quantile>` per quantile, in the target's units.

    Raises:
        InputError: there is no window.
    """
    if not len(windows):
        raise InputError(
            "A forecast needs a series with encoder_steps rows. Received: a table without one, "
            f"where encoder_steps={windows.encoder_steps}. Give the series' earlier rows."
        )
    batches = list(forecast_batches(predict, windows, batch_size))
    positions = np.concatenate([positions for positions, _ in batches])
    values = np.concatenate([forecast for _, forecast in batches])
    horizon, schema = values.shape[1], windows.preprocessing.schema
    columns = _series_columns(windows, positions, schema.group, horizon)
    columns[schema.time] = windows.time_column(positions)
    columns["step"] = np.tile(np.arange(1, horizon + 1, dtype=np.int32), len(positions))
    for index, quantile in enumerate(quantiles):
        columns[f"q{quantile:g}"] = values[..., index].reshape(-1)
    return pa.table(columns)


def _series_columns(
    windows: Windows, positions: np.ndarray, names: tuple[str, ...], horizon: int
) -> dict[str, list]:
    series = windows.series(positions)
    return {
        name: [values[index] for values in series for _ in range(horizon)]
        for index, name in enumerate(names)
    }
