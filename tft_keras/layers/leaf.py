"""Leaves: the layers that own weights. A leaf hands its weights to the arithmetic around it.

The arithmetic of the model is written as functions of tensors (`dense`, `normalize`, ...), so that
a part of a leaf's weights can be handed to one group of variables, folded into another kernel, or
replayed. A leaf that was wrapped for quantization hands out fake-quantized weights instead, and
nothing else changes.
"""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tft_keras.quantization.observers import PlainObserver


class Leaf(keras.layers.Layer):
    """Base of the leaves: owns weights and returns them when called.

    Subclasses list their weights' attribute names in `weight_names` and create them in `build`.

    Attributes:
        quantized_weights: names of the weights that an int8 runtime stores in 8 bits as they are.
        scale: these weights are multiplied by it when handed out.
        substitutes: tensors handed out in place of weights, by name.
    """

    weight_names: tuple[str, ...] = ()
    quantized_weights: tuple[str, ...] = ()
    scale: float = 1.0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._substitutes = {"values": {}}

    @property
    def substitutes(self) -> dict[str, tf.Tensor]:
        return self._substitutes["values"]

    @substitutes.setter
    def substitutes(self, tensors: dict[str, tf.Tensor]) -> None:
        self._substitutes["values"] = tensors

    def call(self, inputs=None):
        """Returns the weights as a tuple of tensors, in the order of `weight_names`."""
        return tuple(self._present(name) for name in self.weight_names)

    def _present(self, name: str) -> tf.Tensor | None:
        if name in self.substitutes:
            return self.substitutes[name]
        weight = getattr(self, name)
        if weight is None:
            return None
        # Cast by hand: a replay in the backward pass runs outside of Keras' autocast scope.
        weight = tf.cast(weight, self.compute_dtype)
        return weight * self.scale if name in self.quantized_weights and self.scale != 1 else weight

    def values(self, training: bool | None = None) -> tuple[tf.Tensor | None, ...]:
        """Returns the weights to compute with; a quantizing leaf overrides this."""
        return self.call()


class Dense(Leaf):
    """Weights of a dense layer, one for all rows or one for each of a stack of variables.

    Args:
        units: size of the output.
        stack: how many dense layers are stacked, one per variable; `None` for a single plain one.
        use_bias: whether there is a bias.
        folded: whether the weights are folded into others before they are used: a kernel into
            another one, a network into a table.
        scale: the kernel is multiplied by it when handed out.

    Weights: kernel (in, units), bias (units,); stacked: (stack, in, units) and
    (stack, 1, units).
    """

    weight_names = ("kernel", "bias")

    def __init__(
        self,
        units: int,
        stack: int | None = None,
        use_bias: bool = True,
        folded: bool = False,
        scale: float = 1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.stack = stack
        self.use_bias = use_bias
        self.folded = folded
        self.scale = scale
        # A single layer's bias is added to its product in 32 bits; a stacked one's is not.
        stored = ("kernel",) if stack is None else ("kernel", "bias")
        self.quantized_weights = () if folded else stored

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
            "folded": self.folded,
            "scale": self.scale,
        }


class Normalization(Leaf):
    """Scale and offset of a layer normalization, plain or stacked.

    Args:
        stack: how many normalizations are stacked; `None` for a single one.
        folded: as in `Dense`.

    Weights: gamma, beta (units,); stacked: (stack, 1, units).
    """

    weight_names = ("gamma", "beta")

    def __init__(self, stack: int | None = None, folded: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.stack = stack
        self.folded = folded
        self.quantized_weights = () if folded else self.weight_names

    def build(self, input_shape):
        units = int(input_shape[-1])
        shape = (units,) if self.stack is None else (self.stack, 1, units)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")
        super().build(input_shape)

    def get_config(self):
        return super().get_config() | {"stack": self.stack, "folded": self.folded}


class Embedding(Leaf):
    """The table of one categorical variable.

    Args:
        categories: number of categories, the unknown token (code 0) included.
        units: size of a category's vector.

    Weights: table (categories, units).
    """

    # Not quantized by itself: the table is stored on the grid of the vectors looked up in it.
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


def dense(
    inputs: tf.Tensor,
    weights: tuple[tf.Tensor, tf.Tensor | None],
    observe: PlainObserver,
    name: str,
) -> tf.Tensor:
    """Returns `inputs @ kernel + bias`, observed as `name`.

    Args:
        inputs: (..., in), or (variables, rows, in) with a stacked kernel.
        weights: kernel (in, units) or (variables, in, units), and bias (units,) or
            (variables, 1, units), or `None`.

    Returns:
        (..., units), or (variables, rows, units).
    """
    kernel, bias = weights
    if kernel.shape.rank == 3:
        # A batched product has no bias of its own in an int8 runtime: two results are stored.
        product = observe(product_name(name), tf.matmul(inputs, kernel))
        return observe(name, product + bias)
    rows = inputs if inputs.shape.rank == 2 else tf.reshape(inputs, (-1, kernel.shape[0]))
    rows = tf.matmul(rows, kernel)
    rows = observe(name, rows if bias is None else rows + bias)
    if inputs.shape.rank == 2:
        return rows
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], 0))


def product_name(name: str) -> str:
    """Returns the name under which a stacked dense layer's product, yet without bias, is known."""
    return f"{name}_product"
