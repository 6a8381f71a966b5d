"""From a float model to its quantized twin."""

from __future__ import annotations

import numpy as np
import tf_keras as keras

from tft_keras.config import ModelConfig
from tft_keras.errors import InputError
from tft_keras.quantization.control import observer_mode


def weight_path(weight) -> str:
    """Returns a weight's name below its model, the same in a float model and its twin."""
    return weight.name.split("/", 1)[1].split(":")[0]


def quantize_model(
    model: keras.Model,
    decay: float | None = None,
    percentile: float | None = None,
    integer_layer_norm: bool = False,
) -> keras.Model:
    """Makes the quantization-aware twin of a float model.

    It is of the same class with the same weights, matched by name; its leaves fake-quantize their
    weights and observers fake-quantize every result that an int8 runtime stores. It computes once
    its observers have seen data: call `calibrate` next.

    Args:
        model: a `TemporalFusionTransformer` that is not quantized.
        decay: of the observers' moving average; by default 0.99.
        percentile: clips outliers, see `FreezableMovingAverageQuantizer`.
        integer_layer_norm: whether the twin normalizes in 8 bits, too, for devices without float;
            then only the reciprocal root of each variance is left in float.

    Raises:
        InputError: the model is quantized already.
    """
    config = model.get_config()
    if config["quantized"]:
        raise InputError(
            "quantize_model takes a float model. Received: a model that is quantized already."
        )
    settings = {"decay": decay, "percentile": percentile}
    observers = {name: value for name, value in settings.items() if value is not None}
    switches = {"quantized": True, "integer_layer_norm": integer_layer_norm}
    twin = type(model).from_config(config | switches | {"observers": observers})
    copy_weights(model, twin)
    check_twin(model, twin)
    return twin


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Copies the weights by name; a float model's into its twin or back (observers stay).

    Raises:
        InputError: the architectures differ; it names what is missing and what has another shape.
    """
    given = {weight_path(weight): weight for weight in source.weights}
    wanted = {weight_path(weight): weight for weight in target.weights}
    names = [name for name in wanted if "/observers/" not in name]
    missing = [name for name in names if name not in given]
    missing += [name for name in given if name not in wanted and "/observers/" not in name]
    differing = [
        f"{name} {tuple(given[name].shape)} against {tuple(wanted[name].shape)}"
        for name in names
        if name in given and given[name].shape != wanted[name].shape
    ]
    if missing or differing:
        raise InputError(
            "Weights are copied between models of the same architecture. Received: models that "
            f"differ in {', '.join((missing + differing)[:5])}."
        )
    for name in names:
        wanted[name].assign(given[name])


def check_twin(model: keras.Model, twin: keras.Model, tolerance: float = 1e-5) -> None:
    """Checks that the twin with its observers off computes what the float model does.

    Raises:
        InputError: it does not.
    """
    inputs = _example_inputs(model.config)
    with observer_mode(twin, "off"):
        difference = float(np.abs(twin(inputs) - model(inputs)).max())
    if not difference <= tolerance:
        raise InputError(
            "A quantized twin computes with its observers off what the float model computes. "
            f"Received: outputs that differ by {difference:.3g}, more than {tolerance}."
        )


def _example_inputs(config: ModelConfig, windows: int = 2) -> dict[str, np.ndarray]:
    """Returns inputs of the right shapes: real ones spread over [-1, 1], codes of 0."""
    inputs = {}
    for part in config.inputs():
        shape = (windows, *part.shape)
        values = np.linspace(-1, 1, np.prod(shape)) if part.is_real else np.zeros(np.prod(shape))
        inputs[part.name] = values.astype(part.dtype).reshape(shape)
    return inputs
