"""Products of two 8-bit activations, rounded as an int8 runtime rounds them.

The runtime brings the 32-bit sum of a matrix product to the result's grid by a fixed-point
multiplier and a shift, and rounds after each: first to a grid that is finer by a power of two, then
to the result's own, halves away from zero. About one value in 300 is not what rounding once gives.
"""

from __future__ import annotations

import tensorflow as tf


@tf.custom_gradient
def round_product(product: tf.Tensor, factor_steps: tf.Tensor, step: tf.Tensor):
    """Returns a product that, rounded to its grid, is what the runtime makes of it.

    Args:
        product: of two tensors on their grids.
        factor_steps: the product of the steps of their grids, scalar.
        step: of the result's grid, scalar.

    Returns:
        The product on the finer grid, a quarter of its step further from zero, so that there are no
        halves. The gradient is that of the product.
    """
    exponent = tf.math.floor(tf.math.log(factor_steps / step) / tf.math.log(2.0)) + 1
    finer = step * tf.pow(2.0, tf.minimum(exponent, 0.0))
    steps = tf.math.floor(tf.abs(tf.cast(product, tf.float32)) / finer + 0.5)
    rounded = tf.sign(product) * tf.cast((steps + 0.25) * finer, product.dtype)
    return rounded, lambda upstream: (upstream, None, None)
