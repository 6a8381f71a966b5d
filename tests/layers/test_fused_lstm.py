"""The LSTM with a gradient written by hand, against TensorFlow's gradient of the plain loop."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.test_contract import normal
from tft_keras.layers.lstm import LSTM


def results(layer, inputs, training):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs, hidden, cell = layer(*inputs, training=training)
        # The last cell alone, and outputs and last hidden state together, have gradients.
        loss = tf.reduce_sum(tf.sin(outputs)) + tf.reduce_sum(hidden**2) + tf.reduce_sum(cell * 3)
    return [outputs, hidden, cell, *tape.gradient(loss, [*inputs, *layer.trainable_weights])]


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("steps", [1, 7])
def test_fused_equals_plain(steps, graph):
    layer = LSTM(4)
    layer.build((None, steps, 3))
    layer.weights_leaf.bias.assign(normal(16))
    inputs = [normal(5, steps, 3), normal(5, 4, seed=1), normal(5, 4, seed=2)]

    def run(training):
        return results(layer, inputs, training)

    run = tf.function(run, autograph=False) if graph else run
    for plain, fused in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=2e-6)
