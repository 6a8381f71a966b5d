"""Observes tensors that stand between layers."""

from __future__ import annotations

import tensorflow as tf

from tft_keras.layers.base import TFTLayer


class SharedRange(TFTLayer):
    """Passes tensors on, quantized by one range that they share, so that they can be joined.

    Call arguments:
        inputs: tensor or structure of tensors; those that are not floating point stay as they are.
        training: whether live observers move.

    Outputs: the same structure.
    """

    def observations(self):
        return {"values": None}

    def call(self, inputs, training=None):
        with self.observing(training) as observe:
            return tf.nest.map_structure(
                lambda tensor: observe("values", tensor) if tensor.dtype.is_floating else tensor,
                inputs,
            )
