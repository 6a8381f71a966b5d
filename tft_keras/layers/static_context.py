"""The four context vectors by which static variables condition the rest of the model."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.dropout import derive_seed
from tft_keras.layers.gated_residual_network import GatedResidualNetwork


class Contexts(NamedTuple):
    """Context vectors, each (batch, units), or all `None` for a model without static variables."""

    selection: tf.Tensor | None = None
    enrichment: tf.Tensor | None = None
    state_hidden: tf.Tensor | None = None
    state_cell: tf.Tensor | None = None


class StaticContext(TFTLayer):
    """Encodes the static variables by four GRNs (paper, section 4.3).

    Args:
        units: the model's hidden size.
        dropout: of the GRNs.

    Call arguments:
        inputs: (batch, units), the selected static variables.
        seed: (2,) dropout seed, or `None` for inference.
        training: whether live observers move.

    Outputs: `Contexts`: c_s for variable selection, c_e for static enrichment, c_h and c_c as the
        LSTM encoder's first hidden state and cell.
    """

    def __init__(self, units: int, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dropout = dropout

    def build(self, input_shape):
        self.networks = [
            self.add_layer(
                GatedResidualNetwork(
                    self.units, dropout=self.dropout, name=name, **self.quantization
                ),
                input_shape,
            )
            for name in Contexts._fields
        ]
        super().build(input_shape)

    def call(self, inputs, seed=None, training=None):
        return Contexts(
            *(
                network(inputs, seed=derive_seed(seed, place), training=training)
                for place, network in enumerate(self.networks)
            )
        )

    def get_config(self):
        return super().get_config() | {"units": self.units, "dropout": self.dropout}
