"""Variable selection: folded against unfolded, groups, and symmetry in the variables."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.layers.test_contract import UNITS, normal
from tests.support import dense_gradients, randomize
from tft_keras.layers.dropout import derive_seed
from tft_keras.layers.input_embedding import Embedded
from tft_keras.layers.variable_selection import VariableSelection, expand

ROWS = 6


def make(real, categorical=0, **kwargs):
    """Returns a layer whose weights are the same at each call."""
    keras.utils.set_random_seed(0)
    layer = VariableSelection(UNITS, real, categorical, **kwargs)
    layer.build()
    randomize(layer)
    return layer


def real_inputs(variables):
    return Embedded(
        normal(variables, ROWS),
        normal(variables, UNITS, seed=1),
        normal(variables, UNITS, seed=2),
        None,
    )


def test_folded_equals_unfolded_in_values_and_gradients():
    folded, unfolded = make(real=5), make(real=0, categorical=5)
    unfolded.set_weights(folded.get_weights())
    inputs = real_inputs(5)

    def run(layer, embed):
        with tf.GradientTape() as tape:
            tape.watch(inputs[:3])
            selected, weights = layer(embed())
            loss = tf.reduce_sum(tf.sin(selected)) + tf.reduce_sum(weights**2)
        gradients = tape.gradient(loss, [*inputs[:3], *layer.trainable_weights])
        return selected, weights, dense_gradients(gradients)

    def embed_whole():
        vectors = expand(inputs.real, (inputs.kernel, inputs.bias))
        return Embedded(None, None, None, vectors)

    one, two = run(folded, lambda: inputs), run(unfolded, embed_whole)
    # (x k) W against x (k W): the same sums in another order
    np.testing.assert_allclose(two[0], one[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(two[1], one[1], rtol=1e-5, atol=1e-6)
    for plain, other in zip(one[2], two[2], strict=True):
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group_size", [1, 2, 3, 7])
@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("graph", [False, True])
def test_groups_change_nothing(group_size, recomputed, graph):
    whole = make(real=7)
    grouped = make(real=7, group_size=group_size, recompute_groups=recomputed)
    inputs = real_inputs(7)

    def gradients(layer):
        with tf.GradientTape() as tape:
            selected, weights = layer(inputs)
            loss = tf.reduce_sum(tf.sin(selected)) + tf.reduce_sum(weights**2)
        return [selected, *tape.gradient(loss, layer.trainable_weights)]

    run = tf.function(gradients, autograph=False) if graph else gradients
    for one, two in zip(run(whole), run(grouped), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)


def test_replay_drops_the_same_units():
    inputs, seed = real_inputs(7), tf.constant([1, 2])
    plain = make(real=7, group_size=3, dropout=0.5)
    replayed = make(
        real=7, group_size=3, dropout=0.5, recompute_groups=True, recompute_weighing=True
    )

    def gradients(layer, seed):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer(inputs, seed=seed)[0]))
        return tape.gradient(loss, layer.trainable_weights)

    for one, two in zip(gradients(plain, seed), gradients(replayed, seed), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    other = gradients(plain, derive_seed(seed, 1))
    assert np.abs(other[-3] - gradients(plain, seed)[-3]).max() > 1e-2


def test_permuting_variables_with_their_weights_changes_nothing():
    layer, order = make(real=5), np.array([3, 0, 4, 1, 2])
    inputs = real_inputs(5)
    selected, weights = layer(inputs)
    for leaf in (
        layer.networks.hidden,
        layer.networks.projection,
        layer.networks.gate,
        layer.networks.normalization,
    ):
        for weight in leaf.weights:
            weight.assign(tf.gather(weight, order))
    weighing = layer.weighing
    for leaf in (weighing.hidden, weighing.skip):
        kernel = tf.reshape(leaf.kernel, (5, UNITS, -1))
        leaf.kernel.assign(tf.reshape(tf.gather(kernel, order), leaf.kernel.shape))
    outputs = np.concatenate([order, 5 + order])  # values and gates of the gate's halves
    weighing.gate.kernel.assign(tf.gather(weighing.gate.kernel, outputs, axis=1))
    weighing.gate.bias.assign(tf.gather(weighing.gate.bias, outputs))
    weighing.skip.kernel.assign(tf.gather(weighing.skip.kernel, order, axis=1))
    weighing.skip.bias.assign(tf.gather(weighing.skip.bias, order))
    for weight in weighing.normalization.weights:
        weight.assign(tf.gather(weight, order))
    permuted = Embedded(*(tf.gather(value, order) for value in inputs[:3]), None)
    selected_again, weights_again = layer(permuted)
    np.testing.assert_allclose(selected_again, selected, atol=1e-5)
    np.testing.assert_allclose(weights_again, tf.gather(weights, order, axis=1), atol=1e-6)


def test_one_unit_is_refused():
    with pytest.raises(ValueError, match="units must be at least 2. Received: units=1"):
        VariableSelection(1, real=3)
