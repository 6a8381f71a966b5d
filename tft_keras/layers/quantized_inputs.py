"""The model's real inputs on their 8-bit grids, one for each variable."""

from __future__ import annotations

import tensorflow as tf

from tft_keras.layers.base import TFTLayer

# Codes are from -112 to 112: an exported file holds, for every variable, what its network makes of
# each code, and with all 256 codes a file of 225 inputs is more than 30 % of the float32 one.
LARGEST_CODE = 112
STEP = 1 / LARGEST_CODE
# Of the quotients, with the zero point at 0.
RANGE = (-128 * STEP, 127 * STEP)


class QuantizedInputs(TFTLayer):
    """Divides every real variable by its own largest size and rounds the quotients to 225 levels.

    A device has a single scale for all variables of a tensor. The quotients all lie in [-1, 1], so
    none of them wastes that scale; the sizes go into the embeddings' kernels. Values beyond the
    size are clipped to it. A model that is not quantized passes its inputs on.

    Args:
        sizes: number of real variables by the name of the input.

    Call arguments:
        inputs: dict of tensors; those without real variables stay as they are.
        training: whether live observers move.

    Outputs:
        inputs: dict of quotients (..., variables).
        sizes: dict of (variables,), by which the quotients are to be multiplied; empty if the model
            is not quantized.

    Attributes:
        takes_quotients: whether the inputs are divided already, as those of an exported graph are.
    """

    def __init__(self, sizes: dict[str, int], **kwargs):
        super().__init__(**kwargs)
        self.sizes = dict(sizes)
        self.takes_quotients = False

    def observations(self):
        return {f"{name}/{place}": None for name, n in self.sizes.items() for place in range(n)}

    def call(self, inputs, training=None):
        inputs = dict(inputs)
        if self.observers is None:
            return inputs, {}
        sizes = self.observers.sizes(RANGE, [inputs[name] for name in self.sizes], training)
        if self.observers.mode != "quantize":
            return inputs, {}
        sizes = self._by_name(sizes)
        for name, size in sizes.items():
            values = tf.cast(inputs[name], size.dtype)
            inputs[name] = on_grid(values if self.takes_quotients else values / size)
        return inputs, sizes

    def known_sizes(self) -> dict[str, tf.Tensor]:
        """Returns the sizes by input, as observed so far."""
        return self._by_name(self.observers.sizes(RANGE))

    def _by_name(self, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        return dict(zip(self.sizes, tf.split(sizes, list(self.sizes.values())), strict=True))

    def scale(self):
        """Returns the step of the quotients' grid, or `None` where nothing is quantized."""
        quantizes = self.observers is not None and self.observers.mode == "quantize"
        return tf.constant(STEP) if quantizes else None

    def get_config(self):
        return super().get_config() | {"sizes": self.sizes}


def on_grid(quotients: tf.Tensor) -> tf.Tensor:
    """Rounds to the grid of step `STEP` and clips to [-1, 1]."""
    rounded = tf.quantization.fake_quant_with_min_max_args(quotients, *RANGE)
    clipped = tf.maximum(tf.minimum(rounded, 1.0), -1.0)
    return tf.quantization.fake_quant_with_min_max_args(clipped, *RANGE)
