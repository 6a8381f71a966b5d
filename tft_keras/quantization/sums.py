"""The 32-bit sums of an int8 runtime: what they are made of, and how they become 8 bits again.

A dense layer or matrix product adds up products of 8-bit integers, so that its sum is a whole
number of *units*; a unit is the step of one factor times the step of the other. A bias is one more
whole number in it. The runtime then brings the sum to the 8-bit grid of the result.

A mean is such a sum, too: its second factor is one over the number of values.

Training adds up in float32, which is a little off a whole number of units, and that decides on
which side of a rounding step some results fall; an LSTM makes many of one. Outside of training
these functions give the number that the runtime gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tft_keras.quantization.quantizers import straight_through, weight_limit

Step = Callable[[], tf.Tensor | None]  # of a grid; None where nothing is quantized


class Sum(NamedTuple):
    """Of what an observed result is the sum.

    Attributes:
        factors: tell the steps of the two factors' grids.
        twice: of a product of two activations: tells whether the runtime rounds it twice.
    """

    factors: tuple[Step, Step]
    twice: Callable[[], tf.Tensor] | None = None

    def terms(self) -> tf.Tensor:
        """Returns the unit, and 1 where it is rounded twice, else 0."""
        first, second = self.factors
        twice = tf.cast(self.twice(), tf.float32) if self.twice else tf.constant(0.0)
        return tf.stack([first() * second(), twice])

    def rounded(self, value: tf.Tensor, terms: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the sum on the grid of its result, whose step is `step`."""
        unit, twice = tf.unstack(terms)
        if self.twice is None:
            return round_sum(value, unit, step)
        return round_product(value, unit, step, twice)


def kernel_step(kernel: tf.Tensor) -> tf.Tensor:
    """Returns the step of the grid that `WeightQuantizer` puts a kernel on."""
    return weight_limit(kernel) / 127


def round_bias(bias: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
    """Returns a bias in whole units; the gradient is that of the bias."""
    return straight_through(bias, tf.round(tf.cast(bias, tf.float32) / unit) * unit)


def round_sum(value: tf.Tensor, unit: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a dense layer, or of a mean, on the grid of its result.

    The runtime multiplies by a float32 number and rounds, halves to even.

    Args:
        value: the sum, nearly a whole number of units.
        unit: of the sum, scalar.
        step: of the result's grid, scalar.

    Returns:
        Whole steps, not yet clipped to the grid's ends. The gradient is that of the value.
    """
    units = tf.round(tf.cast(value, tf.float32) / unit)
    return straight_through(value, tf.round(units * (unit / step)) * step)


def round_product(
    value: tf.Tensor, unit: tf.Tensor, step: tf.Tensor, twice: tf.Tensor
) -> tf.Tensor:
    """Returns a product of two activations on the grid of its result; else as `round_sum`.

    The runtime multiplies by a fixed-point number in [1/2, 1), rounds, divides by a power of two
    and rounds again, halves away from zero: one value in 300 is not what rounding once gives. On
    x86 it rounds once where the second activation's zero point is 0.
    """
    wide, unit, step = (tf.cast(each, tf.float64) for each in (value, unit, step))
    exponent = tf.math.floor(tf.math.log(unit / step) / tf.math.log(tf.constant(2.0, tf.float64)))
    power = tf.pow(tf.constant(2.0, tf.float64), tf.minimum(exponent + 1, 0.0))
    power = tf.where(twice > 0, power, 1.0)
    units = tf.round(tf.abs(wide) / unit)
    once = tf.math.floor(units * (unit / step) / power + 0.5)
    return straight_through(value, tf.sign(wide) * tf.math.floor(once * power + 0.5) * step)


def connect_sums(model) -> None:
    """Tells every leaf with a kernel, and the observer of its result, where its input was observed.

    Args:
        model: a quantized `TemporalFusionTransformer`, built.
    """
    contexts = dict.fromkeys(("selection", "enrichment"))
    if model.config.variables("static"):
        for network in model.static_context.networks:
            _connect_residual(network, network.observers, _after(model.static_selected, "values"))
            contexts[network.name] = _after(network, "normalized")
    _connect_selections(model, contexts["selection"])
    for lstm in (model.lstm_encoder, model.lstm_decoder):
        leaf, hidden = lstm.weights_leaf, _after(lstm, "hidden")
        _connect(lstm.observers, "recurrent", leaf, hidden, "recurrent_kernel")
        _connect(lstm.observers, "projected", leaf, _after(model.selected, "values"))
    for network, before, context in (
        (model.enrichment, model.lstm_skip, contexts["enrichment"]),
        (model.position_wise, model.attention_skip, None),
    ):
        _connect_residual(network, network.observers, _after(before, "normalized"), context)
    _connect_attention(model.attention, _after(model.enrichment, "normalized"))
    for skip, before, result in (
        (model.lstm_skip, model.lstm_encoder, "hidden"),
        (model.attention_skip, model.attention, "output"),
        (model.output_skip, model.position_wise, "normalized"),
    ):
        _connect_skip(skip, skip.observers, _after(before, result))
    outputs = _after(model.output_skip, "normalized")
    _connect(model.head.observers, "quantiles", model.head.linear, outputs)


def _connect_selections(model, context: Step | None) -> None:
    for name in ("static", "history", "future"):
        selection = getattr(model, f"{name}_selection", None)
        if selection is None:
            continue
        selection.input_steps["real"] = model.quantized_inputs.scale
        if selection.categorical:
            selection.input_steps["categorical"] = _after(model.vectors_range, "values")
        # The first layer's sums are known to the selection itself, which folds kernels into it.
        _connect_residual(selection.weighing, selection.observers, None, context, "weighing/")


def _connect_residual(network, observers, inputs, context=None, prefix: str = "") -> None:
    def observed(name: str) -> Step:
        return functools.partial(observers.scale, prefix + name)

    if inputs is not None:
        _connect(observers, f"{prefix}hidden", network.hidden, inputs)
    if network.context is not None:
        _connect(observers, f"{prefix}context", network.context, context)
    _connect(observers, f"{prefix}projection", network.projection, observed("activation"))
    _connect_skip(network, observers, observed("projection"), prefix)


def _connect_skip(skip, observers, inputs: Step, prefix: str = "") -> None:
    _connect(observers, f"{prefix}gate_linear", skip.gate, inputs)
    if not skip.integer_layer_norm:
        return
    units = skip.normalization.layer.gamma.shape[-1]
    for name, summed in (("mean", "sum"), ("variance", "squares")):
        steps = (functools.partial(observers.scale, prefix + summed), lambda: 1 / units)
        observers.sums[prefix + name] = Sum(steps)


def _connect_attention(attention, inputs: Step) -> None:
    for name in ("query", "key", "value"):
        _connect(attention.observers, name, getattr(attention, name), inputs)
    for name, factors in (("scores", ("query", "key")), ("attended", ("attention", "value"))):
        steps = tuple(_after(attention, factor) for factor in factors)
        twice = functools.partial(attention.observers.shifted, factors[1])
        attention.observers.sums[name] = Sum(steps, twice)
    _connect(attention.observers, "output", attention.output_leaf, _after(attention, "attended"))


def _connect(observers, name: str, leaf, inputs: Step, kernel: str = "kernel") -> None:
    """Says that an observed result is the sum of inputs times a leaf's kernel."""
    observers.sums[name] = Sum((inputs, functools.partial(leaf.kernel_step, kernel)))
    if kernel == "kernel":  # whose sum the bias is in
        leaf.input_step = inputs


def _after(layer, name: str) -> Step:
    return functools.partial(layer.observers.scale, name)
