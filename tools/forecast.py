"""Forecasts the horizon after the last target of every series in a table.

  python -m tools.forecast --run_dir runs/mine --parquet_file new.parquet --output forecast.parquet
The table has the columns the run was trained on and, after the last row with a target, the known
inputs of the horizon. The forecasts have one row per series and step: the group columns, the time,
the step and one column per quantile, in the target's own units.
"""

from __future__ import annotations

import pathlib

from tft_keras.commands import command
from tft_keras.errors import InputError

FLAGS = command.Flags(__doc__)
with FLAGS.group("Input and output"):
    FLAGS.string("run_dir", None, "Folder of the run.")
    FLAGS.string("parquet_file", None, "Parquet file, folder of parquet files, or glob.")
    FLAGS.string("output", None, "Parquet file to write.")
    FLAGS.string("plot", None, "Draw history, forecast and interval to this PNG file.")
with FLAGS.group("Forecasting"):
    FLAGS.integer("plot_series", 4, "Series to draw, the first ones in the table's order.")
    FLAGS.integer("batch_size", 256, "Windows per step.")
    FLAGS.numbers(
        "quantiles", (), "Quantiles to write, interpolated between those trained (the default)."
    )


def main(flags: command.Values) -> None:
    """Writes the forecasts and draws some of them."""
    for name in ("run_dir", "parquet_file", "output"):
        if not getattr(flags, name):
            raise InputError(
                f"A forecast needs --run_dir, --parquet_file and --output. Received: no --{name}."
            )
    command.require_positive(flags, "batch_size", "plot_series")
    if flags.plot:
        from tools.forecast_plot import check

        check(flags.plot)
    command.import_tensorflow()
    import pyarrow.parquet as pq

    from tft_keras import atomic
    from tft_keras.data import forecast_windows
    from tft_keras.forecast import forecast_table
    from tft_keras.training import Run

    run = Run.open(flags.run_dir)
    windows = forecast_windows(flags.parquet_file, run.preprocessing())
    forecasts = forecast_table(run, windows, flags.batch_size, flags.quantiles)
    with atomic.replacing(flags.output) as temporary:
        pq.write_table(forecasts, temporary)
    print(f"{pathlib.Path(flags.output)}: {forecasts.num_rows:,} rows, {len(windows):,} series")
    if flags.plot:
        from tools.forecast_plot import draw

        with atomic.replacing(flags.plot) as temporary:
            draw(run, windows, forecasts, flags.plot_series, temporary)
        print(f"{flags.plot}: drawn")


if __name__ == "__main__":
    command.run(main, FLAGS)
