"""Products rounded as a runtime rounds them."""

import numpy as np
import tensorflow as tf

from tft_keras.quantization.products import round_product


def fixed_point(sums, multiplier):
    """The runtime's rescaling of 32-bit sums, written out in integers."""
    mantissa, exponent = np.frexp(multiplier)
    factor, shift = round(mantissa * 2**31), -exponent

    def divided(values, power):  # halves away from zero
        return np.sign(values) * ((np.abs(values) + (1 << power >> 1)) >> power)

    return divided(divided(sums * factor, 31), shift)


def test_rounded_as_in_integers():
    generator = np.random.default_rng(0)
    sums = generator.integers(-(2**13), 2**13, 100_000)
    factor_steps, step = 0.031 * 0.0173, 0.0712
    expected = fixed_point(sums, factor_steps / step)
    product = tf.constant(sums * factor_steps, tf.float32)
    rounded = round_product(product, tf.constant(factor_steps, tf.float32), tf.constant(step))
    found = np.round(rounded.numpy().astype(np.float64) / step)
    # A float32 product may lie on the other side of a step of the finer grid.
    assert np.mean(found != expected) < 1e-4
    assert np.mean(np.round(sums * factor_steps / step) != expected) > 1e-3


def test_the_gradient_passes():
    product = tf.Variable([0.3, -0.7, 5.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(round_product(product, tf.constant(1e-4), tf.constant(0.01)) * product)
    np.testing.assert_allclose(tape.gradient(loss, product), 2 * product, rtol=1e-2)
