"""Exports a finished run as INT8 TFLite, float32 TFLite and SavedModel, and proves them equal.

  python -m export --run_dir runs/RUN --output_dir exported

The folder holds the files, manifest.json and forecast.pyz, which forecasts from a parquet table
with numpy, pyarrow and ai-edge-litert alone.
"""

from __future__ import annotations

import dataclasses
import sys

from export.options import EDGES, FORMATS, INT8, ExportOptions
from tft_keras.commands.command import Flags, Values, import_tensorflow, run
from tft_keras.errors import InputError

FLAGS = Flags(__doc__)
_DEFAULTS = ExportOptions()
with FLAGS.group("Input and output"):
    FLAGS.string("run_dir", None, "Folder of the run.")
    FLAGS.string("output_dir", None, "Folder to write; must be new or empty.")
    FLAGS.strings("formats", _DEFAULTS.formats, f"Formats, of {', '.join(FORMATS)}.")
with FLAGS.group("TFLite"):
    FLAGS.integer("batch_size", _DEFAULTS.batch_size, "Windows of a call; 0 for any number.")
    FLAGS.choice("edges", _DEFAULTS.edges, EDGES, "Real inputs and quantiles of the int8 file.")
    FLAGS.boolean("ptq", _DEFAULTS.ptq, "Quantize a float run after training.")
    FLAGS.boolean(
        "integer_layer_norm",
        _DEFAULTS.integer_layer_norm,
        "Normalize in 8 bits, too, but for a root; a quantization-aware run must be trained so.",
    )
    FLAGS.integer(
        "calibration_batches",
        _DEFAULTS.calibration_batches,
        "With --ptq: batches of the training split.",
    )
with FLAGS.group("Verification"):
    FLAGS.boolean("verify", _DEFAULTS.verify, "Run the files and compare them with the model.")
    FLAGS.integer(
        "verify_windows", _DEFAULTS.verify_windows, "Windows of the test split; 0 for all."
    )
    FLAGS.boolean("by_tensor", _DEFAULTS.by_tensor, "Compare every tensor and operator, too.")


def main(flags: Values) -> None:
    """Exports and prints the report."""
    for name in ("run_dir", "output_dir"):
        if not getattr(flags, name):
            raise InputError(f"An export needs --run_dir and --output_dir. Received: no --{name}.")
    options = ExportOptions(
        **{field.name: getattr(flags, field.name) for field in dataclasses.fields(ExportOptions)}
    )
    import_tensorflow()
    from export import parity
    from export.exporting import export_run
    from export.tensors import operator_table, tensor_table
    from tft_keras.training import Run

    content = export_run(
        Run.open(flags.run_dir),
        flags.output_dir,
        options,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    for name, file in content["files"].items():
        print(f"{name:<16}{file['bytes']:>12,} bytes, {file['conversion_seconds']} s to convert")
        if name == INT8:
            print("".join(f"  not int8: {each}\n" for each in file["census"]["violations"]), end="")
    report = content["parity"]
    if report:
        print(parity.table(report))
    if "tensors" in report:
        print(tensor_table(report["tensors"]))
        print(operator_table(report["operators"]))
    print(f"{flags.output_dir}: written")


if __name__ == "__main__":
    run(main, FLAGS)
