"""Makes a table of 225 inputs of open, high, low, close, volume bars; needs the extra `bars`.

  python -m tools.prepare_bars --parquet_file bars.parquet --output features.parquet
  python -m tools.train --config features.json --parquet_file features.parquet
For a forecast with the trained model, from newer bars:
  python -m tools.prepare_bars --parquet_file new.parquet --output new_features.parquet
      --like features.parquet --future_rows 10
  python -m tools.forecast --run_dir runs/mine --parquet_file new_features.parquet
      --output forecast.parquet
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tft_keras.commands import command
from tft_keras.errors import InputError

FLAGS = command.Flags(__doc__)
with FLAGS.group("Input and output"):
    FLAGS.string("parquet_file", None, "Bars: Parquet file, folder of parquet files, or glob.")
    FLAGS.string("output", None, "Parquet file to write; the settings are a .json file beside it.")
    FLAGS.string(
        "like", None, "Features made before: take over their settings, sessions, static inputs."
    )
with FLAGS.group("Columns of the bars, found by their usual names where not given"):
    FLAGS.string("time", None, "Times: timestamps, dates, ISO texts, or counts since 1970.")
    FLAGS.strings("group", (), "Columns whose values together name an instrument.")
    FLAGS.string("open", None, "First price.")
    FLAGS.string("high", None, "Highest price.")
    FLAGS.string("low", None, "Lowest price.")
    FLAGS.string("close", None, "Last price.")
    FLAGS.string("volume", None, "Traded volume.")
with FLAGS.group("Market"):
    FLAGS.string(
        "exchange",
        "auto",
        "Calendar of the sessions: a name in pandas_market_calendars (NYSE, CMEGlobex_FX, ...), "
        "24/7, or auto: as the gaps of the training rows have them.",
    )
    FLAGS.string("time_zone", None, "Zone of times without one. Default: UTC.")
    FLAGS.number("bar_minutes", 0.0, "Distance of bars; 0 takes the most frequent one.")
    FLAGS.integer(
        "max_filled_bars",
        10,
        "Fill at most so many missing bars in a row within a session; more end the session.",
    )
with FLAGS.group("Target and windows"):
    FLAGS.choice(
        "target", "log_return", ("log_return", "realized_volatility", "price"), "What to forecast."
    )
    FLAGS.integer(
        "target_steps",
        0,
        "Bars the target looks back on; 0 is 1 for a return and 10 for volatility.",
    )
    FLAGS.number(
        "training_share",
        0.8,
        "Share of rows to train on, and to take static inputs from; validation and test halve the "
        "rest.",
    )
    FLAGS.integer("encoder_steps", 50, "Past rows of a window.")
    FLAGS.integer("horizon", 10, "Future rows of a window.")
    FLAGS.choice(
        "gaps",
        "auto",
        ("auto", "split", "ignore"),
        "Windows at the gaps between sessions; auto splits where sessions are long enough.",
    )
    FLAGS.integer("future_rows", 0, "Rows after the last bar with known inputs, for a forecast.")


def main(flags: command.Values) -> None:
    """Writes the features and the settings to train on them."""
    for name in ("parquet_file", "output"):
        if not getattr(flags, name):
            raise InputError(
                f"Features need --parquet_file and --output. Received: no --{name}. Give it."
            )
    path = pathlib.Path(flags.output)
    if path.suffix == ".json":
        raise InputError(
            f"output must not end in .json, as the settings do. Received: output={flags.output!r}."
        )
    import pyarrow.parquet as pq

    from tft_keras import atomic
    from tft_keras.data.bars import prepare_bars

    features = prepare_bars(flags.parquet_file, _options(flags), flags.like)
    with atomic.replacing(path) as temporary:
        # Nearly all observed values differ: looking for equal ones would only take time.
        repeated = [*features.schema.group, *features.schema.static, *features.schema.known]
        pq.write_table(features.table, temporary, use_dictionary=repeated)
    settings = path.with_suffix(".json")
    atomic.write_text(settings, json.dumps(features.settings, indent=1) + "\n")
    print(_report(path, settings, features))


def _options(flags: command.Values) -> Any:
    """The options: the flags given, then those of `--like`, then the defaults."""
    import dataclasses

    from tft_keras.data.bars import BarOptions, read_description

    names = [field.name for field in dataclasses.fields(BarOptions)]
    values = {name: getattr(flags, name) for name in names}
    values["group"] = values["group"] or None
    if flags.like:
        stored = read_description(flags.like)["options"]
        values |= {name: stored[name] for name in stored if name not in flags.given_flags}
    return BarOptions.from_dict(values)


def _report(path: pathlib.Path, settings: pathlib.Path, features: Any) -> str:
    schema, table = features.schema, features.table
    series = table.select(list(schema.group)).group_by(list(schema.group)).aggregate([]).num_rows
    return "\n".join(
        [
            f"{path}: {table.num_rows:,} rows, {series if schema.group else 1} instruments, "
            f"gaps={features.settings['gaps']}",
            f"{len(schema.static)} static, {len(schema.observed) + 1} observed, "
            f"{len(schema.known)} known inputs",
            f"next: python -m tools.train --config {settings} --parquet_file {path}",
        ]
    )


if __name__ == "__main__":
    command.run(main, FLAGS)
