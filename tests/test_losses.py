"""The quantile loss by hand, and what it does with missing targets."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tft_keras.losses import QuantileLoss

NAN = float("nan")


def test_by_hand():
    # errors 1 and -3: 0.1 * 1 + 0.5 * 1 = 0.6 and 0.9 * 3 + 0.5 * 3 = 4.2
    loss = QuantileLoss((0.1, 0.5))
    targets, forecasts = np.array([[1.0, 2.0]]), np.array([[[0.0, 0.0], [5.0, 5.0]]])
    np.testing.assert_allclose(loss(targets, forecasts), (0.6 + 4.2) / 2, rtol=1e-6)


def test_the_best_constant_is_the_quantile():
    targets = np.arange(101.0)[:, np.newaxis]
    losses = [float(QuantileLoss((0.9,))(targets, np.full((101, 1, 1), c))) for c in range(101)]
    assert np.argmin(losses) == 90


def test_missing_targets_count_for_nothing():
    loss = QuantileLoss((0.5,))
    forecasts = tf.constant([[[1.0], [2.0], [3.0]]])
    with tf.GradientTape() as tape:
        tape.watch(forecasts)
        value = loss(np.array([[0.0, NAN, 0.0]]), forecasts)
    np.testing.assert_allclose(value, (0.5 + 1.5) / 2)
    np.testing.assert_allclose(tape.gradient(value, forecasts)[0, :, 0], [0.25, 0, 0.25])


def test_a_batch_without_targets_is_zero():
    forecasts = tf.constant([[[1.0]]])
    with tf.GradientTape() as tape:
        tape.watch(forecasts)
        value = QuantileLoss((0.5,))(np.array([[NAN]]), forecasts)
    assert value == 0 and tape.gradient(value, forecasts) == 0


def test_survives_a_round_trip():
    loss = keras.losses.deserialize(keras.losses.serialize(QuantileLoss((0.2, 0.7))))
    assert loss.quantiles == (0.2, 0.7)
