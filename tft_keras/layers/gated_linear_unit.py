"""The gated skip connection: dropout, gated linear unit, sum and layer normalization."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.dropout import dropout
from tft_keras.layers.layer_normalization import normalization_observations, normalize
from tft_keras.layers.leaf import Dense, Normalization, dense, product_name
from tft_keras.quantization.observers import PlainObserver, Range
from tft_keras.quantization.quantizers import SIGMOID


class GateWeights(NamedTuple):
    """Weights of a gated skip connection, plain or stacked by variable."""

    kernel: tf.Tensor
    bias: tf.Tensor
    gamma: tf.Tensor
    beta: tf.Tensor


def gated_skip(
    inputs: tf.Tensor,
    skip: tf.Tensor,
    weights: GateWeights,
    rate: float,
    seed: tf.Tensor | None,
    observe: PlainObserver,
) -> tf.Tensor:
    """Returns LayerNorm(skip + GLU(dropout(inputs))), equations 2 and 5.

    GLU(x) = (x W + b) * sigmoid(x V + c); both products are one, `kernel` holding W beside V.

    Args:
        inputs: (..., in); with stacked weights (variables, rows, in).
        skip: (..., units).
        weights: kernel (in, 2 units) and the rest, or stacked ones.
        rate, seed: of the dropout.
        observe: passes each intermediate result.

    Returns:
        (..., units).
    """
    inputs = dropout(inputs, rate, seed)
    linear = dense(inputs, (weights.kernel, weights.bias), observe, "gate_linear")
    value, gate = tf.split(linear, 2, axis=-1)
    gate = observe("gate", tf.sigmoid(gate))
    total = observe("sum", skip + observe("gated", value * gate))
    return normalize(total, weights.gamma, weights.beta, observe)


def gated_skip_observations(
    stacked: bool = False, integer_layer_norm: bool = False
) -> dict[str, Range | None]:
    """Returns what `gated_skip` observes."""
    names = ("gate_linear", "gated", "sum")
    product = {product_name("gate_linear"): None} if stacked else {}
    normalization = normalization_observations(integer_layer_norm)
    return product | dict.fromkeys(names) | normalization | {"gate": SIGMOID}


class GatedSkip(TFTLayer):
    """Adds a gated branch to a skip connection and normalizes the sum (equations 5, 15 to 17).

    Args:
        units: size of the output and of the skip connection.
        dropout: share of the branch's units dropped while training.

    Call arguments:
        inputs: (..., in), the branch.
        skip: (..., units).
        seed: (2,) dropout seed, or `None` for inference.
        training: whether live observers move.

    Outputs: (..., units).
    """

    def __init__(self, units: int, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dropout = dropout

    def observations(self):
        return gated_skip_observations(integer_layer_norm=self.integer_layer_norm)

    def build(self, input_shape):
        self.gate = self.add_leaf(Dense(2 * self.units, name="gate"), int(input_shape[-1]))
        self.normalization = self.add_leaf(Normalization(name="normalization"), self.units)
        super().build(input_shape)

    def call(self, inputs, skip, seed=None, training=None):
        weights = gate_weights(self.gate, self.normalization, training)
        with self.observing(training) as observe:
            return gated_skip(inputs, skip, weights, self.dropout, seed, observe)

    def get_config(self):
        return super().get_config() | {"units": self.units, "dropout": self.dropout}


def gate_weights(gate: Dense, normalization: Normalization, training: bool | None) -> GateWeights:
    """Returns the weights of `gated_skip` from the two leaves that own them."""
    return GateWeights(*gate.values(training), *normalization.values(training))
