"""Input embeddings: every variable becomes a vector of the model's hidden size."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.leaf import Dense, Embedding
from tft_keras.quantization.observers import PlainObserver


class Embedded(NamedTuple):
    """Embedded variables, the real ones still unexpanded. Rows are the flattened other axes.

    The embedding of a real variable is x * kernel + bias: linear in one number, so whatever linear
    map follows can take the number itself and a folded kernel (`VariableSelection`).

    Attributes:
        real: (real, rows), the values of the real variables; `None` without any.
        kernel, bias: (real, units).
        categorical: (categorical, rows, units), vectors looked up; `None` without any.
        codes: (categorical, rows), the integers that they were looked up by.
    """

    real: tf.Tensor | None
    kernel: tf.Tensor | None
    bias: tf.Tensor | None
    categorical: tf.Tensor | None
    codes: tf.Tensor | None = None


def concatenate(parts: list[Embedded]) -> Embedded:
    """Joins the variables of several roles on the same rows, real and categorical each in order."""

    def join(field: str) -> tf.Tensor | None:
        tensors = [getattr(part, field) for part in parts]
        tensors = [tensor for tensor in tensors if tensor is not None]
        return tf.concat(tensors, axis=0) if len(tensors) > 1 else (tensors or [None])[0]

    return Embedded(*(join(field) for field in Embedded._fields))


def cut_steps(embedded: Embedded, steps: int, part: slice) -> Embedded:
    """Returns the rows of some steps, where rows are windows of `steps` steps, windows first."""

    def cut(tensor: tf.Tensor | None) -> tf.Tensor | None:
        if tensor is None:
            return None
        variables, units = tensor.shape[0], tensor.shape[2:]
        by_step = tf.reshape(tensor, (variables, -1, steps, *units))[:, :, part]
        return tf.reshape(by_step, (variables, -1, *units))

    fields = ("real", "categorical", "codes")
    return embedded._replace(**{field: cut(getattr(embedded, field)) for field in fields})


class InputEmbedding(TFTLayer):
    """Embeds the variables of one role: a linear layer per real one, a table per categorical one.

    Paper, section 4.2: "entity embeddings for categorical variables and linear transformations for
    continuous variables".

    Args:
        units: the model's hidden size.
        real: number of real variables.
        categorical: number of categories of each categorical variable, unknown token included.

    Call arguments:
        real: (..., real) floating point, or `None`.
        categorical: (..., categorical) integer codes, or `None`.
        size: (real,), by which the real variables were divided, or `None`.
        observe: passes the vectors looked up.
        training: passed to the leaves.

    Outputs: `Embedded`, variables first.
    """

    def __init__(self, units: int, real: int = 0, categorical: tuple[int, ...] = (), **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.real = real
        self.categorical = tuple(categorical)

    def build(self, input_shape=None):
        self.linear = None
        if self.real:
            # One number in, `units` out, for each variable: (real, 1, units).
            linear = Dense(self.units, stack=self.real, folded=True, name="linear")
            self.linear = self.add_leaf(linear, 1)
        self.tables = [
            self.add_leaf(Embedding(categories, self.units, name=f"table_{place}"), categories)
            for place, categories in enumerate(self.categorical)
        ]
        super().build(input_shape)

    def call(self, real=None, categorical=None, size=None, observe=None, training=None):
        kernel = bias = vectors = codes = None
        if self.real:
            kernel, bias = self.linear.values(training)
            real = tf.cast(real, kernel.dtype)
            real = tf.transpose(tf.reshape(real, (-1, self.real)))
            kernel, bias = tf.squeeze(kernel, 1), tf.squeeze(bias, 1)
            if size is not None:
                kernel *= tf.cast(size, kernel.dtype)[:, tf.newaxis]
        if self.tables:
            codes = tf.reshape(categorical, (-1, len(self.tables)))
            observe = observe or PlainObserver()
            vectors = tf.stack(
                [
                    observe("values", tf.gather(*table.values(training), codes[:, place]))
                    for place, table in enumerate(self.tables)
                ]
            )
            codes = tf.transpose(codes)
        return Embedded(real if self.real else None, kernel, bias, vectors, codes)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "real": self.real,
            "categorical": self.categorical,
        }
