"""The sum of `fused_residual` as quantization-aware training has it: with two fake-quantizations.

With q the rounding to an 8-bit grid, n the normalized totals and w the shares:

    o = q(n gamma + beta),   result = sum over variables of q(w o)

The gradient passes a rounding unchanged where its input lies in the range, else not at all.
"""

from __future__ import annotations

import tensorflow as tf

from tft_keras.layers.compiled import compiled
from tft_keras.layers.dropout import column_sums
from tft_keras.layers.fused_residual import Summing, wide

_fake_quantize = tf.quantization.fake_quant_with_min_max_vars
_slope = tf.quantization.fake_quant_with_min_max_vars_gradient


class QuantizedSumming(Summing):
    """Normalizes, rounds, weighs, rounds and sums.

    Besides the sum it gives the lowest and highest values before each rounding,
    (variables, rows) each: lowest and highest result, lowest and highest weighed one.

    Args:
        grids: (4,), lower and upper end of the results' range and of the weighed ones'.
    """

    def __init__(self, grids: tf.Tensor):
        self.grids = grids

    def __call__(self, total, mean, scale, share, gamma, beta):
        return _quantized_sum(total, mean, scale, share, gamma, beta, self.grids)

    def gradient(self, upstream, total, mean, scale, share, gamma, beta):
        of_total, products, of_result, of_share = _quantized_gradient(
            total, mean, scale, share, gamma, beta, self.grids, upstream
        )
        return of_total, of_share, column_sums(products), column_sums(of_result)


def _results(total, mean, scale, gamma, beta, grids):
    """Returns the normalized totals, the results before rounding, and after it."""
    normalized = (total - mean) * scale
    result = normalized * gamma + beta
    return normalized, result, _fake_quantize(result, grids[0], grids[1])


@compiled
def _quantized_sum(total, mean, scale, share, gamma, beta, grids):
    dtype = total.dtype
    total, weight, gamma, beta = wide(total, share[..., tf.newaxis], gamma, beta)
    _, result, rounded = _results(total, mean, scale, gamma, beta, grids)
    weighed = rounded * weight
    summed = tf.reduce_sum(_fake_quantize(weighed, grids[2], grids[3]), axis=0)
    ends = [
        reduce(values, axis=-1)
        for values in (result, weighed)
        for reduce in (tf.reduce_min, tf.reduce_max)
    ]
    return (tf.cast(summed, dtype), *ends)


@compiled
def _quantized_gradient(total, mean, scale, share, gamma, beta, grids, upstream):
    """Returns the gradients of total, of gamma and beta before summing over rows, and of share."""
    dtype, units = total.dtype, tf.shape(total)[-1]
    weight = share[..., tf.newaxis]
    total, weight, gamma, beta, upstream = wide(total, weight, gamma, beta, upstream)
    normalized, result, rounded = _results(total, mean, scale, gamma, beta, grids)
    weighed = rounded * weight
    of_weighed = _slope(upstream + tf.zeros_like(weighed), weighed, grids[2], grids[3])[0]
    of_share = tf.reduce_sum(of_weighed * rounded, axis=-1)
    of_result = _slope(of_weighed * weight, result, grids[0], grids[1])[0]
    inner = of_result * gamma
    products = inner * normalized
    units = tf.cast(units, total.dtype)
    sums = [tf.reduce_sum(tensor, axis=-1, keepdims=True) / units for tensor in (inner, products)]
    of_total = (inner - sums[0] - normalized * sums[1]) * scale
    gradients = (of_total, of_result * normalized, of_result, of_share)
    return tuple(tf.cast(gradient, dtype) for gradient in gradients)
