"""Starting from the weights of another model: a `.keras` file or a run folder."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import warnings

import tf_keras as keras

from tft_keras import quantization
from tft_keras.config import ModelConfig
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.run import Run

# No weight depends on these, so a model may go on with others.
_FREE = ("encoder_steps", "horizon", "dropout")


def load_model(path: str | os.PathLike[str]) -> TemporalFusionTransformer:
    """Returns the model in a `.keras` file or in a run folder.

    Raises:
        InputError: the path is neither.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        return Run.open(path).model()
    if not path.is_file():
        raise InputError(
            "load_model must be a .keras file or a run folder. "
            f"Received: load_model={str(path)!r}, which does not exist."
        )
    try:
        model = keras.models.load_model(path, compile=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"load_model must be a .keras file or a run folder. Received: load_model={str(path)!r} "
            f"({' '.join(str(error).split())[:200]})."
        ) from error
    if not isinstance(model, TemporalFusionTransformer):
        raise InputError(
            "load_model must hold a TemporalFusionTransformer. "
            f"Received: load_model={str(path)!r} with a {type(model).__name__}."
        )
    return model


def copy_weights(source: TemporalFusionTransformer, model: TemporalFusionTransformer) -> None:
    """Copies all weights into a model of the same architecture.

    A quantized model takes a float one's weights, by name, or those of a quantized one, with its
    observers if both observe the same (`integer_layer_norm`); if not they are to be calibrated.

    Raises:
        InputError: the two configs differ in something that weights depend on, or a float model is
            to start from a quantized one; names it.
    """
    _check_same(source.config, model.config)
    _check_kind(source.quantized, model.quantized)
    if [w.shape for w in source.weights] == [w.shape for w in model.weights]:
        model.set_weights(source.get_weights())
    else:
        quantization.copy_weights(source, model)


def check_load_model(
    path: str | os.PathLike[str],
    config: ModelConfig,
    names: dict[str, list[str]],
    use_qat: bool = False,
) -> None:
    """Checks, before a run is made, that its model can start from the weights at `path`.

    Args:
        path: what `load_model` takes.
        config: sizes of the model to train.
        names: its variables, as `Preprocessing.variable_names` returns them. If a run was trained
            on others, this is a warning only: columns may have been renamed.
        use_qat: whether the model to train is quantized.

    Raises:
        InputError: there is no model at `path`, or it has another architecture.
    """
    if not pathlib.Path(path).is_dir():
        model = load_model(path)
        _check_same(model.config, config)
        _check_kind(model.quantized, use_qat)
        return
    run = Run.open(path)
    _check_same(run.config.model, config)
    _check_kind(run.config.training.use_qat, use_qat)
    theirs = run.preprocessing().variable_names()
    for group, ours in names.items():
        if theirs[group] != ours:
            warnings.warn(
                f"load_model was trained on the {group} variables {', '.join(theirs[group])}; "
                f"now they are {', '.join(ours)}, in this order.",
                UserWarning,
                stacklevel=2,
            )


def _check_kind(theirs_quantized: bool, ours_quantized: bool) -> None:
    if theirs_quantized and not ours_quantized:
        raise InputError(
            "A float model starts from float weights. Received: load_model with a "
            "quantization-aware one. Add --use_qat, or load the float run it came from."
        )


def _check_same(theirs: ModelConfig, ours: ModelConfig) -> None:
    differences = _differences(theirs, ours)
    if differences:
        raise InputError(
            "load_model must have the architecture of the model to train. "
            f"Received: {'; '.join(differences)}. Use the same settings and columns, or train "
            "without load_model."
        )


def _differences(theirs: ModelConfig, ours: ModelConfig) -> list[str]:
    return [
        f"{field.name}={getattr(theirs, field.name)!r} in load_model, "
        f"{getattr(ours, field.name)!r} here"
        for field in dataclasses.fields(ModelConfig)
        if field.name not in _FREE and getattr(theirs, field.name) != getattr(ours, field.name)
    ]
