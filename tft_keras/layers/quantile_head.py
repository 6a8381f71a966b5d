"""The output layer: one number per quantile and step, in their order."""

from __future__ import annotations

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.leaf import Dense, dense


class QuantileHead(TFTLayer):
    """A linear layer from each step's state to its quantiles (paper, equation 23), then sorted.

    Sorting quantiles that cross never makes the quantile loss larger (Chernozhukov et al. 2010,
    proposition 4). It takes minima and maxima alone, so that int8 values stay on their grid.

    Args:
        quantiles: how many quantiles there are.

    Call arguments:
        inputs: (batch, horizon, units).
        training: whether live observers move.

    Outputs: (batch, horizon, quantiles), rising over the last axis, float32 under every precision
        policy.
    """

    def __init__(self, quantiles: int, **kwargs):
        super().__init__(**kwargs)
        self.quantiles = quantiles

    def observations(self):
        return {"quantiles": None}

    def build(self, input_shape):
        self.linear = self.add_leaf(Dense(self.quantiles, name="linear"), int(input_shape[-1]))
        super().build(input_shape)

    def call(self, inputs, training=None):
        with self.observing(training) as observe:
            outputs = dense(inputs, self.linear.values(training), observe, "quantiles")
        return rising(tf.cast(outputs, tf.float32))

    def get_config(self):
        return super().get_config() | {"quantiles": self.quantiles}


def rising(values: tf.Tensor) -> tf.Tensor:
    """Sorts the last axis, whose size is known, by exchanging neighbours in turns."""
    parts = tf.unstack(values, axis=-1)
    for turn in range(len(parts)):
        for place in range(turn % 2, len(parts) - 1, 2):
            low, high = parts[place : place + 2]
            parts[place : place + 2] = tf.minimum(low, high), tf.maximum(low, high)
    return tf.stack(parts, axis=-1) if len(parts) > 1 else values
