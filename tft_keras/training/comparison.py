"""What 8 bits cost: a float model beside its quantized variants, on the same windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tf_keras as keras

from tft_keras import quantization
from tft_keras.data import PreparedData
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.accuracy import WindowAccuracy
from tft_keras.training.calibration import check_calibration
from tft_keras.training.initial_weights import load_model
from tft_keras.training.model_building import observer_settings
from tft_keras.training.run import Run
from tft_keras.training.train import train

FLOAT = "float"
POST_TRAINING = "post-training quantization"
FROZEN = "QAT, frozen observers"
LIVE = "QAT, live observers"


def compare_accuracy(
    run: Run,
    data: PreparedData,
    callbacks: Callable[[], Sequence[keras.callbacks.Callback]] = tuple,
) -> dict[str, dict[str, Any]]:
    """Measures, on the validation split, a float model and what becomes of it in 8 bits.

    Post-training quantization is the float model calibrated and not trained further. Both kinds of
    quantization-aware training start from it, on the same data with the same seed.

    Args:
        run: a quantization-aware one whose `load_model` is a float model. Its own settings of
            freezing are not used; runs are made in the folders `frozen` and `live` below it.
        data: the run's table.
        callbacks: makes the callbacks of each training.

    Returns:
        By variant its `loss`, `rmse`, `q_risk` of the median and, for all but float, `degradation`
        of the loss in percent.

    Raises:
        InputError: there is no float model to start from, or no validation split.
    """
    config = run.config
    model = _float_model(config.load_model)
    if not len(data.validation):
        raise InputError(
            "Accuracy is compared on the validation split. Received: "
            f"validation={config.data.validation!r}, which has no windows."
        )
    check_calibration(config.training, data.train)
    comparison = WindowAccuracy(data.validation)

    def measure(measured: TemporalFusionTransformer) -> dict[str, Any]:
        predicted = comparison.predict(measured.predict_on_batch)
        return comparison.errors(predicted, config.model.quantiles)

    results = {FLOAT: measure(model)}
    quantized = quantization.quantize_model(
        model,
        **observer_settings(config.training),
        integer_layer_norm=config.training.integer_layer_norm,
    )
    batches = data.train.dataset(config.training.batch_size, shuffle_seed=config.training.seed)
    quantization.calibrate(quantized, batches, config.training.qat_calibration_batches)
    results[POST_TRAINING] = measure(quantized)
    for variant, folder, frozen in ((FROZEN, "frozen", True), (LIVE, "live", False)):
        training = dataclasses.replace(
            config.training, freeze_qat_observers=frozen, freeze_last_epochs=0
        )
        path = run.path / folder
        part = Run.create(path, dataclasses.replace(config, training=training), data.preprocessing)
        results[variant] = measure(train(part, data, callbacks()))
    base = results[FLOAT]["loss"]
    for variant, result in results.items():
        if variant != FLOAT:
            result["degradation"] = 100 * (result["loss"] / base - 1)
    return results


def _float_model(path: str | None) -> TemporalFusionTransformer:
    model = load_model(path) if path else None
    if model is None or model.quantized:
        kind = "none" if model is None else "a quantization-aware one"
        raise InputError(
            "Accuracy is compared with a float model, the one that load_model names. "
            f"Received: {kind}. Train without --use_qat first and load that run."
        )
    return model


def table(results: dict[str, dict[str, Any]]) -> str:
    """Returns a comparison as aligned text."""
    lines = [f"{'':<28}{'loss':>10}{'RMSE':>12}{'q-risk':>10}{'degradation':>14}"]
    for variant, row in results.items():
        cost = f"{row['degradation']:+.2f} %" if "degradation" in row else "-"
        lines.append(
            f"{variant:<28}{row['loss']:>10.5f}{row['rmse']:>12.5g}{row['q_risk']:>10.4f}{cost:>14}"
        )
    return "\n".join(lines)
