"""Measures a run's forecasts beside two that need no model: last value and seasonal naive.

  python -m tools.evaluate --run_dir runs/mine
Per split, over all horizon steps and for each: quantile losses, normalized q-risk and their mean
(WQL), MAE, RMSE, SMAPE, coverage of the interval between the outer quantiles, share of crossing
quantiles. The baselines' intervals are their errors' on the validation split.
"""

from __future__ import annotations

import json
from typing import Any

from tft_keras.commands import command
from tft_keras.errors import InputError

FLAGS = command.Flags(__doc__)
with FLAGS.group("Input and output"):
    FLAGS.string("run_dir", None, "Folder of the run.")
    FLAGS.string("parquet_file", None, "Table to measure on. Default: the run's own.")
    FLAGS.string("json_file", None, "Write all measures to this JSON file, too.")
with FLAGS.group("Measuring"):
    FLAGS.strings(
        "splits", ("validation", "test"), "Splits to measure, of train, validation and test."
    )
    FLAGS.string(
        "test_origins",
        "all",
        "Windows of each split that count: all, last (one a series), or every:N, counted back from "
        "the last one of each series.",
    )
    FLAGS.integer(
        "season",
        None,
        "Rows in a season. Default: of those that the table's step suggests, the one whose naive "
        "forecast is best on the training split.",
    )
    FLAGS.boolean("steps", True, "Show each horizon step.")
    FLAGS.integer("batch_size", 256, "Windows per step.")


def main(flags: command.Values) -> None:
    """Prints the table of measures and writes them as JSON."""
    if not flags.run_dir:
        raise InputError("Evaluation needs a run. Received: no --run_dir.")
    command.require_positive(flags, "batch_size")
    command.import_tensorflow()
    from tft_keras import atomic
    from tft_keras.evaluation import best_baseline, evaluate
    from tft_keras.metrics import table
    from tft_keras.training import Run

    results = evaluate(
        Run.open(flags.run_dir),
        flags.parquet_file,
        flags.splits,
        flags.season,
        flags.batch_size,
        flags.test_origins,
    )
    print("\n\n".join(table(split, measures, flags.steps) for split, measures in results.items()))
    print(_season(results, flags))
    for split, measures in results.items():
        if better := best_baseline(measures):
            print(f"do not use this model: on the {split} split the {better} has a lower WQL")
    if flags.json_file:
        atomic.write_text(flags.json_file, json.dumps(results, indent=1) + "\n")


def _season(results: dict[str, Any], flags: command.Values) -> str:
    measures = next(iter(results.values())).get("seasonal naive")
    if measures is None:
        return "no season: the table's step suggests none that the training split reaches back for"
    why = "as set" if flags.season else "the best on the training split"
    return f"season: {measures['season']} rows, {why}"


if __name__ == "__main__":
    command.run(main, FLAGS)
