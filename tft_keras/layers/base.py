"""What every layer of the model shares: leaves and observers, plain or quantizing by one switch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras as keras

from tft_keras.layers.leaf import Leaf
from tft_keras.quantization.leaves import quantized_leaf
from tft_keras.quantization.observers import Observers, PlainObserver, Range


class TFTLayer(keras.layers.Layer):
    """Base of the model's layers.

    A subclass creates its leaves in `build` by `add_leaf`, names the results that it observes in
    `observations`, and computes within `observing`. Its arithmetic is the same whether the leaves
    and observers are plain or quantizing.

    Args:
        quantized: whether they quantize.
        integer_layer_norm: whether the layer observes its normalizations' results within, too.
    """

    def __init__(self, quantized: bool = False, integer_layer_norm: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.quantized = quantized
        self.integer_layer_norm = integer_layer_norm
        self.observers = None

    @property
    def quantization(self) -> dict[str, bool]:
        """The settings above, for layers within this one."""
        return {"quantized": self.quantized, "integer_layer_norm": self.integer_layer_norm}

    def observations(self) -> dict[str, Range | None]:
        """Returns, for each result that the layer observes, its fixed range or `None`."""
        return {}

    def build(self, input_shape=None):
        if self.quantized and self.observations():
            self.observers = self.add_layer(Observers(self.observations(), name="observers"), None)
        super().build(input_shape)

    def add_leaf(self, leaf: Leaf, inputs: int) -> Leaf:
        """Builds `leaf` for `inputs` features, its weights named below this layer's."""
        if self.quantized:
            leaf = quantized_leaf(leaf)
            leaf.build((None, inputs))
            return leaf
        return self.add_layer(leaf, (None, inputs))

    def add_layer(self, layer: keras.layers.Layer, *input_shapes) -> keras.layers.Layer:
        """Builds `layer` under its own name within this layer's and returns it."""
        with tf.name_scope(layer.name):
            layer.build(*input_shapes)
        return layer

    @contextlib.contextmanager
    def observing(self, training: bool | None) -> Iterator[PlainObserver]:
        """Gives the callable `observe(name, tensor)` that one call of the layer computes with."""
        if self.observers is None:
            yield PlainObserver()
            return
        with self.observers.observing(training) as observe:
            yield observe

    def get_config(self):
        return super().get_config() | self.quantization
