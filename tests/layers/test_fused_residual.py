"""The fused networks against the plain ones that define them, and their trace's size."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.test_contract import UNITS, normal
from tests.layers.test_variable_selection import ROWS, make, real_inputs
from tests.support import dense_gradients
from tft_keras.layers import compiled as compiled_module
from tft_keras.layers import variable_selection
from tft_keras.layers.compiled import compiled, compiles_on_processor
from tft_keras.layers.dropout import Drop, column_sums, dropout, random_bits
from tft_keras.layers.variable_selection import VariableSelection

SEED = tf.constant([3, 4])


def results(layer, inputs, fused, monkeypatch):
    """Returns the selected sum and all gradients."""
    monkeypatch.setattr(VariableSelection, "fuses", lambda *_: fused)
    given = [value for value in inputs if value is not None]
    with tf.GradientTape() as tape:
        tape.watch(given)
        selected, weights = layer(inputs, seed=SEED, training=True)
        loss = tf.reduce_sum(tf.sin(selected)) + tf.reduce_sum(weights**2)
    gradients = tape.gradient(loss, [*given, *layer.trainable_weights])
    return [selected.numpy(), *dense_gradients(gradients)]


@pytest.mark.parametrize("small", [0, 2**20], ids=["compiled", "as it is"])
@pytest.mark.parametrize("categorical", [0, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"group_size": 3, "dropout": 0.3}, {"dropout": 0.3, "recompute_groups": True}]
)
def test_fused_equals_plain(small, categorical, settings, monkeypatch):
    monkeypatch.setattr(compiled_module, "SMALL", small)
    layer, inputs = make(real=4, categorical=categorical, **settings), real_inputs(4)
    if categorical:
        inputs = inputs._replace(categorical=normal(categorical, ROWS, UNITS, seed=5))
    plain = results(layer, inputs, False, monkeypatch)
    fused = results(layer, inputs, True, monkeypatch)
    for one, two in zip(plain, fused, strict=True):
        assert np.abs(one - two).max() <= 3e-6 * np.abs(one).max()


@pytest.mark.parametrize("settings", [{}, {"group_size": 3, "recompute_groups": True}])
def test_fused_equals_plain_with_observers(settings, monkeypatch):
    """Values, gradients and what live observers make of a batch beyond their ranges."""
    monkeypatch.setattr(compiled_module, "SMALL", 0)
    layer, inputs = make(real=4, dropout=0.3, quantized=True, **settings), real_inputs(4)
    layer.observers.mode = "calibrate"
    layer(inputs, training=False)
    layer.observers.mode = "quantize"
    before = layer.get_weights()
    inputs = inputs._replace(real=2 * inputs.real)
    found = []
    for fused in (False, True):
        layer.set_weights(before)
        found.append(results(layer, inputs, fused, monkeypatch))
        found[-1] += [variable.numpy() for variable in layer.observers.state.values()]
    for one, two in zip(*found, strict=True):
        assert np.abs(one - two).max() <= 3e-6 * np.abs(one).max()
    moved = dict(zip(layer.observers.names, layer.observers.state["samples"].numpy(), strict=True))
    assert moved["networks/normalized"] == moved["networks/weighted"] == 2


def test_inference_is_never_fused(monkeypatch):
    layer = make(real=4, dropout=0.3)
    monkeypatch.setattr(variable_selection, "weighted_residual", lambda *_: pytest.fail("fused"))
    layer(real_inputs(4), training=False)


def count_operations(variables, training):
    layer = make(real=variables, group_size=2, dropout=0.1)

    @tf.function(autograph=False)
    def step(values, kernel, bias):
        with tf.GradientTape() as tape:
            seed = SEED if training else None
            inputs = real_inputs(2)._replace(real=values, kernel=kernel, bias=bias)
            selected, _ = layer(inputs, seed=seed, training=training)
            loss = tf.reduce_sum(selected)
        return tape.gradient(loss, layer.trainable_weights)

    shapes = [(variables, ROWS), (variables, UNITS), (variables, UNITS)]
    graph = step.get_concrete_function(*(tf.TensorSpec(shape) for shape in shapes)).graph
    return len(graph.as_graph_def().node) + sum(
        len(function.node_def) for function in graph.as_graph_def().library.function
    )


@pytest.mark.parametrize("training", [False, True])
def test_the_trace_does_not_grow_with_the_variables(training):
    assert count_operations(20, training) == count_operations(40, training)


def test_a_compiled_function_computes_what_it_says(monkeypatch):
    def kernel(values, offset):
        return tf.exp(values) + offset

    values = normal(3, 4)
    expected = np.exp(values) + 2
    for can in (True, False):
        monkeypatch.setattr(compiled_module, "compiles_on_processor", lambda can=can: can)
        monkeypatch.setattr(compiled_module, "SMALL", 0)
        np.testing.assert_allclose(compiled(kernel)(values, tf.constant(2.0)), expected, rtol=1e-6)


def test_what_cannot_be_compiled_is_found_out(monkeypatch):
    compiles_on_processor.cache_clear()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one"])
    assert not compiles_on_processor()
    compiles_on_processor.cache_clear()


def test_random_bits_are_even_and_independent():
    bits = random_bits(tf.constant([2**16]), tf.constant([1, 2])).numpy()
    each = (bits[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    # 65,536 draws: a share's standard deviation is 0.002
    assert np.abs(each.mean(axis=0) - 0.5).max() < 0.01
    assert np.abs(np.corrcoef(each.T) - np.eye(32)).max() < 0.02
    signs = each * 2.0 - 1
    for shift in (1, 2, 13, 64, 4096):
        assert np.abs((signs[shift:] * signs[:-shift]).mean(axis=0)).max() < 0.02
    for seed in ([1, 3], [2, 2], [2, 1], [0, 0]):
        other = random_bits(tf.constant([2**16]), tf.constant(seed)).numpy()
        assert abs(np.corrcoef(bits, other)[0, 1]) < 0.02
        assert len(np.intersect1d(bits[:1000], other)) < 50  # not the same numbers shifted


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_mask_has_its_rate_and_gradient(rate):
    values = tf.ones((300, 1000))
    with tf.GradientTape() as tape:
        tape.watch(values)
        dropped = dropout(values, rate, SEED)
        loss = tf.reduce_sum(dropped * 3)
    # 300,000 draws: a share's standard deviation is below 0.001
    assert abs(float(tf.reduce_mean(tf.cast(dropped == 0, tf.float32))) - rate) < 0.004
    np.testing.assert_allclose(tape.gradient(loss, values), 3 * dropped, rtol=1e-6)


def test_nothing_is_dropped_without_seed_or_rate():
    values = normal(2, 3)
    for drop in (Drop(0.5, None), Drop(0.0, SEED)):
        np.testing.assert_array_equal(drop(values, values), values + values)


def test_column_sums():
    values = normal(2, 5, 3)
    np.testing.assert_allclose(column_sums(values), values.numpy().sum(1, keepdims=True), rtol=1e-5)
