"""A SavedModel with two named signatures, in the layout of TensorFlow Serving."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from export.inference import input_signature
from tft_keras.data import Preprocessing
from tft_keras.data.missing import MissingValues
from tft_keras.data.scaling import Scaler
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
    for role in ("static", "known", "observed"):
        columns = len(preprocessing.real_columns(role))
        if columns:
            spec = scaled[f"{role}_real"]
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
    for role in ("static", "known", "observed"):
        columns = preprocessing.real_columns(role)
        if columns:
            # Static columns are the same for all rows of a series and scaled over all series.
            place = tf.constant([-1]) if role == "static" else series
            inputs[f"{role}_real"] = _variables(
                inputs[f"{role}_real"],
                [preprocessing.reals[column].scaler for column in columns],
                preprocessing.missing_values(role),
                place,
            )
    scaled = tf.cast(predict(inputs)["quantiles"], tf.float64)
    return tf.cast(_unscaled(scaled, preprocessing.target_scaler, series), tf.float32)


def _variables(
    columns: tf.Tensor, scalers: list[Scaler], missing_values: MissingValues, series: tf.Tensor
) -> tf.Tensor:
    """Turns columns (batch, ..., columns) into variables, as `MissingValues.expand` does."""
    variables = []
    values = tf.unstack(tf.cast(columns, tf.float64), axis=-1)
    for value, scaler, flagged in zip(values, scalers, missing_values.indicators, strict=True):
        missing = tf.math.is_nan(value)
        center, scale = _parameters(scaler, series, value.shape.rank)
        value = tf.math.log1p(value) if scaler.log1p else value
        scaled = tf.math.divide_no_nan(value - center, scale)
        variables.append(tf.where(missing, tf.zeros_like(scaled), scaled))
        if flagged:
            variables.append(tf.cast(missing, tf.float64))
    return tf.cast(tf.stack(variables, axis=-1), tf.float32)


def _unscaled(values: tf.Tensor, scaler: Scaler, series: tf.Tensor) -> tf.Tensor:
    center, scale = _parameters(scaler, series, values.shape.rank)
    values = values * scale + center
    return tf.math.expm1(tf.minimum(values, 700.0)) if scaler.log1p else values


def _parameters(scaler: Scaler, series: tf.Tensor, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns center and scale, each (batch or 1, 1, ...) of `rank` axes."""
    ends = []
    for own, overall in (
        (scaler.series_center, scaler.center),
        (scaler.series_scale, scaler.scale),
    ):
        table = tf.constant(np.append(np.asarray(own, np.float64), overall))
        place = tf.where(series < 0, tf.size(table) - 1, series)
        place = place if own else tf.zeros_like(place[:1])
        ends.append(tf.reshape(tf.gather(table, place), (-1,) + (1,) * (rank - 1)))
    return ends[0], ends[1]


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
