"""From a run and a table to quantile forecasts in the target's own units."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tft_keras.data import Windows
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.run import Run


def forecast(
    run: Run, source: str | os.PathLike[str] | pa.Table, batch_size: int = 256
) -> pa.Table:
    """Forecasts the horizon after the last target of every series in a table.

    Args:
        run: whose model and preprocessing to use.
        source: a table with the columns the run was trained on. After the last row with a target it
            must go on with the known inputs of the horizon.
        batch_size: windows per step.

    Returns:
        One row per series and horizon step: the group columns, the time column in the type it has
        in `source`, `step` (from 1) and one column `q<quantile>` per quantile.

    Raises:
        InputError: the table does not fit the run, or lacks known inputs over the horizon.
    """
    windows = run.preprocessing().forecast_windows(source)
    return forecast_table(run, windows, batch_size)


def forecast_table(run: Run, windows: Windows, batch_size: int = 256) -> pa.Table:
    """Returns the forecasts of `windows` as the table that `forecast` describes."""
    if not len(windows):
        raise InputError(
            "A forecast needs a series with encoder_steps rows. Received: a table without one, "
            f"where encoder_steps={run.config.data.encoder_steps}. Give the series' earlier rows."
        )
    model, schema = run.model(), run.config.schema
    batches = list(forecast_batches(model, windows, batch_size))
    positions = np.concatenate([positions for positions, _ in batches])
    values = np.concatenate([forecast for _, forecast in batches])
    horizon = values.shape[1]
    columns = _series_columns(windows, positions, schema.group, horizon)
    columns[schema.time] = windows.time_column(positions)
    columns["step"] = np.tile(np.arange(1, horizon + 1, dtype=np.int32), len(positions))
    for index, quantile in enumerate(run.config.model.quantiles):
        columns[f"q{quantile:g}"] = values[..., index].reshape(-1)
    return pa.table(columns)


def forecast_batches(
    model: TemporalFusionTransformer, windows: Windows, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Forecasts windows in their order, batch by batch.

    Yields:
        The positions of the batch's windows, and their forecasts (windows, horizon, quantiles) in
        the target's units, float64.
    """
    for start in range(0, len(windows), batch_size):
        positions = np.arange(start, min(start + batch_size, len(windows)))
        inputs, _ = windows.gather(positions)
        scaled = np.asarray(model.predict_on_batch(inputs), np.float64)
        yield positions, windows.unscale(positions, scaled)


def _series_columns(
    windows: Windows, positions: np.ndarray, names: tuple[str, ...], horizon: int
) -> dict[str, list]:
    series = windows.series(positions)
    return {
        name: [values[index] for values in series for _ in range(horizon)]
        for index, name in enumerate(names)
    }
