"""The quantizers by hand: grids, gradients, moving ranges."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tft_keras.quantization.observers import grid
from tft_keras.quantization.quantizers import (
    FreezableMovingAverageQuantizer,
    WeightQuantizer,
    fake_quantize,
)

NAN, INF = float("nan"), float("inf")


class Holder(keras.layers.Layer):
    """A layer that owns one quantizer's variables, as a wrapper would."""

    def __init__(self, **settings):
        super().__init__()
        self.quantizer = FreezableMovingAverageQuantizer(**settings)
        self.state = self.quantizer.build(None, "observed", self)

    def call(self, inputs, training=None):
        return self.quantizer(inputs, training, self.state)

    def range(self):
        return self.state["min_var"].numpy(), self.state["max_var"].numpy()


def test_straight_through_gradient_by_hand():
    # a grid of step 1/10 from 0 to 25.5
    values = tf.constant([-1.0, 0.0, 0.26, 7.31, 25.4, 26.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        quantized = fake_quantize(values, 0.0, 25.5)
        loss = tf.reduce_sum(quantized * [1.0, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(quantized, [0, 0, 0.3, 7.3, 25.4, 25.5], atol=1e-5)
    np.testing.assert_array_equal(tape.gradient(loss, values), [0, 2, 3, 4, 5, 0])


def test_half_precision_is_widened_and_narrowed():
    values = tf.constant([0.26, 7.31], tf.bfloat16)
    quantized = fake_quantize(values, 0.0, 25.5)
    assert quantized.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(quantized, tf.float32), [0.3, 7.3], rtol=1e-2)


def test_weights_are_symmetric_and_narrow():
    weights = tf.constant([-1.27, 0.004, 0.006, 1.0])
    quantized = WeightQuantizer()(weights, training=True, weights={})
    np.testing.assert_allclose(quantized, [-1.27, 0, 0.01, 1.0], atol=1e-6)
    assert len(np.unique(WeightQuantizer()(tf.linspace(-1.0, 1.0, 999), None, {}))) == 255
    doubled = WeightQuantizer(scale=2.0)(weights, None, {})
    np.testing.assert_allclose(doubled, 2 * quantized, atol=1e-6)
    np.testing.assert_array_equal(WeightQuantizer()(tf.zeros(3), None, {}), [0, 0, 0])


def test_first_batch_sets_the_range_then_it_averages():
    holder = Holder(decay=0.9)
    first = tf.constant([-1.0, 3.0])
    # nothing is known yet, so nothing is rounded
    np.testing.assert_array_equal(holder(first, training=True), first)
    assert holder.range() == (-1, 3)
    holder(tf.constant([-2.0, 1.0]), training=True)
    np.testing.assert_allclose(holder.range(), (-1.1, 2.8), rtol=1e-6)
    holder(tf.constant([-9.0, 9.0]), training=False)
    np.testing.assert_allclose(holder.range(), (-1.1, 2.8), rtol=1e-6)
    assert holder.state["samples"].numpy() == 2


def test_a_step_uses_the_range_known_before_it():
    holder = Holder()
    holder(tf.constant([0.0, 2.55]), training=True)
    result = holder(tf.constant([1.004, 100.0]), training=True)
    np.testing.assert_allclose(result, [1.0, 2.55], atol=1e-6)


@pytest.mark.parametrize("values", [[5.0, 7.0], [-7.0, -5.0], [0.0, 0.0], [3.0, 3.0]])
def test_a_range_contains_zero_exactly_and_has_a_scale(values):
    holder = Holder()
    holder(tf.constant(values), training=True)
    low, high = holder.range()
    assert low <= 0 <= high and high - low >= 9e-5
    scale, zero_point = grid(low, high)
    assert scale > 0 and -128 <= zero_point <= 127
    assert fake_quantize(tf.constant(0.0), low, high) == 0


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_batch_that_is_not_finite_is_ignored(bad):
    holder = Holder()
    holder(tf.constant([-1.0, 1.0]), training=True)
    holder(tf.constant([0.0, bad]), training=True)
    assert holder.range() == (-1, 1) and holder.state["samples"].numpy() == 1


def test_percentile_leaves_out_outliers():
    values = np.concatenate([np.linspace(-1, 1, 1000), [500.0]]).astype(np.float32)
    plain, clipped = Holder(), Holder(percentile=99.5)
    plain(tf.constant(values), training=True)
    clipped(tf.constant(values), training=True)
    assert plain.range()[1] == 500
    low, high = clipped.range()
    assert 0.98 < high <= 1 and -1 <= low < -0.98


def test_frozen_is_frozen_without_retracing():
    holder = Holder()
    traces = []

    @tf.function
    def step(values):
        traces.append(1)
        return holder(values, training=True)

    step(tf.constant([-1.0, 1.0]))
    holder.state["frozen"].assign(1)
    before = holder.range()
    step(tf.constant([-5.0, 5.0]))
    assert holder.range() == before and holder.state["samples"].numpy() == 1
    holder.state["frozen"].assign(0)
    step(tf.constant([-5.0, 5.0]))
    assert holder.range() != before and len(traces) == 1


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"decay": 1.0}, "decay must be in .* Received: decay=1.0"),
        ({"percentile": 40}, "percentile must be above 50 .* Received: percentile=40"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        FreezableMovingAverageQuantizer(**settings)


def test_grid_is_the_runtimes():
    # scale (max - min) / 255, zero point where 0 falls, in int8
    assert grid(0.0, 255 / 256) == (1 / 256, -128)
    assert grid(-1.0, 127 / 128) == (1 / 128, 0)
    scale, zero_point = grid(-1.0, 3.0)
    assert scale == pytest.approx(4 / 255) and zero_point == -64


@pytest.mark.parametrize("percentile", [None, 99.0])
def test_sizes_are_each_variables_own(percentile):
    quantizer = FreezableMovingAverageQuantizer(percentile=percentile)
    values = np.random.default_rng(0).normal(size=(400, 5, 2)) * [1.0, 100.0]
    sizes = quantizer.sizes(tf.constant(values, tf.float32), tf.constant(True)).numpy()
    rows = np.abs(values).reshape(-1, 2)
    expected = rows.max(axis=0) if percentile is None else np.percentile(rows, 99, axis=0)
    # one row of zeros is among the sorted ones, and no two are averaged
    np.testing.assert_allclose(sizes, expected, rtol=1e-6 if percentile is None else 0.02)
    frozen = quantizer.sizes(tf.constant(values, tf.float32), tf.constant(False)).numpy()
    np.testing.assert_array_equal(frozen, [0, 0])


def test_percentiles_are_those_of_numpy_and_see_what_is_not_finite():
    quantizer = FreezableMovingAverageQuantizer(percentile=99.0)
    values = np.random.default_rng(1).normal(size=2000).astype(np.float32)
    low, high = quantizer.extremes(tf.constant(values), tf.constant(True)).numpy()
    with_zero = np.append(values, 0)
    assert high == np.quantile(with_zero, 0.99, method="higher")
    assert -low == np.quantile(with_zero, 0.01, method="lower")
    for wrong in (np.nan, np.inf):
        values[7] = wrong
        ends = quantizer.extremes(tf.constant(values), tf.constant(True)).numpy()
        assert not np.isfinite(ends).all()
