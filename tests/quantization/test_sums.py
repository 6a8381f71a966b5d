"""32-bit sums: biases in whole units, and how sums become 8 bits as the runtime makes them."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.support import CONFIG
from tft_keras.layers.leaf import Dense
from tft_keras.layers.lstm import LSTMWeights
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization.control import observers_of
from tft_keras.quantization.leaves import QuantizedLeaf
from tft_keras.quantization.sums import round_bias, round_product, round_sum

UNIT, STEP = 0.031 * 0.0173, 0.0712


def test_a_bias_by_hand():
    bias = tf.Variable([0.0123, -0.0149, 1.0])
    with tf.GradientTape() as tape:
        rounded = round_bias(bias, tf.constant(0.005))
        loss = tf.reduce_sum(rounded * [1.0, 2.0, 3.0])
    np.testing.assert_allclose(rounded, [0.01, -0.015, 1.0], atol=1e-7)
    np.testing.assert_array_equal(tape.gradient(loss, bias), [1, 2, 3])


def fixed_point(sums, multiplier):
    """The runtime's rescaling of 32-bit sums of two activations, written out in integers."""
    mantissa, exponent = np.frexp(multiplier)
    factor, shift = round(mantissa * 2**31), -exponent

    def divided(values, power):  # halves away from zero
        return np.sign(values) * ((np.abs(values) + (1 << power >> 1)) >> power)

    return divided(divided(sums * factor, 31), shift)


def once_rounded(sums, multiplier):
    """The same where the second activation's zero point is 0."""
    return np.floor(sums * multiplier + 0.5)


def float_point(sums, multiplier):
    """The same of dense layers: a float32 product, halves to even."""
    return np.round(sums.astype(np.float32) * np.float32(multiplier))


@pytest.mark.parametrize(
    "rounds, twice, by_hand",
    [
        (round_product, 1.0, fixed_point),
        (round_product, 0.0, once_rounded),
        (round_sum, None, float_point),
    ],
)
def test_rounded_as_in_the_runtime(rounds, twice, by_hand):
    generator = np.random.default_rng(0)
    sums = generator.integers(-(2**17), 2**17, 100_000)
    # What float32 makes of such a sum is a fraction of a unit off.
    value = sums * UNIT + generator.uniform(-0.3, 0.3, sums.shape) * UNIT
    unit, step = (tf.constant(each, tf.float32) for each in (UNIT, STEP))
    more = (tf.constant(twice),) if rounds is round_product else ()
    rounded = rounds(tf.constant(value, tf.float32), unit, step, *more)
    found = np.round(rounded.numpy().astype(np.float64) / STEP)
    # Steps are float32 numbers here: of 100,000 results one or two lie so near to a half.
    assert np.sum(found != by_hand(sums, UNIT / STEP)) <= 3
    if twice:
        assert np.mean(np.round(sums * UNIT / STEP) != by_hand(sums, UNIT / STEP)) > 1e-3


@pytest.mark.parametrize(
    "rounds, numbers", [(round_product, (1e-4, 0.01, 1.0)), (round_sum, (1e-4, 0.01))]
)
def test_the_gradient_passes(rounds, numbers):
    value = tf.Variable([0.3, -0.7, 5.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(rounds(value, *map(tf.constant, numbers)) * [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tape.gradient(loss, value), [1, 2, 3])


@pytest.mark.parametrize("static", [True, False])
def test_every_kernel_that_a_device_multiplies_by_is_connected(static):
    none = {"static_real": 0, "static_categorical": ()}
    config = CONFIG if static else dataclasses.replace(CONFIG, **none)
    twin = TemporalFusionTransformer(config, quantized=True)
    leaves = [layer for layer in twin._flatten_layers() if isinstance(layer, QuantizedLeaf)]
    leaves = [leaf for leaf in leaves if isinstance(leaf.layer, (Dense, LSTMWeights))]
    leaves = [leaf for leaf in leaves if not getattr(leaf.layer, "folded", False)]
    assert all(leaf.input_step is not None for leaf in leaves)
    sums = [given for layer in observers_of(twin).values() for given in layer.sums.values()]
    # The LSTMs have two kernels each, and attention multiplies activations twice.
    assert len(sums) == len(leaves) + 2 + 2
