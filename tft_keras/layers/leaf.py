"""Leaves: the layers that own weights. A leaf hands its weights to the arithmetic around it.

The arithmetic of the model is written as functions of tensors (`dense`, `layer_normalization`,
...), so that a part of a leaf's weights can be handed to one group of variables, folded into
another kernel, or replayed. A leaf that was wrapped for quantization hands out fake-quantized
weights instead, and nothing else changes.
"""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras


class Leaf(keras.layers.Layer):
    """Base of the leaves: owns weights and returns them when called.

    Subclasses list their weights' attribute names in `weight_names` and create them in `build`.
    """

    weight_names: tuple[str, ...] = ()

    def call(self, inputs=None):
        """Returns the weights as a tuple of tensors, in the order of `weight_names`."""
        return tuple(self.present_weights().values())

    def present_weights(self) -> dict[str, tf.Tensor | None]:
        """Returns each weight by name; `None` for one this leaf was made without."""
        weights = {name: getattr(self, name) for name in self.weight_names}
        # Cast by hand: a replay in the backward pass runs outside of Keras' autocast scope.
        return {
            name: None if weight is None else tf.cast(weight, self.compute_dtype)
            for name, weight in weights.items()
        }

    def values(self, training: bool | None = None) -> tuple[tf.Tensor | None, ...]:
        """Returns the weights to compute with; a quantizing leaf overrides this."""
        return self.call()


class Dense(Leaf):
    """Weights of a dense layer, one for all rows or one for each of a stack of variables.

    Args:
        units: size of the output.
        stack: how many dense layers are stacked, one per variable; `None` for a single plain one.
        use_bias: whether there is a bias.

    Weights: kernel (in, units), bias (units,); stacked: (stack, in, units) and
    (stack, 1, units).
    """

    weight_names = ("kernel", "bias")

    def __init__(self, units: int, stack: int | None = None, use_bias: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stack = stack
        self.use_bias = use_bias

    def build(self, input_shape):
        inputs = int(input_shape[-1])
        stack = () if self.stack is None else (self.stack,)
        # Stacked kernels are initialized as the plain layers that they are, not by the whole.
        initializer = keras.initializers.VarianceScaling(
            scale=2.0 * inputs / (inputs + self.units), mode="fan_in", distribution="uniform"
        )
        if stack:
            initializer = _Stacked(initializer)
        self.kernel = self.add_weight(
            name="kernel", shape=(*stack, inputs, self.units), initializer=initializer
        )
        self.bias = None
        if self.use_bias:
            shape = (*stack, 1, self.units) if stack else (self.units,)
            self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros")
        super().build(input_shape)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "stack": self.stack,
            "use_bias": self.use_bias,
        }


class Normalization(Leaf):
    """Scale and offset of a layer normalization, plain or stacked.

    Args:
        stack: how many normalizations are stacked; `None` for a single one.

    Weights: gamma, beta (units,); stacked: (stack, 1, units).
    """

    weight_names = ("gamma", "beta")

    def __init__(self, stack: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.stack = stack

    def build(self, input_shape):
        units = int(input_shape[-1])
        shape = (units,) if self.stack is None else (self.stack, 1, units)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")
        super().build(input_shape)

    def get_config(self):
        return super().get_config() | {"stack": self.stack}


class Embedding(Leaf):
    """The table of one categorical variable.

    Args:
        categories: number of categories, the unknown token (code 0) included.
        units: size of a category's vector.

    Weights: table (categories, units).
    """

    weight_names = ("table",)

    def __init__(self, categories: int, units: int, **kwargs):
        super().__init__(**kwargs)
        self.categories = categories
        self.units = units

    def build(self, input_shape=None):
        self.table = self.add_weight(
            name="table",
            shape=(self.categories, self.units),
            initializer=keras.initializers.RandomNormal(stddev=self.units**-0.5),
        )
        super().build(input_shape)

    def get_config(self):
        return super().get_config() | {"categories": self.categories, "units": self.units}


class _Stacked(keras.initializers.Initializer):
    """Draws each kernel of a stack (variables, in, units) as if it stood alone."""

    def __init__(self, initializer: keras.initializers.Initializer):
        self.initializer = initializer

    def __call__(self, shape, dtype=None, **kwargs):
        variables, inputs, units = shape
        drawn = self.initializer((inputs, variables * units), dtype=dtype)
        return tf.transpose(tf.reshape(drawn, (inputs, variables, units)), (1, 0, 2))


def dense(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """Returns `inputs @ kernel + bias`.

    Args:
        inputs: (..., in), or (variables, rows, in) with a stacked kernel.
        kernel: (in, units) or (variables, in, units).
        bias: (units,) or (variables, 1, units).

    Returns:
        (..., units), or (variables, rows, units).
    """
    if kernel.shape.rank == 3 or inputs.shape.rank == 2:
        product = tf.matmul(inputs, kernel)
        return product if bias is None else product + bias
    rows = tf.matmul(tf.reshape(inputs, (-1, kernel.shape[0])), kernel)
    rows = rows if bias is None else rows + bias
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], 0))


def layer_normalization(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = 1e-3
) -> tf.Tensor:
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts it.

    The statistics are taken in float32 whatever the type of `inputs`.
    """
    values = tf.cast(inputs, tf.float32)
    centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    normalized = tf.cast(centred * tf.math.rsqrt(variance + epsilon), inputs.dtype)
    return normalized * gamma + beta
