"""What every layer of the model shares: leaves and observers, plain or quantizing by one switch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras as keras

from tft_keras.layers.leaf import Leaf


class PlainObserver:
    """Stands where a quantizing layer has its observers, and passes every tensor through.

    `observe(name, tensor)` marks a result that an int8 runtime would store. A computation within a
    loop gets an observer of its own by `within(observe.ranges)` and returns its `seen`, which
    `see` then takes in.
    """

    @property
    def ranges(self) -> tf.Tensor:
        """The ranges to quantize with, a tensor that is passed into a loop's body."""
        return tf.zeros((0, 2))

    @property
    def seen(self) -> tf.Tensor:
        """(observers, 2): the largest -value and the largest value of each so far, at least 0."""
        return tf.zeros((0, 2))

    def __call__(self, name: str, tensor: tf.Tensor) -> tf.Tensor:
        return tensor

    def within(self, ranges: tf.Tensor) -> PlainObserver:
        """Returns an observer to be used in a loop's body, where `ranges` came in."""
        return self

    def see(self, seen: tf.Tensor) -> None:
        """Takes in what observers within a loop have seen."""


class TFTLayer(keras.layers.Layer):
    """Base of the model's layers.

    A subclass creates its leaves in `build` by `add_leaf`, and computes within `observing`. Its
    arithmetic is the same whether the leaves and observers are plain or quantizing.
    """

    def add_leaf(self, leaf: Leaf, inputs: int) -> Leaf:
        """Builds `leaf` for `inputs` features, its weights named below this layer's."""
        return self.add_layer(leaf, (None, inputs))

    def add_layer(self, layer: keras.layers.Layer, *input_shapes) -> keras.layers.Layer:
        """Builds `layer` under its own name within this layer's and returns it."""
        with tf.name_scope(layer.name):
            layer.build(*input_shapes)
        return layer

    @contextlib.contextmanager
    def observing(self, training: bool | None) -> Iterator[PlainObserver]:
        """Gives the callable `observe(name, tensor)` that one call of the layer computes with."""
        yield PlainObserver()
