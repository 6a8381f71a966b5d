"""A SavedModel with two named signatures, in the layout of TensorFlow Serving."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from export.inference import input_signature
from tft_keras.config import ROLES, input_name
from tft_keras.data import Preprocessing
from tft_keras.data.derived import lag_rows
from tft_keras.data.local_scaling import LocalScaler, is_local
from tft_keras.data.scaling import scale_by, unscale_by
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
    `observed_real` begins `reach` rows earlier than the window (the manifest tells how many): what
    local scaling and lags look back to, NaN where there is no row. Calendar inputs are given.
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
        columns = len(preprocessing.given_columns(role))
        name = input_name(role, "real")
        raw.pop(name, None)
        if columns:
            spec = scaled[name]
            steps = list(spec.shape[1:-1])
            if role == "observed":
                steps = [steps[0] + preprocessing.reach]
            raw[name] = tf.TensorSpec((None, *steps, columns), spec.dtype, name)
    if any(getattr(real.scaler, "series_center", ()) for real in preprocessing.reals.values()):
        raw["series"] = tf.TensorSpec((None,), tf.int32, "series")
    return raw


class _RawWindow:
    """One batch of the `forecast` signature's inputs, scaled as `Windows.gather` does.

    Args:
        preprocessing: of the run.
        inputs: of the signature.
    """

    def __init__(self, preprocessing: Preprocessing, inputs: dict[str, tf.Tensor]):
        self._preprocessing = preprocessing
        self._inputs = dict(inputs)
        self._series = self._inputs.pop("series", tf.constant([-1]))
        config = preprocessing.config
        self._past, self._horizon = config.encoder_steps, config.horizon
        self._columns = {
            role: self._given(role) for role in ROLES if preprocessing.given_columns(role)
        }
        self._target = self._columns["observed"][preprocessing.schema.target]
        scaler = preprocessing.target_scaler
        self._found = {
            name: self._statistics(preprocessing.reals[name].scaler, values)
            for name, values in self._columns["observed"].items()
            if is_local(preprocessing.reals[name].scaler)
        }
        if is_local(scaler):
            now = self._now(preprocessing.schema.target)
            # A row of the horizon is scaled as the last one before it.
            rows = np.minimum(np.arange(self._past + self._horizon), self._past - 1)
            self._rows = tuple(tf.gather(part, rows, axis=1) for part in now)
            self._forecast = tuple(part[:, -1:] for part in now)
        else:
            self._rows = self._forecast = scaler.parameters(_places(self._series, 2), tnp)

    def scaled(self) -> dict[str, tf.Tensor]:
        """Returns the model's inputs."""
        inputs = dict(self._inputs)
        for role, columns in self._columns.items():
            variables = []
            for name, values in columns.items():
                variables += self._variables(role, name, values)
            if role == "observed" and self._preprocessing.derived.moves:
                variables += self._moves()
            inputs[input_name(role, "real")] = _stacked(variables)
        if self._preprocessing.derived.lags:
            name = input_name("known", "real")
            own = [inputs[name]] if name in inputs else []
            inputs[name] = tf.concat([*own, _stacked(self._lags())], axis=-1)
        return inputs

    def unscaled(self, quantiles: tf.Tensor) -> tf.Tensor:
        """Takes scaled quantiles (batch, horizon, quantiles) to the target's units."""
        center, scale = (tnp.reshape(part, (-1, 1, 1)) for part in self._forecast)
        log1p = self._preprocessing.target_scaler.log1p
        return unscale_by(tf.cast(quantiles, tf.float64), center, scale, log1p, tnp)

    def _given(self, role: str) -> dict[str, tf.Tensor]:
        values = tf.cast(self._inputs.pop(input_name(role, "real")), tf.float64)
        names = self._preprocessing.given_columns(role)
        return dict(zip(names, tf.unstack(values, axis=-1), strict=True))

    def _variables(self, role: str, name: str, values: tf.Tensor) -> list[tf.Tensor]:
        """Turns a column into variables, as `MissingValues.expand` does."""
        real = self._preprocessing.reals[name]
        scaler = real.scaler
        own = values[:, -self._past :] if role == "observed" else values
        if is_local(scaler):
            statistics = self._now(name)
        else:
            # Static columns are the same for all rows of a series and scaled over all series.
            place = tf.constant([-1]) if role == "static" else self._series
            statistics = scaler.parameters(_places(place, own.shape.rank), tnp)
        missing = tf.math.is_nan(own)
        scaled = scale_by(own, *statistics, scaler.log1p, tnp)
        variables = [tf.where(missing, tf.zeros_like(own), scaled)]
        return variables + ([tf.cast(missing, tf.float64)] if real.indicator else [])

    def _statistics(self, scaler: LocalScaler, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns center and scale of the past's rows and the `distance` rows before."""
        values = tf.math.log1p(values) if scaler.log1p else values
        last = np.arange(-self._past - scaler.distance, 0) + self._past + self._preprocessing.reach
        frames = last[:, None] + np.arange(1 - scaler.steps, 1)
        return scaler.statistics(tf.gather(values, frames, axis=1), tnp)

    def _now(self, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns center and scale of a column's past rows."""
        scaler = self._preprocessing.reals[name].scaler
        return scaler.filled(tuple(part[:, -self._past :] for part in self._found[name]), tnp)

    def _moves(self) -> list[tf.Tensor]:
        found = self._found[self._preprocessing.schema.target]
        now = tuple(part[:, -self._past :] for part in found)
        before = tuple(part[:, : self._past] for part in found)
        return list(self._preprocessing.target_scaler.moves(now, before, tnp))

    def _lags(self) -> list[tf.Tensor]:
        """Returns each season's lags, as `Windows` makes them."""
        lags, first = [], self._past + self._preprocessing.reach
        for season in self._preprocessing.derived.lags:
            earlier = lag_rows(season, self._past, self._horizon)
            values = tf.gather(self._target, first + earlier, axis=1)
            log1p = self._preprocessing.target_scaler.log1p
            scaled = scale_by(values, *self._rows, log1p, tnp)
            lags.append(tf.where(tf.math.is_nan(scaled), tf.zeros_like(scaled), scaled))
        return lags


def _forecast(
    predict: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]],
    preprocessing: Preprocessing,
    inputs: dict[str, tf.Tensor],
) -> tf.Tensor:
    window = _RawWindow(preprocessing, inputs)
    quantiles = predict(window.scaled())["quantiles"]
    if preprocessing.calibration:
        quantiles = preprocessing.calibration.apply(quantiles, tnp)
    forecast = window.unscaled(quantiles)
    return tf.cast(forecast, tf.float32)


def _stacked(variables: list[tf.Tensor]) -> tf.Tensor:
    return tf.cast(tf.stack(variables, axis=-1), tf.float32)


def _places(series: tf.Tensor, rank: int) -> tf.Tensor:
    """Returns (batch or 1,) places with so many axes."""
    return tf.reshape(series, (-1,) + (1,) * (rank - 1))


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
