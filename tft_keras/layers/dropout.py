"""Seeded dropout: the mask is a function of its seed, so that a replay draws the same one."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

SEED_STRIDE = 1_000_003  # a prime: seeds derived from derived seeds do not meet


def derive_seed(seed: tf.Tensor | None, index: int | tf.Tensor) -> tf.Tensor | None:
    """Returns a seed (2,) of its own for the `index`-th user of `seed`, or `None` for `None`.

    The stateless operations scramble their seeds, so different ones are all that is needed.
    """
    return None if seed is None else seed * SEED_STRIDE + index


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Sets a share `rate` of the elements to zero and scales the others by 1 / (1 - rate).

    Args:
        inputs: any shape, floating point.
        rate: in [0, 1).
        seed: (2,) int32, or `None` for inference, where nothing is dropped.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(inputs, rate, seed)


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
