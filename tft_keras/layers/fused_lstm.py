"""The LSTM's loop with a gradient written by hand: what it keeps is what the gradient needs.

TensorFlow's gradient of a loop keeps every intermediate result of every step, sums up the recurrent
kernel's gradient step by step, and starts some thirty operations for each. Here the way there keeps
the gates and the cell, the way back is a loop of its own, and the kernel's gradient is one matrix
product over all steps. Time is the first axis.

For one step, with z = projected + h_before R cut into four:

    i, f, o = sigmoid(z_i, z_f, z_o),   g = tanh(z_g)
    c = f c_before + i g,   h = o tanh(c)

    dc += dh o (1 - tanh(c)^2)
    dz = (dc g i (1 - i), dc c_before f (1 - f), dc i (1 - g^2), dh tanh(c) o (1 - o))
    dh_before = dz R^T,   dc_before = dc f,   dR = sum over steps of h_before^T dz
"""

from __future__ import annotations

import tensorflow as tf


@tf.custom_gradient
def fused_lstm(projected, hidden, cell, recurrent_kernel):
    """Runs an LSTM over a sequence.

    Args:
        projected: (time, batch, 4 units), inputs times the kernel, plus the bias; input, forget,
            candidate and output gate side by side.
        hidden, cell: (batch, units), the state before the first step.
        recurrent_kernel: (units, 4 units).

    Returns:
        hidden and cell after each step, (time, batch, units) both.
    """
    gates, hiddens, cells = _forward(projected, hidden, cell, recurrent_kernel)

    def gradient(of_hiddens, of_cells):
        before = tf.concat([cell[tf.newaxis], cells[:-1]], axis=0)
        slopes = _slopes(gates, before, cells)
        of_projected, of_hidden, of_cell = _backward(
            of_hiddens, of_cells, slopes, tf.transpose(recurrent_kernel)
        )
        before = tf.concat([hidden[tf.newaxis], hiddens[:-1]], axis=0)
        rows = [tf.reshape(t, (-1, t.shape[-1])) for t in (before, of_projected)]
        return of_projected, of_hidden, of_cell, tf.matmul(*rows, transpose_a=True)

    return (hiddens, cells), gradient


def _forward(projected, hidden, cell, kernel):
    """Returns the gates behind their activations, and hidden and cell state, of all steps."""

    def step(number, hidden, cell, *results):
        gates = steps.read(number) + tf.matmul(hidden, kernel)
        write, keep, candidate, read = tf.split(gates, 4, axis=-1)
        write, keep, candidate, read = *map(tf.sigmoid, (write, keep)), tf.tanh(candidate), read
        read = tf.sigmoid(read)
        cell = keep * cell + write * candidate
        hidden = read * tf.tanh(cell)
        gates = tf.concat([write, keep, candidate, read], axis=-1)
        written = (gates, hidden, cell)
        results = [r.write(number, w) for r, w in zip(results, written, strict=True)]
        return number + 1, hidden, cell, *results

    steps = _array(projected)
    shapes = (projected.shape[1:], hidden.shape, cell.shape)
    results = [_empty(projected, shape) for shape in shapes]
    *_, gates, hiddens, cells = _loop(step, tf.shape(projected)[0], (0, hidden, cell, *results))
    return gates.stack(), hiddens.stack(), cells.stack()


def _slopes(gates, cells_before, cells):
    """Returns, (time, batch, 6 units), what the way back multiplies by at each step.

    The slopes of the cell by the first three gates' sums, that of the hidden state by the fourth's,
    that of the hidden state by the cell, and that of the cell by the one before.
    """
    write, keep, candidate, read = tf.split(gates, 4, axis=-1)
    activated = tf.tanh(cells)
    return tf.concat(
        [
            candidate * write * (1 - write),
            cells_before * keep * (1 - keep),
            write * (1 - tf.square(candidate)),
            activated * read * (1 - read),
            read * (1 - tf.square(activated)),
            keep,
        ],
        axis=-1,
    )


def _backward(of_hiddens, of_cells, slopes, kernel):
    """Returns the gradients of the projected inputs and of the first state."""
    count = tf.shape(slopes)[0]
    hidden_steps, cell_steps, slope_steps = map(_array, (of_hiddens, of_cells, slopes))

    def step(number, of_hidden, of_cell, results):
        place = count - 1 - number
        of_hidden += hidden_steps.read(place)
        *by_cell, by_hidden, through, kept = tf.split(slope_steps.read(place), 6, axis=-1)
        of_cell += cell_steps.read(place) + of_hidden * through
        of_gates = [of_cell * slope for slope in by_cell]
        of_gates = tf.concat([*of_gates, of_hidden * by_hidden], axis=-1)
        of_hidden = tf.matmul(of_gates, kernel)
        return number + 1, of_hidden, of_cell * kept, results.write(place, of_gates)

    zeros = tf.zeros_like(of_hiddens[0])
    shape = tf.TensorShape([of_hiddens.shape[1], kernel.shape[0]])
    state = (0, zeros, zeros, _empty(slopes, shape))
    _, of_hidden, of_cell, results = _loop(step, count, state)
    return results.stack(), of_hidden, of_cell


def _array(tensor: tf.Tensor) -> tf.TensorArray:
    count = tf.shape(tensor)[0]
    array = tf.TensorArray(tensor.dtype, count, element_shape=tensor.shape[1:])
    return array.unstack(tensor)


def _empty(like: tf.Tensor, shape: tf.TensorShape) -> tf.TensorArray:
    return tf.TensorArray(like.dtype, tf.shape(like)[0], element_shape=shape)


def _loop(step, count, state):
    state = (tf.constant(state[0]), *state[1:])
    return tf.while_loop(lambda number, *_: number < count, step, state, parallel_iterations=1)
