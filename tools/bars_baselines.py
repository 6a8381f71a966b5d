"""Measures a run on bars beside forecasts that need no network: zero, last value, mean, HAR.

  python -m tools.bars_baselines --run_dir runs/mine
MAE and RMSE of the median forecast, and R2, the share of the squared error that a forecast saves:
against forecasting 0 (for returns), and against the mean of the training windows (for volatility);
both over the whole horizon and at its last step alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tft_keras.commands import command
from tft_keras.errors import InputError

FLAGS = command.Flags(__doc__)
with FLAGS.group("Input and output"):
    FLAGS.string("run_dir", None, "Folder of the run.")
    FLAGS.string("parquet_file", None, "Table to measure on. Default: the run's own.")
    FLAGS.string("json_file", None, "Write the measures to this JSON file, too.")
with FLAGS.group("Measuring"):
    FLAGS.choice("split", "test", ("validation", "test"), "Split to measure.")
    FLAGS.integer("batch_size", 256, "Windows per step.")

_COLUMNS = {
    "mae": "MAE",
    "rmse": "RMSE",
    "r2_zero": "R2 to zero",
    "r2_zero_last": "last step",
    "r2_mean": "R2 to mean",
    "r2_mean_last": "last step",
}


def main(flags: command.Values) -> None:
    """Prints the measures and writes them as JSON."""
    if not flags.run_dir:
        raise InputError("Baselines are put beside a run. Received: no --run_dir. Give one.")
    command.require_positive(flags, "batch_size")
    command.import_tensorflow()
    from tft_keras import atomic
    from tft_keras.data import prepare_again
    from tft_keras.data.bars import measure_baselines
    from tft_keras.evaluation import table_of
    from tft_keras.training import Run

    run = Run.open(flags.run_dir)
    data = prepare_again(table_of(run, flags.parquet_file), run.preprocessing())
    windows = getattr(data, flags.split)
    if not len(windows):
        raise InputError(
            f"Measuring needs a window. Received: split={flags.split} without one. Give a longer "
            "table."
        )
    model = _median_forecasts(run, windows, flags.batch_size)
    results = measure_baselines(data.train, windows, model)
    print(_table(flags.split, results))
    if flags.json_file:
        atomic.write_text(flags.json_file, json.dumps(results, indent=1) + "\n")


def _median_forecasts(
    run: Any, windows: Any, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from tft_keras.data.forecasts import forecast_batches
    from tft_keras.metrics import median_place

    median = median_place(run.config.model.quantiles)
    predict = run.model().predict_on_batch
    for positions, forecast in forecast_batches(predict, windows, batch_size):
        yield positions, forecast[..., median]


def _table(split: str, results: dict[str, dict[str, float]]) -> str:
    width = max(map(len, results))
    lines = [f"{split}: {next(iter(results.values()))['values']:,} values"]
    lines.append(" ".join([" " * width, *(f"{title:>12}" for title in _COLUMNS.values())]))
    for name, measures in results.items():
        numbers = [f"{measures[key]:>12.4g}" for key in _COLUMNS]
        lines.append(" ".join([name.ljust(width), *numbers]))
    return "\n".join(lines)


if __name__ == "__main__":
    command.run(main, FLAGS)
