"""The gated residual network (GRN), plain or stacked with one network for each variable."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.gated_linear_unit import (
    GateWeights,
    gate_weights,
    gated_skip,
    gated_skip_observations,
)
from tft_keras.layers.leaf import Dense, Normalization, dense, product_name
from tft_keras.quantization.observers import PlainObserver, Range


class ResidualWeights(NamedTuple):
    """Weights of a GRN behind its first layer."""

    kernel: tf.Tensor
    bias: tf.Tensor
    gate: GateWeights


def gated_residual(
    hidden: tf.Tensor,
    skip: tf.Tensor,
    weights: ResidualWeights,
    rate: float,
    seed: tf.Tensor | None,
    observe: PlainObserver,
) -> tf.Tensor:
    """Computes a GRN from the output of its first layer on (equations 2 to 4).

    LayerNorm(skip + GLU(dropout(ELU(hidden) W1 + b1)))

    Args:
        hidden: (..., hidden), before its activation; stacked (variables, rows, hidden).
        skip: (..., units).
        weights, rate, seed, observe: as in `gated_skip`.

    Returns:
        (..., units).
    """
    hidden = observe("activation", tf.nn.elu(hidden))
    projected = dense(hidden, (weights.kernel, weights.bias), observe, "projection")
    return gated_skip(projected, skip, weights.gate, rate, seed, observe)


def gated_residual_observations(
    stacked: bool = False, integer_layer_norm: bool = False
) -> dict[str, Range | None]:
    """Returns what `gated_residual` observes."""
    product = {product_name("projection"): None} if stacked else {}
    skip = gated_skip_observations(stacked, integer_layer_norm)
    return product | dict.fromkeys(("activation", "projection")) | skip


class GatedResidualNetwork(TFTLayer):
    """The paper's GRN: GRN(a, c) = LayerNorm(a + GLU(W1 ELU(W2 a + W3 c + b2) + b1)).

    Where `a` and the output differ in size, the skip connection has a linear layer.

    Args:
        units: size of the hidden layers.
        output_units: size of the output; `units` by default.
        context_units: size of the context vector; 0 for a network without one.
        stack: how many networks are stacked, one per variable; `None` for a single plain one.
        dropout: share of the units dropped before the gate while training.
        folded: whether the kernels of the first layer and the skip connection are multiplied into
            others before they are used, and all weights of stacked networks go into tables. The
            layer that does so computes with this one's weights, does not call it, and observes the
            results.

    Call arguments:
        inputs: (..., in); stacked (stack, rows, in).
        context: (..., context_units), broadcast over `inputs`, or `None`.
        seed: (2,) dropout seed, or `None` for inference.
        training: whether live observers move.

    Outputs: (..., output_units).
    """

    def __init__(
        self,
        units: int,
        output_units: int | None = None,
        context_units: int = 0,
        stack: int | None = None,
        dropout: float = 0.0,
        folded: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.output_units = output_units or units
        self.context_units = context_units
        self.stack = stack
        self.dropout = dropout
        self.folded = folded

    def observations(self):
        if self.folded:
            return {}
        names = [
            "hidden",
            "skip",
            *(("context", "hidden_in_context") if self.context_units else ()),
        ]
        products = [product_name("hidden")] if self.stack else []
        residual = gated_residual_observations(bool(self.stack), self.integer_layer_norm)
        return dict.fromkeys([*products, *names]) | residual

    def build(self, input_shape):
        inputs, stack = int(input_shape[-1]), {"stack": self.stack}
        first = stack | {"folded": self.folded}
        # A device looks up what stacked networks give; see `NetworkTables`.
        stack["folded"] = self.folded and self.stack is not None
        self.hidden = self.add_leaf(Dense(self.units, name="hidden", **first), inputs)
        self.projection = self.add_leaf(Dense(self.units, name="projection", **stack), self.units)
        self.gate = self.add_leaf(Dense(2 * self.output_units, name="gate", **stack), self.units)
        self.normalization = self.add_leaf(
            Normalization(name="normalization", **stack), self.output_units
        )
        self.context = self.skip = None
        if self.context_units:
            context = Dense(self.units, use_bias=False, name="context")
            self.context = self.add_leaf(context, self.context_units)
        if inputs != self.output_units:
            self.skip = self.add_leaf(Dense(self.output_units, name="skip", **first), inputs)
        super().build(input_shape)

    def residual_weights(self, training: bool | None = None) -> ResidualWeights:
        """Returns the weights that `gated_residual` needs."""
        gate = gate_weights(self.gate, self.normalization, training)
        return ResidualWeights(*self.projection.values(training), gate)

    def add_context(self, hidden, context, training, observe: PlainObserver):
        """Adds W3 c to the first layer's output, where this network has a context."""
        if self.context is None:
            return hidden
        projected = dense(context, self.context.values(training), observe, "context")
        return observe("hidden_in_context", hidden + projected)

    def call(self, inputs, context=None, seed=None, training=None):
        with self.observing(training) as observe:
            hidden = dense(inputs, self.hidden.values(training), observe, "hidden")
            hidden = self.add_context(hidden, context, training, observe)
            skip = inputs
            if self.skip is not None:
                skip = dense(inputs, self.skip.values(training), observe, "skip")
            weights = self.residual_weights(training)
            return gated_residual(hidden, skip, weights, self.dropout, seed, observe)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "output_units": self.output_units,
            "context_units": self.context_units,
            "stack": self.stack,
            "dropout": self.dropout,
            "folded": self.folded,
        }
