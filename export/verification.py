"""Runs exported files and compares them with the trained model."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import tensorflow as tf

from export import parity
from export.inference import inference_model
from export.options import FLOAT32, INT8, SAVED_MODEL
from export.runtime import ExportedModel
from export.saved_model import QUANTILES, VERSION
from export.tensors import compare_operators, compare_tensors
from tft_keras.data import PreparedData, Windows
from tft_keras.data.forecasts import Predict
from tft_keras.data.windows import Inputs
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import observer_mode
from tft_keras.training.accuracy import WindowAccuracy

TRAINED, UNQUANTIZED = "trained model", "without quantization"
_TENSOR_WINDOWS = 4


def verify(
    folder: pathlib.Path,
    model: TemporalFusionTransformer,
    data: PreparedData,
    count: int,
    by_tensor: bool = False,
) -> dict[str, Any]:
    """Compares the files of an exported folder with the trained model, on the same windows.

    Args:
        folder: with its manifest.
        model: the trained one; quantized if there is an int8 file.
        data: the run's table.
        count: how many windows; 0 for the whole split.
        by_tensor: whether to compare every observed tensor and operator, too.

    Returns:
        split, windows, and of each file its accuracy, difference and speed.

    Raises:
        InputError: there is no window.
    """
    split, windows = _split(data)
    comparison = WindowAccuracy(windows, parity.chosen_positions(windows, count))
    reference = comparison.predict(model.predict_on_batch)
    predictions: dict[str, tuple[np.ndarray, dict[str, Any]]] = {TRAINED: (reference, {})}
    report: dict[str, Any] = {"split": split, "windows": len(comparison.positions)}
    if (folder / SAVED_MODEL).exists():
        predicted = comparison.predict(saved_model_predict(folder))
        predictions[SAVED_MODEL] = predicted, parity.relative(reference, predicted)
    if _has(folder, FLOAT32):
        plain = reference
        if model.quantized:
            plain = _unquantized(model, comparison)
            predictions[UNQUANTIZED] = plain, {}
        exported = ExportedModel(folder, FLOAT32)
        predicted = comparison.predict(exported.predict)
        difference = parity.relative(plain, predicted) | latency(exported, windows)
        predictions[FLOAT32] = predicted, difference
    if _has(folder, INT8):
        exported = ExportedModel(folder, INT8)
        predicted = comparison.predict(exported.predict)
        difference = parity.in_steps(reference, predicted, output_step(model))
        predictions[INT8] = predicted, difference | latency(exported, windows)
        if by_tensor:
            report |= _by_tensor(folder, model, exported, windows, comparison.positions)
    report["files"] = {
        name: {"accuracy": comparison.errors(predicted, model.config.quantiles)} | difference
        for name, (predicted, difference) in predictions.items()
    }
    return report


def _unquantized(model: TemporalFusionTransformer, comparison: WindowAccuracy) -> np.ndarray:
    """Returns what a quantized model forecasts without quantization."""
    copy = inference_model(model)
    with observer_mode(copy, "off"):
        run = tf.function(lambda inputs: copy(inputs, training=False), autograph=False)
        return comparison.predict(run)


def _by_tensor(
    folder: pathlib.Path,
    model: TemporalFusionTransformer,
    exported: ExportedModel,
    windows: Windows,
    positions: np.ndarray,
) -> dict[str, Any]:
    if exported.batch_size != 1 or not exported.takes_integers:
        raise InputError(
            "Tensors are compared in a file of one window with int8 inputs. Received: "
            f"batch_size={exported.batch_size or 0}. Export with --batch_size 1 --edges int8."
        )
    content = (folder / exported.manifest["files"][INT8]["path"]).read_bytes()
    chosen = positions[np.linspace(0, len(positions) - 1, _TENSOR_WINDOWS).astype(int)]
    inputs = [windows.gather([position])[0] for position in chosen]
    sizes = exported.manifest["input_sizes"]
    return {
        "tensors": compare_tensors(model, content, inputs, sizes),
        "operators": compare_operators(content, inputs, sizes),
    }


def output_step(model: TemporalFusionTransformer) -> float:
    """Returns the step of the quantiles' int8 grid."""
    rows = {row["name"]: row["scale"] for row in model.observer_report()}
    return rows["head/quantiles"]


def saved_model_predict(folder: pathlib.Path) -> Predict:
    """Returns the function of the first signature of an exported SavedModel."""
    loaded = tf.saved_model.load(str(folder / SAVED_MODEL / VERSION))

    def predict(inputs: Inputs) -> np.ndarray:
        # By way of `loaded`, which must live as long as its signatures.
        signature = loaded.signatures[QUANTILES]
        result = signature(**{name: tf.constant(array) for name, array in inputs.items()})
        return result["quantiles"].numpy()

    return predict


def latency(exported: ExportedModel, windows: Windows, repeats: int = 30) -> dict[str, Any]:
    """Returns the median time of one call in milliseconds, on one thread."""
    inputs, _ = windows.gather(np.zeros(exported.batch_size or 1, np.int64))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        exported.run(inputs)
        seconds.append(time.perf_counter() - start)
    return {"milliseconds": 1e3 * float(np.median(seconds))}


def _has(folder: pathlib.Path, format: str) -> bool:
    return (folder / f"{format}.tflite").exists()


def _split(data: PreparedData) -> tuple[str, Windows]:
    for split in ("test", "validation", "train"):
        windows = getattr(data, split)
        if len(windows):
            return split, windows
    raise InputError(
        "Verification needs a window. Received: a table without any. Export with --noverify."
    )
