"""Biases on the grid of an int8 runtime's 32-bit sums.

The runtime adds up products of 8-bit integers; a bias is one more integer in that sum, so its step
is the step of the input times the step of the kernel. Training rounds biases to it, too: the
difference is small, but decides on which side of a rounding step some results fall.
"""

from __future__ import annotations

import functools

import tensorflow as tf

from tft_keras.quantization.quantizers import weight_limit


def round_bias(bias: tf.Tensor, kernel: tf.Tensor, input_scale: tf.Tensor) -> tf.Tensor:
    """Returns a bias on the grid; the gradient is that of the bias.

    Args:
        bias: (units,).
        kernel: (in, units), not yet quantized itself; see `WeightQuantizer`.
        input_scale: step of the input's grid.
    """
    step = input_scale * weight_limit(kernel) / 127
    wide = tf.cast(bias, tf.float32)
    rounded = tf.cast(tf.round(wide / step) * step, bias.dtype)
    return bias + tf.stop_gradient(rounded - bias)


def connect_biases(model) -> None:
    """Tells every leaf with a bias where its input was last observed.

    Args:
        model: a quantized `TemporalFusionTransformer`, built.
    """

    def after(layer, name):
        return functools.partial(layer.observers.scale, name)

    def connect_residual(network, input_scale, observers, prefix=""):
        network.projection.input_scale = functools.partial(observers.scale, f"{prefix}activation")
        network.gate.input_scale = functools.partial(observers.scale, f"{prefix}projection")
        if input_scale is not None:
            network.hidden.input_scale = input_scale

    for name in ("static", "history", "future"):
        selection = getattr(model, f"{name}_selection", None)
        if selection is None:
            continue
        selection.input_scale = (
            model.inputs_observed.scale
            if selection.real
            else after(model.vectors_observed, "values")
        )
        connect_residual(selection.weighing, None, selection.observers, "weighing/")
    if model.config.static_variables:
        for network in model.static_context.networks:
            connect_residual(network, after(model.static_selected, "values"), network.observers)
    for lstm in (model.lstm_encoder, model.lstm_decoder):
        lstm.weights_leaf.input_scale = after(model.selected, "values")
    for network, before in (
        (model.enrichment, model.lstm_skip),
        (model.position_wise, model.attention_skip),
    ):
        connect_residual(network, after(before, "normalized"), network.observers)
    for skip, before, result in (
        (model.lstm_skip, model.lstm_encoder, "hidden"),
        (model.attention_skip, model.attention, "output"),
        (model.output_skip, model.position_wise, "normalized"),
    ):
        skip.gate.input_scale = after(before, result)
    model.head.linear.input_scale = after(model.output_skip, "normalized")
