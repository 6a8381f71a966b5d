"""A SavedModel with two named signatures, in the layout of TensorFlow Serving."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from export.inference import input_signature
from tft_keras.config import ROLES, input_name
from tft_keras.data import Preprocessing
from tft_keras.data.preprocessing import RealVariable
from tft_keras.model import TemporalFusionTransformer

QUANTILES = "serving_default"
FORECAST = "forecast"
VERSION = "1"


class ServedModel(tf.Module):
    """The signatures of a run's SavedModel.

    `serving_default`: the model's scaled inputs by name, as `Windows.gather` gives them, to
    `quantiles` (batch, horizon, quantiles), scaled.

    `forecast`: the columns as they are in the table, to `forecast` (batch, horizon, quantiles) in
    the target's units. Real ones (`static_real`, `known_real`, `observed_real`: (batch, [time,]
    columns) float32) are not scaled and NaN where missing, categorical ones are codes as before.
    `series` (batch,), int32, is the place of each window's series among those trained on (the
    manifest's list), -1 for a new one; only models that scale by series need it.

    Its attribute `predict` takes the first signature's inputs as one dict.

    Args:
        model: computes the quantiles.
        preprocessing: of the run; without one there is no `forecast`.
    """

    def __init__(
        self, model: TemporalFusionTransformer, preprocessing: Preprocessing | None = None
    ):
        super().__init__(name="served")
        # Variables alone: a Keras model would be traced and saved once more.
        self.weights = list(model.weights)
        scaled = input_signature(model, None)
        # Takes a dict, which is how Keras 3 calls it.
        self.predict = tf.function(
            lambda inputs: {"quantiles": model(inputs, training=False)},
            input_signature=[scaled],
            autograph=False,
        )

        def quantiles(**inputs):
            return self.predict(inputs)

        def forecast(**inputs):
            return {"forecast": _forecast(self.predict, preprocessing, inputs)}

        signatures = {QUANTILES: (quantiles, scaled)}
        if preprocessing is not None:
            signatures[FORECAST] = (forecast, _raw(scaled, preprocessing))
        self.functions = {
            name: tf.function(function, autograph=False).get_concrete_function(**signature)
            for name, (function, signature) in signatures.items()
        }


def _raw(
    scaled: dict[str, tf.TensorSpec], preprocessing: Preprocessing
) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of the `forecast` signature."""
    raw = dict(scaled)
    for role in ROLES:
        columns = len(preprocessing.real_columns(role))
        if columns:
            spec = scaled[input_name(role, "real")]
            raw[spec.name] = tf.TensorSpec((*spec.shape[:-1], columns), spec.dtype, spec.name)
    if any(real.scaler.series_center for real in preprocessing.reals.values()):
        raw["series"] = tf.TensorSpec((None,), tf.int32, "series")
    return raw


def _forecast(
    predict: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]],
    preprocessing: Preprocessing,
    inputs: dict[str, tf.Tensor],
) -> tf.Tensor:
    inputs = dict(inputs)
    series = inputs.pop("series", tf.constant([-1]))
    for role in ROLES:
        columns = preprocessing.real_columns(role)
        if columns:
            # Static columns are the same for all rows of a series and scaled over all series.
            place = tf.constant([-1]) if role == "static" else series
            name = input_name(role, "real")
            inputs[name] = _variables(
                inputs[name],
                [preprocessing.reals[column] for column in columns],
                place,
            )
    scaled = tf.cast(predict(inputs)["quantiles"], tf.float64)
    forecast = preprocessing.target_scaler.inverse(scaled, _places(series, scaled), tnp)
    return tf.cast(forecast, tf.float32)


def _variables(columns: tf.Tensor, reals: list[RealVariable], series: tf.Tensor) -> tf.Tensor:
    """Turns columns (batch, ..., columns) into variables, as `MissingValues.expand` does."""
    variables = []
    values = tf.unstack(tf.cast(columns, tf.float64), axis=-1)
    for value, real in zip(values, reals, strict=True):
        missing = tf.math.is_nan(value)
        scaled = real.scaler.forward(value, _places(series, value), tnp)
        variables.append(tf.where(missing, tf.zeros_like(value), scaled))
        if real.indicator:
            variables.append(tf.cast(missing, tf.float64))
    return tf.cast(tf.stack(variables, axis=-1), tf.float32)


def _places(series: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns (batch or 1,) places with as many axes as the values they scale."""
    return tf.reshape(series, (-1,) + (1,) * (values.shape.rank - 1))


def write_saved_model(
    model: TemporalFusionTransformer,
    preprocessing: Preprocessing | None,
    path: str | os.PathLike[str],
) -> None:
    """Writes the SavedModel of a run into `path`/1.

    Args:
        model: in float32.
        preprocessing: of the run; without one there is no `forecast` signature.
        path: a folder that TensorFlow Serving can take as a model's base path.
    """
    served = ServedModel(model, preprocessing)
    folder = pathlib.Path(path) / VERSION
    tf.saved_model.save(served, str(folder), signatures=served.functions)
