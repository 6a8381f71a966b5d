"""Quantized leaves: tensorflow-model-optimization's wrapper around the layers that own weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.quantization.keras import (
    quantize_config as tfmot_config,
)
from tensorflow_model_optimization.python.core.quantization.keras import quantize_wrapper

from tft_keras.quantization.quantizers import WeightQuantizer
from tft_keras.quantization.sums import kernel_step, round_bias


class LeafQuantizeConfig(tfmot_config.QuantizeConfig):
    """Which weights of a leaf are fake-quantized: 8 bits, symmetric, narrow range, per tensor.

    A leaf names them in `quantized_weights`. Biases are not among them (the runtime keeps them in
    32 bits), nor are kernels that are first multiplied into another one: that product is quantized
    (`PlainObserver.weight`). Results are observed by the layer around the leaf.

    Args:
        weights: attribute names.
        scale: the weights are multiplied by it first.
    """

    def __init__(self, weights: tuple[str, ...] = (), scale: float = 1.0):
        self.weights = tuple(weights)
        self.scale = scale

    def get_weights_and_quantizers(self, layer):
        return [(getattr(layer, name), WeightQuantizer(self.scale)) for name in self.weights]

    def set_quantize_weights(self, layer, quantize_weights):
        layer.substitutes = dict(zip(self.weights, quantize_weights, strict=True))

    def get_activations_and_quantizers(self, layer):
        return []

    def set_quantize_activations(self, layer, quantize_activations):
        pass

    def get_output_quantizers(self, layer):
        return []

    def get_config(self) -> dict[str, Any]:
        return {"weights": self.weights, "scale": self.scale}


class QuantizedLeaf(quantize_wrapper.QuantizeWrapperV2):
    """A leaf whose weights come out fake-quantized.

    Beside the wrapper it extends, it has no weights of its own (a float model's weights load into
    its quantized twin as they are) and keeps to `trainable = False`.

    Attributes:
        input_step: tells the step of the grid that the kernel's input is on, so that a bias can be
            rounded to 32-bit sums (`round_bias`).
    """

    input_step: Callable[[], tf.Tensor | None] | None = None

    def build(self, input_shape=None):
        with tf.name_scope(self.layer.name):
            self.layer.build(input_shape)
        # The wrapper's own `build` adds a step counter, and the layer's weights a second time.
        self._weight_vars = [
            (weight, quantizer, quantizer.build(weight.shape, weight.name, self))
            for weight, quantizer in self.quantize_config.get_weights_and_quantizers(self.layer)
        ]
        self._quantize_activations = []
        self._output_quantizers = []
        self.built = True

    @property
    def trainable_weights(self):
        return self.layer.trainable_weights

    @property
    def non_trainable_weights(self):
        return self.layer.non_trainable_weights

    def values(self, training: bool | None = None) -> tuple[tf.Tensor | None, ...]:
        """Returns the leaf's weights to compute with, fake-quantized unless switched off."""
        if not self.quantizes:
            return self.layer.values()
        values = self.call(None, training=bool(training))
        self.layer.substitutes = {}
        step = None if self.input_step is None else self.input_step()
        if step is None or self.layer.bias is None:
            return values
        place = self.layer.weight_names.index("bias")
        bias = round_bias(values[place], step * self.kernel_step())
        return (*values[:place], bias, *values[place + 1 :])

    def kernel_step(self, name: str = "kernel") -> tf.Tensor:
        """Returns the step of the grid of one of the leaf's kernels."""
        return kernel_step(self.layer.values()[self.layer.weight_names.index(name)])

    @property
    def quantizes(self) -> bool:
        return getattr(self, "_quantizes", True)

    @quantizes.setter
    def quantizes(self, value: bool) -> None:
        self._quantizes = value


def quantized_leaf(leaf: keras.layers.Layer) -> QuantizedLeaf:
    """Wraps a leaf by what it says of itself in `quantized_weights` and `scale`."""
    config = LeafQuantizeConfig(leaf.quantized_weights, leaf.scale)
    return QuantizedLeaf(leaf, config, name=f"quant_{leaf.name}")
