"""Exports a finished run as INT8 TFLite, float32 TFLite and SavedModel, and proves them equal.

  python -m export --run_dir runs/RUN --output_dir exported

The folder holds the files, manifest.json and forecast.pyz, which forecasts from a parquet table
with numpy, pyarrow and ai-edge-litert alone.
"""

from __future__ import annotations

import sys

from tft_keras.errors import InputError
from tools.command import Flags, Values, import_tensorflow, run

FLAGS = Flags(__doc__)
with FLAGS.group("Input and output"):
    FLAGS.string("run_dir", None, "Folder of the run.")
    FLAGS.string("output_dir", None, "Folder to write; must be new or empty.")
    FLAGS.strings(
        "formats",
        ("tflite_int8", "tflite_float32", "saved_model"),
        "Formats, of tflite_int8, tflite_float32, saved_model.",
    )
with FLAGS.group("TFLite"):
    FLAGS.integer("batch_size", 1, "Windows of a call; 0 for any number.")
    FLAGS.string("edges", "int8", "Real inputs and quantiles of the int8 file: int8 or float32.")
    FLAGS.boolean("ptq", False, "Quantize a float run after training.")
    FLAGS.integer("calibration_batches", 100, "With --ptq: batches of the training split.")
with FLAGS.group("Verification"):
    FLAGS.boolean("verify", True, "Run the files and compare them with the trained model.")
    FLAGS.integer("verify_windows", 1000, "Windows of the test split; 0 for all.")
    FLAGS.boolean("by_tensor", False, "Compare every observed tensor and operator, too.")


def main(flags: Values) -> None:
    """Exports and prints the report."""
    for name in ("run_dir", "output_dir"):
        if not getattr(flags, name):
            raise InputError(f"An export needs --run_dir and --output_dir. Received: no --{name}.")
    import_tensorflow()
    from export import parity
    from export.exporting import ExportOptions, export_run
    from export.tensors import operator_table, tensor_table
    from tft_keras.training import Run

    names = ExportOptions.__dataclass_fields__
    options = ExportOptions(**{name: getattr(flags, name) for name in names})
    content = export_run(
        Run.open(flags.run_dir),
        flags.output_dir,
        options,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    for name, file in content["files"].items():
        print(f"{name:<16}{file['bytes']:>12,} bytes, {file['conversion_seconds']} s to convert")
        for violation in file.get("census", {}).get("violations", []):
            if name == "tflite_int8":
                print(f"  not int8: {violation}")
    report = content["parity"]
    if report:
        print(parity.table(report))
    if "tensors" in report:
        print(tensor_table(report["tensors"]))
        print(operator_table(report["operators"]))
    print(f"{flags.output_dir}: written")


if __name__ == "__main__":
    run(main, FLAGS)
