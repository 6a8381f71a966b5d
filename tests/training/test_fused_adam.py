"""The fused update is Keras' Adam."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tft_keras.training.fused_adam import FusedAdam


def _weights() -> list[tf.Variable]:
    generator = np.random.default_rng(0)
    shapes = [(3, 4), (5,), (6, 2)]
    return [tf.Variable(generator.normal(size=shape).astype(np.float32)) for shape in shapes]


def _gradients(step: int) -> list[tf.Tensor | tf.IndexedSlices]:
    generator = np.random.default_rng(step + 1)
    dense = [tf.constant(generator.normal(size=s), tf.float32) for s in ((3, 4), (5,))]
    rows = tf.constant(generator.normal(size=(3, 2)), tf.float32)
    return [*dense, tf.IndexedSlices(rows, tf.constant([1, 4, 1]), tf.constant([6, 2]))]


@pytest.mark.parametrize("graph", [False, True])
def test_same_weights_as_keras(graph):
    after = []
    for kind in (FusedAdam, keras.optimizers.Adam):
        rate = keras.optimizers.schedules.CosineDecay(0.1, decay_steps=20)
        optimizer = kind(rate, global_clipnorm=1.0)
        weights = _weights()
        optimizer.build(weights)
        apply = tf.function(optimizer.apply_gradients) if graph else optimizer.apply_gradients
        for step in range(12):
            apply(list(zip(_gradients(step), weights, strict=True)))
        assert int(optimizer.iterations) == 12
        after.append([weight.numpy() for weight in [*weights, *optimizer.variables[1:]]])
    for ours, theirs in zip(*after, strict=True):
        # Keras takes 1 - 0.999 in double precision, the kernel in single: 5e-5 apart.
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_goes_to_a_config_and_back():
    optimizer = FusedAdam(0.01, global_clipnorm=2.0)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, FusedAdam)
    assert again.get_config() == optimizer.get_config()


def test_averages_of_the_weights():
    """Against the recursion in NumPy: a mean's short memory at first, then the momentum's."""
    optimizer = FusedAdam(0.1, use_ema=True, ema_momentum=0.5)
    weights = _weights()
    optimizer.build(weights)
    expected = [weight.numpy() for weight in weights]
    for step in range(1, 20):
        optimizer.apply_gradients(list(zip(_gradients(step), weights, strict=True)))
        momentum = min(0.5, (step - 1) / (step + 8))
        expected = [
            momentum * average + (1 - momentum) * weight.numpy()
            for average, weight in zip(expected, weights, strict=True)
        ]
    trained = [weight.numpy() for weight in weights]
    optimizer.swap_averages()
    for weight, average in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, average, rtol=1e-5)
    optimizer.swap_averages()
    for weight, before in zip(weights, trained, strict=True):
        np.testing.assert_array_equal(weight, before)
