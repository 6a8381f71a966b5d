"""From a run and a table to quantile forecasts in the target's own units."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from tft_keras.data import Windows, forecast_windows, forecasts
from tft_keras.training.run import Run


def forecast(
    run: Run,
    source: str | os.PathLike[str] | pa.Table,
    batch_size: int = 256,
    quantiles: Sequence[float] = (),
) -> pa.Table:
    """Forecasts the horizon after the last target of every series in a table.

    Args:
        run: whose model and preprocessing to use.
        source: a table with the columns the run was trained on. After the last row with a target it
            must go on with the known inputs of the horizon.
        batch_size: windows per step.
        quantiles: those wanted, interpolated between those trained, which are the default.

    Returns:
        One row per series and horizon step; see `forecasts.forecast_table`.

    Raises:
        InputError: the table does not fit the run, or lacks known inputs over the horizon.
    """
    windows = forecast_windows(source, run.preprocessing())
    return forecast_table(run, windows, batch_size, quantiles)


def forecast_table(
    run: Run, windows: Windows, batch_size: int = 256, quantiles: Sequence[float] = ()
) -> pa.Table:
    """Returns the forecasts of `windows` as the table that `forecast` describes."""
    predict = run.model().predict_on_batch
    trained = run.config.model.quantiles
    return forecasts.forecast_table(predict, windows, trained, batch_size, quantiles)
