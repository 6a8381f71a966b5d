"""Seeded dropout: the mask is a function of its seed, so that a replay draws the same one."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tft_keras.layers.compiled import compiled

SEED_STRIDE = 1_000_003  # a prime: seeds derived from derived seeds do not meet


def derive_seed(seed: tf.Tensor | None, index: int | tf.Tensor) -> tf.Tensor | None:
    """Returns a seed (2,) of its own for the `index`-th user of `seed`, or `None` for `None`.

    The stateless operations scramble their seeds, so different ones are all that is needed.
    """
    return None if seed is None else seed * SEED_STRIDE + index


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Sets a share `rate` of the elements to zero and scales the others by 1 / (1 - rate).

    The mask is not kept for the backward pass but computed again: it costs less than to read it.

    Args:
        inputs: any shape, floating point.
        rate: in [0, 1).
        seed: (2,) int32, or `None` for inference, where nothing is dropped.
    """
    drop = Drop(rate, seed)
    return inputs if drop.idle else tf.custom_gradient(lambda x: (drop(x), drop.gradient))(inputs)


class Drop:
    """A dropout and its gradient, both as a function of tensors that are first summed.

    Args:
        rate, seed: as in `dropout`.
    """

    def __init__(self, rate: float, seed: tf.Tensor | None):
        self.rate, self.seed, self.idle = rate, seed, seed is None or rate == 0

    def __call__(self, *terms: tf.Tensor) -> tf.Tensor:
        if self.idle:
            return sum(terms[1:], terms[0])
        scale = tf.constant(1 / (1 - self.rate), terms[0].dtype)
        return _drop(self.seed, tf.constant(round(self.rate * 2**32), tf.uint32), scale, *terms)

    gradient = __call__  # the mask and the scale again


@compiled
def _drop(seed, threshold, scale, *terms):
    total = sum(terms[1:], terms[0])
    kept = random_bits(tf.shape(total), seed) >= threshold
    return tf.where(kept, total * scale, tf.zeros((), total.dtype))


def column_sums(tensor: tf.Tensor) -> tf.Tensor:
    """Sums (variables, rows, units) over its rows, as a matrix product: the fastest way.

    Returns:
        (variables, 1, units).
    """
    variables, rows = tf.unstack(tf.shape(tensor)[:2])
    return tf.matmul(tf.ones((variables, 1, rows), tensor.dtype), tensor)


def random_bits(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns a tensor of random uint32, a function of shape and seed alone.

    A hash of each element's number, keyed by the seed: a handful of integer operations that are
    computed in passing, where TensorFlow's generators take longer than a matrix product.

    Args:
        seed: (2,) int32.
    """
    first, second = tf.unstack(tf.bitcast(seed, tf.uint32))
    key, other = _mix(first + _mix(second)), _mix(second + _mix(first + _uint(0x9E3779B9)))
    number = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    number = tf.reshape(number, shape)
    return _mix(_mix(tf.bitwise.bitwise_xor(number, key)) + other)


def _mix(bits: tf.Tensor) -> tf.Tensor:
    """Scrambles 32 bits one to one (Wellons' lowbias32: each bit flips each other by a half)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _uint(shift)))
        bits = bits if factor == 1 else bits * _uint(factor)
    return bits


def _uint(number: int) -> tf.Tensor:
    return tf.constant(number, tf.uint32)


class SeedSource(keras.layers.Layer):
    """Gives a fresh dropout seed at each call, from a counter that is saved with the weights.

    The seed is a function of `seed`, the count of calls and the replica, so a resumed training
    drops the same units as one that never stopped, and no two replicas drop the same.

    Args:
        seed: whole number; another one gives other masks.

    Outputs: (2,) int32.
    """

    def __init__(self, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.seed = seed

    def build(self, input_shape=None):
        self.calls = self.add_weight(
            name="calls",
            shape=(),
            dtype=tf.int32,
            initializer="zeros",
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        super().build(input_shape)

    def next_seed(self) -> tf.Tensor:
        """Returns a seed (2,) and moves the counter on."""
        calls = tf.identity(self.calls)
        self.calls.assign_add(1)
        replica = tf.distribute.get_replica_context()
        number = replica.replica_id_in_sync_group if replica else 0
        return derive_seed(tf.stack([tf.cast(self.seed, tf.int32), calls]), number)

    def get_config(self):
        return super().get_config() | {"seed": self.seed}
