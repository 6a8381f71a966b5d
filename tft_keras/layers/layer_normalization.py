"""Layer normalization: with statistics in float, or with all but a root on the 8-bit grid."""

from __future__ import annotations

import tensorflow as tf

from tft_keras.quantization.observers import PlainObserver, Range

EPSILON = 1e-3  # added to the variance that is divided by
_WITHIN = ("mean", "centred", "squares", "variance", "root", "standardized", "scaled")


def layer_normalization(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = EPSILON
) -> tf.Tensor:
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts it.

    The statistics are taken in float32 whatever the type of `inputs`.
    """
    values = tf.cast(inputs, tf.float32)
    centred = values - _mean(values)
    variance = _mean(tf.square(centred))
    normalized = tf.cast(centred * tf.math.rsqrt(variance + epsilon), inputs.dtype)
    return normalized * gamma + beta


def normalize(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, observe: PlainObserver
) -> tf.Tensor:
    """Returns `layer_normalization`, observed as `normalized`.

    An observer that has the results within (`normalization_observations`) gets each of them; then
    nothing is left to compute in float but the reciprocal root of the variance.
    """
    if not observe.has("centred"):
        return observe("normalized", layer_normalization(inputs, gamma, beta))
    values = tf.cast(inputs, tf.float32)
    centred = observe("centred", values - observe("mean", _mean(values)))
    variance = observe("variance", _mean(observe("squares", centred * centred)))
    root = observe("root", tf.math.rsqrt(variance + EPSILON))
    standardized = observe("standardized", centred * root)
    scaled = observe("scaled", standardized * tf.cast(gamma, tf.float32))
    return tf.cast(observe("normalized", scaled + tf.cast(beta, tf.float32)), inputs.dtype)


def normalization_observations(integer: bool = False) -> dict[str, Range | None]:
    """Returns what `normalize` observes.

    Args:
        integer: whether the results within are observed, too.
    """
    return dict.fromkeys((*(_WITHIN if integer else ()), "normalized"))


def _mean(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(values, axis=-1, keepdims=True)
