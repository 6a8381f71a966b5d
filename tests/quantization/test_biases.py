"""Biases on the grid of 32-bit sums."""

import numpy as np
import tensorflow as tf

from tests.support import CONFIG
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization.biases import round_bias
from tft_keras.quantization.leaves import QuantizedLeaf


def test_rounded_by_hand():
    kernel = tf.constant([[0.5, -1.27], [0.1, 0.2]])  # its step is 0.01
    bias = tf.Variable([0.0123, -0.0149, 1.0])
    with tf.GradientTape() as tape:
        rounded = round_bias(bias, kernel, tf.constant(0.5))  # so the bias' step is 0.005
        loss = tf.reduce_sum(rounded * [1.0, 2.0, 3.0])
    np.testing.assert_allclose(rounded, [0.01, -0.015, 1.0], atol=1e-7)
    np.testing.assert_array_equal(tape.gradient(loss, bias), [1, 2, 3])


def test_every_bias_of_a_32_bit_sum_knows_its_input():
    """All but those in tables, and those that are 8-bit tensors or computed from weights."""
    twin = TemporalFusionTransformer(CONFIG, quantized=True)
    leaves = [layer for layer in twin._flatten_layers() if isinstance(layer, QuantizedLeaf)]
    summed = [
        leaf
        for leaf in leaves
        if "bias" in leaf.layer.weight_names
        and leaf.layer.bias is not None
        and not getattr(leaf.layer, "folded", False)
    ]
    # 4 contexts, enrichment and position-wise: 3 each; 3 weighings: 2; 2 LSTMs, 3 skips, the head
    assert len(summed) == 6 * 3 + 3 * 2 + 2 + 3 + 1
    assert all(leaf.input_scale is not None for leaf in summed)
