"""From a run to a folder of files for deployment, verified."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

from export.bundle import write_bundle
from export.census import take_census
from export.manifest import file_entry, input_sizes, manifest
from export.options import FLOAT32, INT8, SAVED_MODEL, ExportOptions
from export.runtime import MANIFEST
from export.saved_model import write_saved_model
from export.tflite import convert_float32, convert_int8
from export.verification import verify
from tft_keras import atomic, quantization
from tft_keras.data import PreparedData, prepare_again
from tft_keras.errors import InputError
from tft_keras.evaluation import table_of
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training import Run
from tft_keras.training.checkpoints import load_weights
from tft_keras.training.model_building import build_model

BUNDLE = "forecast.pyz"


def export_run(
    run: Run,
    output_dir: str | os.PathLike[str],
    options: ExportOptions | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Exports a finished run into a new folder, which appears whole or not at all.

    Args:
        run: quantization-aware, or a float one.
        output_dir: must not exist, or be empty.
        options: what to export.
        tell: is told what is being done.

    Returns:
        The manifest.

    Raises:
        InputError: the run cannot be exported so, or the folder holds something.
    """
    options, output = options or ExportOptions(), pathlib.Path(output_dir)
    check_free(output)
    check_run(run, options)
    data = _data(run, options)
    model = _model(run, data, options, tell)
    if output.exists():
        output.rmdir()
    with atomic.replacing(output) as folder:
        folder.mkdir()
        return _write(run, model, data, folder, options, tell)


def check_free(output: pathlib.Path) -> None:
    """Raises `InputError` if the folder to write holds anything."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(
            "An export needs a new or empty folder. Received: "
            f"output_dir={str(output)!r}, which is in use. Choose another one, or remove it."
        )


def check_run(run: Run, options: ExportOptions) -> None:
    """Raises `InputError` if the run is not finished or not of the kind that is asked for."""
    if run.checkpoints.final() is None:
        raise InputError(
            f"An export needs a finished run. Received: run_dir={str(run.path)!r}, which has not "
            "finished. Go on with it: python -m tools.train --resume --run_dir ..."
        )
    if options.ptq and run.config.training.use_qat:
        raise InputError(
            "ptq quantizes a float run. Received: a quantization-aware one. Leave --ptq away."
        )
    if options.integer_layer_norm and not (options.ptq or run.config.training.integer_layer_norm):
        raise InputError(
            "Integer layer normalization is learnt, or made by ptq. Received: a run without it. "
            "Train it on with --use_qat --integer_layer_norm --load_model."
        )
    if INT8 in options.formats and not (options.ptq or run.config.training.use_qat):
        raise InputError(
            f"{INT8} needs a quantization-aware run. Received: run_dir={str(run.path)!r}, a float "
            "one. Train it on with --use_qat --load_model, or quantize it by --ptq, or export "
            f"--formats {FLOAT32},{SAVED_MODEL}."
        )


def _data(run: Run, options: ExportOptions) -> PreparedData | None:
    if not options.verify and not options.ptq:
        return None
    return prepare_again(table_of(run, None), run.preprocessing())


def _model(
    run: Run,
    data: PreparedData | None,
    options: ExportOptions,
    tell: Callable[[str], None],
) -> TemporalFusionTransformer:
    """Returns the run's model in float32, quantized now if the options say so."""
    training = dataclasses.replace(run.config.training, precision="float32")
    model = build_model(dataclasses.replace(run.config, training=training))
    load_weights(run.weights_path(), model)
    if model.quantized:
        unseen = [row["name"] for row in model.observer_report() if row["state"] == "unseen"]
        if unseen:
            raise InputError(
                "An int8 file needs calibrated observers. Received: a run with "
                f"{len(unseen)} that never saw data, the first of them {unseen[0]!r}."
            )
    if options.ptq:
        tell(f"calibrating on {options.calibration_batches} batches of the training split")
        model = quantization.quantize_model(
            model,
            percentile=training.qat_percentile,
            integer_layer_norm=options.integer_layer_norm,
        )
        batches = data.train.dataset(training.batch_size, shuffle_seed=training.seed)
        quantization.calibrate(model, batches, options.calibration_batches)
        model.freeze_observers()
    return model


def _write(
    run: Run,
    model: TemporalFusionTransformer,
    data: PreparedData | None,
    folder: pathlib.Path,
    options: ExportOptions,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    files: dict[str, dict[str, Any]] = {}
    for format in options.formats:
        tell(f"converting to {format}")
        start = time.perf_counter()
        path = _convert(format, run, model, folder, options)
        seconds = time.perf_counter() - start
        files[format] = file_entry(folder, path) | {"conversion_seconds": round(seconds, 1)}
        if path.endswith(".tflite"):
            files[format]["census"] = take_census((folder / path).read_bytes()).to_dict()
    write_bundle(folder / BUNDLE)
    content = manifest(run, model, files, {})
    _write_json(folder / MANIFEST, content)
    if options.verify:
        tell("running the files beside the trained model")
        content["parity"] = verify(folder, model, data, options.verify_windows, options.by_tensor)
        _write_json(folder / MANIFEST, content)
    return content


def _convert(
    format: str,
    run: Run,
    model: TemporalFusionTransformer,
    folder: pathlib.Path,
    options: ExportOptions,
) -> str:
    """Writes one format and returns its path below the folder."""
    batch_size = options.batch_size or None
    if format == SAVED_MODEL:
        write_saved_model(model, run.preprocessing(), folder / SAVED_MODEL)
        return SAVED_MODEL
    if format == FLOAT32:
        content = convert_float32(model, batch_size)
    else:
        sizes = input_sizes(model) if options.edges == "float32" else None
        content = convert_int8(model, batch_size, sizes)
    (folder / f"{format}.tflite").write_bytes(content)
    return f"{format}.tflite"


def _write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
