"""Layers and their arithmetic against values computed by hand or by another library's layer."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.layers.test_contract import normal
from tests.support import randomize
from tft_keras.layers.dropout import SeedSource, derive_seed, dropout
from tft_keras.layers.gated_residual_network import GatedResidualNetwork
from tft_keras.layers.interpretable_attention import InterpretableAttention
from tft_keras.layers.layer_normalization import layer_normalization
from tft_keras.layers.leaf import Dense, dense
from tft_keras.layers.lstm import LSTM
from tft_keras.layers.sequential import Groups, default_size, even_size
from tft_keras.quantization.observers import PlainObserver


def test_layer_normalization_by_hand():
    # mean 2, variance 2/3
    values = tf.constant([[1.0, 2.0, 3.0]])
    result = layer_normalization(values, tf.constant(2.0), tf.constant(1.0), epsilon=0.0)
    root = np.sqrt(1.5)
    np.testing.assert_allclose(result, [[1 - 2 * root, 1, 1 + 2 * root]], rtol=1e-6)


def test_layer_normalization_equals_keras():
    values = normal(4, 3, 6)
    plain = keras.layers.LayerNormalization()
    np.testing.assert_allclose(
        layer_normalization(values, tf.ones(6), tf.zeros(6)), plain(values), atol=1e-5
    )


def test_gated_residual_network_by_hand():
    layer = GatedResidualNetwork(2)
    layer.build((None, 2))
    for leaf, kernel in (
        (layer.hidden, [[1, 0], [0, 1]]),
        (layer.projection, [[2, 0], [0, 2]]),
        (layer.gate, [[1, 0, 0, 0], [0, 1, 0, 0]]),
    ):
        leaf.kernel.assign(kernel)
        leaf.bias.assign(tf.zeros_like(leaf.bias))
    # ELU(1, -1) = (1, 1/e - 1); doubled; gated by sigmoid(0) = 1/2; so itself: plus (1, -1)
    total = np.array([1 + 1, np.exp(-1) - 1 - 1])
    centred = total - total.mean()
    expected = centred / np.sqrt(total.var() + 1e-3)
    np.testing.assert_allclose(layer(tf.constant([[1.0, -1.0]])), [expected], rtol=1e-6)


@pytest.mark.parametrize("unroll", [False, True])
def test_lstm_equals_keras(unroll):
    layer = LSTM(4, unroll=unroll)
    layer.build((None, 5, 3))
    randomize(layer)
    other = keras.layers.LSTM(4, return_sequences=True, return_state=True)
    inputs, hidden, cell = normal(2, 5, 3), normal(2, 4, seed=1), normal(2, 4, seed=2)
    other(inputs)
    other.set_weights(layer.get_weights())
    for one, two in zip(
        layer(inputs, hidden, cell), other(inputs, initial_state=[hidden, cell]), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_lstm_remembers_at_the_start():
    layer = LSTM(2)
    layer.build((None, 1, 3))
    np.testing.assert_array_equal(layer.weights[2], [0, 0, 1, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("query_size", [None, 1, 2])
def test_attention_ignores_later_steps_and_parts(query_size):
    layer = InterpretableAttention(4, heads=2, horizon=3, query_size=query_size)
    layer.build((None, 6, 4))
    inputs = normal(2, 6, 4)
    outputs, weights = layer(inputs, return_attention=True)
    changed = tf.concat([inputs[:, :5], inputs[:, 5:] + 9], axis=1)
    np.testing.assert_array_equal(layer(changed)[:, :2], outputs[:, :2])
    value = tf.matmul(inputs, layer.value.kernel)
    expected = tf.matmul(tf.matmul(tf.reduce_mean(weights, 1), value), layer.output_leaf.kernel)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_attention_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="heads must divide units=4. Received: heads=3"):
        InterpretableAttention(4, heads=3, horizon=1)


def test_dropout_scales_what_it_keeps():
    values, seed = tf.ones((100, 100)), tf.constant([1, 2])
    dropped = dropout(values, 0.25, seed).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    # 10,000 draws: the share's standard deviation is 0.0043
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(dropped, dropout(values, 0.25, seed))
    assert (dropped != dropout(values, 0.25, derive_seed(seed, 1)).numpy()).mean() > 0.3
    np.testing.assert_array_equal(dropout(values, 0.25, None), values)


def test_seed_source_never_repeats_and_resumes():
    source = SeedSource(5)
    source.build()
    seeds = [tuple(source.next_seed().numpy()) for _ in range(50)]
    assert len(set(seeds)) == 50
    again = SeedSource(5)
    again.build()
    again.calls.assign(30)
    assert tuple(again.next_seed().numpy()) == seeds[30]
    other = SeedSource(6)
    other.build()
    assert tuple(other.next_seed().numpy()) not in seeds


def test_stacked_dense_is_one_dense_layer_per_variable():
    leaf = Dense(5, stack=3)
    leaf.build((None, 4))
    inputs = normal(3, 2, 4)
    result = dense(inputs, (leaf.kernel, leaf.bias), PlainObserver(), "product")
    for place in range(3):
        expected = inputs[place] @ leaf.kernel[place] + leaf.bias[place]
        np.testing.assert_allclose(result[place], expected, atol=1e-6)
    # drawn as three kernels (4, 5), not as one of fan 12
    assert np.abs(leaf.kernel).max() <= np.sqrt(6 / (4 + 5))
    assert np.abs(leaf.kernel).max() > 0.9 * np.sqrt(6 / (4 + 5))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_groups_sum_and_map(size):
    numbers = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0])

    def total(part, shared, seed):
        return tf.reduce_sum(part) * shared, tf.reduce_max(part)

    groups = Groups(total, numbers, tf.constant(2.0), size)
    result, seen = groups.sum(tf.constant(0.0), tf.constant(4.5))
    assert result == 30 and seen == 5
    squares = Groups(lambda part, *_: (part**2, tf.constant(0.0)), numbers, None, size)
    mapped, _ = squares.map(tf.TensorShape([]), tf.constant(0.0))
    np.testing.assert_array_equal(mapped, [1, 4, 9, 16, 25])


def test_even_size_leaves_little_over():
    assert even_size(220, 20) == 20
    assert even_size(220, 21) == 20
    assert even_size(10, 7) == 5
    assert even_size(10, None) == 10


def test_default_size_splits_evenly_and_spares_small_models():
    assert default_size(10, 60 * 64) == 10
    size = default_size(220, 50 * 64)
    assert 10 <= size <= 16 and -(-220 // size) * size - 220 < size
    assert default_size(500, 5000 * 512) == 1
