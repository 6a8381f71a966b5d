"""The LSTM of the sequence-to-sequence layer, its state open to observers at every step."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.fused_lstm import fused_lstm
from tft_keras.layers.leaf import Leaf, dense
from tft_keras.quantization.observers import PlainObserver
from tft_keras.quantization.quantizers import SIGMOID, STATE, TANH


class LSTMWeights(Leaf):
    """Weights of an LSTM: input, forget, candidate and output gate side by side.

    Args:
        units: size of the hidden state.

    Weights: kernel (in, 4 units), recurrent_kernel (units, 4 units), bias (4 units,), which starts
        at 1 for the forget gate.
    """

    weight_names = ("kernel", "recurrent_kernel", "bias")
    quantized_weights = ("kernel", "recurrent_kernel")

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(int(input_shape[-1]), 4 * self.units),
            initializer="glorot_uniform",
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, 4 * self.units), initializer="orthogonal"
        )
        self.bias = self.add_weight(
            name="bias", shape=(4 * self.units,), initializer=_ForgetBias(self.units)
        )
        super().build(input_shape)

    def get_config(self):
        return super().get_config() | {"units": self.units}


class _ForgetBias(keras.initializers.Initializer):
    def __init__(self, units: int):
        self.units = units

    def __call__(self, shape, dtype=None, **kwargs):
        zeros = tf.zeros((self.units,), dtype)
        return tf.concat([zeros, zeros + 1, zeros, zeros], axis=0)


def lstm_step(
    projected: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    observe: PlainObserver,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes one step of the LSTM.

    Args:
        projected: (batch, 4 units), the step's input times the kernel, plus the bias.
        hidden, cell: (batch, units), the state before.
        recurrent_kernel: (units, 4 units).

    Returns:
        hidden, cell: (batch, units), the state after.
    """
    recurrent = observe("recurrent", tf.matmul(hidden, recurrent_kernel))
    gates = observe("gates", projected + recurrent)
    write, keep, candidate, read = tf.split(gates, 4, axis=-1)
    write = observe("write_gate", tf.sigmoid(write))
    keep = observe("keep_gate", tf.sigmoid(keep))
    read = observe("read_gate", tf.sigmoid(read))
    candidate = observe("candidate", tf.tanh(candidate))
    kept, written = observe("kept", keep * cell), observe("written", write * candidate)
    cell = observe("cell", kept + written)
    hidden = observe("hidden", read * observe("cell_activation", tf.tanh(cell)))
    return hidden, cell


class LSTM(TFTLayer):
    """An LSTM over a sequence, from a given state (paper, section 4.5.1).

    Args:
        units: size of the hidden state.
        unroll: write the steps out one by one, as an exported graph needs them, instead of looping.

    Call arguments:
        inputs: (batch, time, in).
        hidden, cell: (batch, units), the state before the first step.
        training: whether live observers move.

    Outputs:
        outputs: (batch, time, units), the hidden state after each step.
        hidden, cell: (batch, units), the state after the last.
    """

    def __init__(self, units: int, unroll: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.unroll = unroll

    def observations(self):
        # With the runtime's scales of sigmoid and tanh, 1/256 and 1/128, products would often lie
        # exactly between two steps, where the runtime and the fake-quantization round differently.
        tracked = dict.fromkeys(("projected", "recurrent", "gates", "kept", "cell"))
        gates = dict.fromkeys(("write_gate", "keep_gate", "read_gate"), SIGMOID)
        activations = {"candidate": TANH, "cell_activation": TANH}
        return tracked | gates | activations | {"written": STATE, "hidden": STATE}

    def build(self, input_shape):
        self.weights_leaf = self.add_leaf(
            LSTMWeights(self.units, name="cell"), int(input_shape[-1])
        )
        super().build(input_shape)

    def call(self, inputs, hidden, cell, training=None):
        kernel, recurrent_kernel, bias = self.weights_leaf.values(training)
        hidden, cell = tf.cast(hidden, kernel.dtype), tf.cast(cell, kernel.dtype)
        with self.observing(training) as observe:
            projected = dense(inputs, (kernel, bias), observe, "projected")
            if self.unroll:
                return unrolled_lstm(projected, hidden, cell, recurrent_kernel, observe)
            if training and not self.quantized:
                steps = tf.transpose(projected, (1, 0, 2))
                hiddens, cells = fused_lstm(steps, hidden, cell, recurrent_kernel)
                return tf.transpose(hiddens, (1, 0, 2)), hiddens[-1], cells[-1]
            outputs, hidden, cell, seen = looped_lstm(
                projected, hidden, cell, recurrent_kernel, observe
            )
            observe.see(seen)
            return outputs, hidden, cell

    def get_config(self):
        return super().get_config() | {"units": self.units, "unroll": self.unroll}


def unrolled_lstm(projected, hidden, cell, recurrent_kernel, observe):
    """Runs `lstm_step` over (batch, time, 4 units), a copy of its operations for each step."""
    outputs = []
    for step in tf.unstack(projected, axis=1):
        hidden, cell = lstm_step(step, hidden, cell, recurrent_kernel, observe)
        outputs.append(hidden)
    return tf.stack(outputs, axis=1), hidden, cell


def looped_lstm(projected, hidden, cell, recurrent_kernel, observe):
    """Runs `lstm_step` over (batch, time, 4 units) in a loop; also returns what observers saw."""
    time = tf.shape(projected)[1]
    steps = tf.TensorArray(projected.dtype, time).unstack(tf.transpose(projected, (1, 0, 2)))
    outputs = tf.TensorArray(projected.dtype, time, element_shape=hidden.shape)
    ranges = observe.ranges

    def body(step, hidden, cell, outputs, seen):
        inner = observe.within(ranges)
        hidden, cell = lstm_step(steps.read(step), hidden, cell, recurrent_kernel, inner)
        seen = tf.maximum(seen, inner.seen)
        return step + 1, hidden, cell, outputs.write(step, hidden), seen

    _, hidden, cell, outputs, seen = tf.while_loop(
        lambda step, *_: step < time,
        body,
        (tf.constant(0), hidden, cell, outputs, observe.seen),
        maximum_iterations=projected.shape[1],
    )
    outputs = tf.transpose(outputs.stack(), (1, 0, 2))
    return tf.ensure_shape(outputs, (*projected.shape[:2], hidden.shape[-1])), hidden, cell, seen
