"""The GRNs of a group of variables and their weighted sum, in few passes over memory.

`VariableSelection` defines these networks by plain operations. In training, nearly all of a step's
time goes into them: not into their matrix products but into reading and writing tensors of
(variables, rows, units) between them. Here the same arithmetic runs as two functions, with what
lies between the matrix products compiled into single passes and with gradients written by hand,
which keep less and are sums over rows by matrix products.

For one variable, with x its values, w its selection weights and y the result's gradient:

    a = ELU(x k + b)                                          `activate`
    d = dropout(a W + c)                                      `weighted_residual`, to the end
    t = skip + (d V + e) * sigmoid(d G + f)
    n = (t - mean t) / sqrt(var t + epsilon)
    result = sum over variables of w (n gamma + beta)

    dn = w gamma y,   dw = <n gamma + beta, y>,   dgamma = sum over rows of w n y
    dt = (dn - mean dn - n mean(n dn)) / sqrt(var t + epsilon)
    d(d V + e) = dt sigmoid,   d(d G + f) = dt (d V + e) sigmoid (1 - sigmoid)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tft_keras.layers.compiled import compiled
from tft_keras.layers.dropout import Drop, column_sums
from tft_keras.layers.layer_normalization import EPSILON
from tft_keras.recompute import once


class Line(NamedTuple):
    """values * kernel + bias, not yet multiplied out to (variables, rows, units).

    Args:
        values: (variables, rows).
        kernel, bias: (variables, units).
    """

    values: tf.Tensor
    kernel: tf.Tensor
    bias: tf.Tensor


def weighted_residual(
    inputs: tf.Tensor,
    skip: Line | tf.Tensor,
    share: tf.Tensor,
    first: Sequence[tf.Tensor],
    gate: Sequence[tf.Tensor],
    rate: float,
    seed: tf.Tensor | None,
    summing: Summing | None = None,
) -> tuple[tf.Tensor, ...]:
    """Returns the sum over variables of `share` times their GRN, from its activation on.

    Args:
        inputs: (variables, rows, units), behind the first layer and its ELU.
        skip: (variables, rows, units).
        share: (variables, rows), the selection weights.
        first: kernel and bias of the layer before the dropout, stacked.
        gate: kernel, bias, gamma and beta, stacked.
        rate, seed: of the dropout.
        summing: how to normalize and sum; in float by default.

    Returns:
        (rows, units), and what else `summing` gives.
    """
    kernel, bias, gamma, beta = gate
    kernels, biases = tf.split(kernel, 2, axis=-1), tf.split(bias, 2, axis=-1)
    skip = skip if isinstance(skip, Line) else (skip,)
    run = _weighted_residual(Drop(rate, seed), summing or Summing())
    return run(inputs, share, gamma, beta, *kernels, *biases, *first, *skip)


class Summing:
    """Normalizes totals and sums them over the variables by their shares, and the gradient of it.

    Totals are (variables, rows, units), their mean and inverse deviation (variables, rows, 1).
    """

    def __call__(self, total, mean, scale, share, gamma, beta) -> tuple[tf.Tensor, ...]:
        """Returns (rows, units), and perhaps more that has no gradient."""
        offsets = tf.matmul(share, beta[:, 0], transpose_a=True)
        return (_sum(total, mean, scale, share, gamma) + offsets,)

    def gradient(self, upstream, total, mean, scale, share, gamma, beta):
        """Returns the gradients of total, share, gamma and beta."""
        # Sums over the units of products with the upstream gradient, (variables, rows).
        sums = tf.matmul(gamma[:, 0], upstream, transpose_b=True)
        of_total, products, of_share = _total_gradient(
            total, mean, scale, share, gamma, sums, upstream
        )
        of_share += tf.matmul(beta[:, 0], upstream, transpose_b=True)
        of_gamma = tf.matmul(share[:, tf.newaxis], products)
        return of_total, of_share, of_gamma, tf.matmul(share, upstream)[:, tf.newaxis]


def _weighted_residual(drop: Drop, summing: Summing):
    """Returns the function of tensors alone that `weighted_residual` calls."""

    @tf.custom_gradient
    def run(inputs, share, gamma, beta, value_kernel, gate_kernel, *rest):
        biases, (kernel, bias), skip = rest[:2], rest[2:4], rest[4:]
        dropped = drop(tf.matmul(inputs, kernel), bias)
        value, gate = tf.matmul(dropped, value_kernel), tf.matmul(dropped, gate_kernel)
        total = _total(value, gate, *biases, *skip)
        # Small, and slow to compute: a replay need not.
        mean, scale = once(lambda: _moments(total))

        def gradient(upstream, *_):
            of_total, of_share, of_gamma, of_beta = summing.gradient(
                upstream, total, mean, scale, share, gamma, beta
            )
            of_value, of_gate = _gate_gradient(of_total, value, gate, *biases)
            of_projected = drop.gradient(
                tf.matmul(of_value, value_kernel, transpose_b=True),
                tf.matmul(of_gate, gate_kernel, transpose_b=True),
            )
            return (
                tf.matmul(of_projected, kernel, transpose_b=True),
                of_share,
                of_gamma,
                of_beta,
                tf.matmul(dropped, of_value, transpose_a=True),
                tf.matmul(dropped, of_gate, transpose_a=True),
                column_sums(of_value),
                column_sums(of_gate),
                tf.matmul(inputs, of_projected, transpose_a=True),
                column_sums(of_projected),
                *(_line_gradient(of_total, *skip[:2]) if len(skip) == 3 else [of_total]),
            )

        return summing(total, mean, scale, share, gamma, beta), gradient

    return run


@tf.custom_gradient
def activate(values: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor):
    """Returns the ELU of a `Line`, (variables, rows, units)."""
    activation = _elu(values, kernel, bias)

    def gradient(upstream):
        inner = _elu_gradient(upstream, activation)
        return _line_gradient(inner, values, kernel)

    return activation, gradient


def _line_gradient(upstream, values, kernel):
    """Returns the gradients of a `Line`, from that of its product (variables, rows, units)."""
    lines = tf.stack([values, tf.ones_like(values)], axis=1)
    of_kernel, of_bias = tf.unstack(tf.matmul(lines, upstream), axis=1)
    of_values = tf.matmul(upstream, kernel[..., tf.newaxis])[..., 0]
    return of_values, of_kernel, of_bias


# The compiled passes compute in float32 at least, whatever the type of the tensors in memory.


def wide(*tensors):
    return [tf.cast(t, tf.float32) if t.dtype.size < 4 else t for t in tensors]


def _expand(values, kernel, bias):
    return values[..., tf.newaxis] * kernel[:, tf.newaxis] + bias[:, tf.newaxis]


@compiled
def _elu(values, kernel, bias):
    hidden = _expand(*wide(values, kernel, bias))
    activation = tf.maximum(hidden, 0) + tf.exp(tf.minimum(hidden, 0)) - 1
    return tf.cast(activation, values.dtype)


@compiled
def _elu_gradient(upstream, activation):
    slope, activation = wide(upstream, activation)
    return tf.cast(slope * (tf.minimum(activation, 0) + 1), upstream.dtype)


@compiled
def _total(value, gate, value_bias, gate_bias, *skip):
    dtype = value.dtype
    value, gate, value_bias, gate_bias, *skip = wide(value, gate, value_bias, gate_bias, *skip)
    skip = _expand(*skip) if len(skip) == 3 else skip[0]
    return tf.cast(skip + (value + value_bias) * tf.sigmoid(gate + gate_bias), dtype)


@compiled
def _moments(total):
    """Returns mean and inverse deviation over the units, (variables, rows, 1), in float32."""
    (total,) = wide(total)
    mean = tf.reduce_mean(total, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(total - mean), axis=-1, keepdims=True)
    return mean, tf.math.rsqrt(variance + EPSILON)


@compiled
def _sum(total, mean, scale, share, gamma):
    dtype = total.dtype
    total, weight, gamma = wide(total, share[..., tf.newaxis], gamma)
    return tf.cast(tf.reduce_sum((total - mean) * (scale * weight) * gamma, axis=0), dtype)


@compiled
def _total_gradient(total, mean, scale, share, gamma, sums, upstream):
    """Returns the gradients of the total and the share, and normalized * upstream."""
    dtype, units = total.dtype, tf.shape(total)[-1]
    total, share, gamma, sums, upstream = wide(total, share, gamma, sums, upstream)
    units = tf.cast(units, total.dtype)
    share, sums = share[..., tf.newaxis], sums[..., tf.newaxis]
    normalized = (total - mean) * scale
    products = normalized * upstream
    of_share = tf.reduce_sum(products * gamma, axis=-1, keepdims=True)
    inner = upstream * gamma - (sums + normalized * of_share) / units
    inner = inner * (share * scale)
    return tf.cast(inner, dtype), tf.cast(products, dtype), tf.cast(of_share[..., 0], dtype)


@compiled
def _gate_gradient(inner, value, gate, value_bias, gate_bias):
    dtype = value.dtype
    inner, value, gate, value_bias, gate_bias = wide(inner, value, gate, value_bias, gate_bias)
    share = tf.sigmoid(gate + gate_bias)
    of_value = inner * share
    of_gate = of_value * (value + value_bias) * (1 - share)
    return tf.cast(of_value, dtype), tf.cast(of_gate, dtype)
