"""What every layer keeps: shapes, weights, config round trip, agreement with its own replay."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import dense_gradients
from tft_keras.layers.gated_linear_unit import GatedSkip
from tft_keras.layers.gated_residual_network import GatedResidualNetwork
from tft_keras.layers.input_embedding import Embedded, InputEmbedding
from tft_keras.layers.interpretable_attention import InterpretableAttention
from tft_keras.layers.lstm import LSTM
from tft_keras.layers.quantile_head import QuantileHead
from tft_keras.layers.static_context import StaticContext
from tft_keras.layers.variable_selection import VariableSelection
from tft_keras.recompute import recompute

UNITS, BATCH, TIME = 4, 3, 5


def normal(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def embedded(real=2, categorical=1, rows=BATCH):
    return Embedded(
        normal(real, rows),
        normal(real, UNITS, seed=1),
        normal(real, UNITS, seed=2),
        normal(categorical, rows, UNITS, seed=3),
    )


GRN_WEIGHTS = 2 * (4 * 4 + 4) + (4 * 8 + 8) + 2 * 4  # hidden and projection, gate, normalization

# name: (layer, positional inputs, shapes of the outputs, number of weights by hand)
CASES = {
    "gated skip": (
        GatedSkip(UNITS, 0.5),
        (normal(BATCH, 6), normal(BATCH, UNITS)),
        [(BATCH, UNITS)],
        6 * 8 + 8 + 2 * 4,
    ),
    "gated residual network": (
        GatedResidualNetwork(UNITS, context_units=2, dropout=0.5),
        (normal(BATCH, TIME, UNITS), normal(BATCH, 1, 2)),
        [(BATCH, TIME, UNITS)],
        GRN_WEIGHTS + 2 * 4,
    ),
    "gated residual network of another width": (
        GatedResidualNetwork(UNITS, output_units=3),
        (normal(BATCH, 6),),
        [(BATCH, 3)],
        (6 * 4 + 4) + (4 * 4 + 4) + (4 * 6 + 6) + 2 * 3 + (6 * 3 + 3),
    ),
    "stacked gated residual network": (
        GatedResidualNetwork(UNITS, stack=7),
        (normal(7, BATCH, UNITS),),
        [(7, BATCH, UNITS)],
        7 * GRN_WEIGHTS,
    ),
    "input embedding": (
        InputEmbedding(UNITS, real=2, categorical=(3, 5)),
        (normal(BATCH, TIME, 2), tf.ones((BATCH, TIME, 2), tf.int32)),
        [(2, BATCH * TIME), (2, UNITS), (2, UNITS), (2, BATCH * TIME, UNITS), (2, BATCH * TIME)],
        2 * 2 * 4 + (3 + 5) * 4,
    ),
    "variable selection": (
        VariableSelection(UNITS, 2, 1, context_units=4, dropout=0.5, group_size=1),
        (embedded(rows=BATCH * TIME), normal(BATCH, UNITS)),
        [(BATCH * TIME, UNITS), (BATCH * TIME, 3)],
        3 * GRN_WEIGHTS + (12 * 4 + 4) + (4 * 4 + 4) + (4 * 6 + 6) + 2 * 3 + (12 * 3 + 3) + 4 * 4,
    ),
    "static context": (
        StaticContext(UNITS),
        (normal(BATCH, UNITS),),
        [(BATCH, UNITS)] * 4,
        4 * GRN_WEIGHTS,
    ),
    "lstm": (
        LSTM(UNITS),
        (normal(BATCH, TIME, 6), normal(BATCH, UNITS), normal(BATCH, UNITS)),
        [(BATCH, TIME, UNITS), (BATCH, UNITS), (BATCH, UNITS)],
        6 * 16 + 4 * 16 + 16,
    ),
    "interpretable attention": (
        InterpretableAttention(UNITS, heads=2, horizon=3, query_size=2),
        (normal(BATCH, TIME, UNITS),),
        [(BATCH, 3, UNITS)],
        2 * 4 * 4 + 4 * 2 + 2 * 4,
    ),
    "quantile head": (
        QuantileHead(3),
        (normal(BATCH, TIME, UNITS),),
        [(BATCH, TIME, 3)],
        4 * 3 + 3,
    ),
}


def outputs_of(layer, inputs):
    return [output for output in tf.nest.flatten(layer(*inputs)) if output is not None]


@pytest.fixture(params=CASES)
def case(request):
    layer, inputs, shapes, weights = CASES[request.param]
    layer = type(layer).from_config(layer.get_config())
    layer.build(inputs[0].shape if tf.is_tensor(inputs[0]) else None)
    return layer, inputs, shapes, weights


def test_shapes_and_weights(case):
    layer, inputs, shapes, weights = case
    assert [tuple(output.shape) for output in outputs_of(layer, inputs)] == shapes
    assert layer.count_params() == weights


def test_config_makes_the_same_layer(case):
    layer, inputs, _, _ = case
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    again.build(inputs[0].shape if tf.is_tensor(inputs[0]) else None)
    again.set_weights(layer.get_weights())
    for one, two in zip(outputs_of(layer, inputs), outputs_of(again, inputs), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("graph", [False, True])
def test_replay_gives_the_plain_gradients(case, graph):
    layer, inputs, _, _ = case

    def gradients(call):
        with tf.GradientTape() as tape:
            outputs = [output for output in tf.nest.flatten(call(*inputs)) if output is not None]
            outputs = [output for output in outputs if output.dtype.is_floating]
            loss = tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])
        return tape.gradient(loss, layer.trainable_weights)

    def replayed(*arguments):
        return recompute(lambda *values: layer(*values), *arguments)

    run = tf.function(gradients, autograph=False) if graph else gradients
    plain, again = dense_gradients(run(layer)), dense_gradients(run(replayed))
    for one, two in zip(plain, again, strict=True):
        assert np.abs(one).max() > 0
        # only the order of sums over several uses of a weight differs
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
