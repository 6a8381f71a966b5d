"""The output layer: one number per quantile and step."""

from __future__ import annotations

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.leaf import Dense, dense


class QuantileHead(TFTLayer):
    """A linear layer from each step's state to its quantiles (paper, equation 23).

    Args:
        quantiles: how many quantiles there are.

    Call arguments:
        inputs: (batch, horizon, units).
        training: whether live observers move.

    Outputs: (batch, horizon, quantiles), float32 under every precision policy.
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
        return tf.cast(outputs, tf.float32)

    def get_config(self):
        return super().get_config() | {"quantiles": self.quantiles}
