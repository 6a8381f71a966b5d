"""The model as it runs on a device: written out without loops, its weights constants."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tft_keras.model import TemporalFusionTransformer


def inference_model(model: TemporalFusionTransformer) -> TemporalFusionTransformer:
    """Returns a copy of a model whose graph has no loop: every LSTM step is written out.

    The arithmetic is the same. The copy computes in float32 whatever the precision of training.
    """
    config = model.get_config() | {"gradient_checkpointing": "off", "selection_group_size": 10**6}
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("float32")
    try:
        copy = type(model).from_config(config)
    finally:
        keras.mixed_precision.set_global_policy(policy)
    copy.set_weights(model.get_weights())
    copy.lstm_encoder.unroll = copy.lstm_decoder.unroll = True
    copy.attention.query_size = None
    return copy


def input_signature(
    model: TemporalFusionTransformer, batch_size: int | None
) -> dict[str, tf.TensorSpec]:
    """Returns the model's inputs by name, as `Windows.gather` gives them.

    Args:
        model: any.
        batch_size: `None` for any number of windows.
    """
    return {
        part.name: tf.TensorSpec((batch_size, *part.shape), part.dtype, part.name)
        for part in model.config.inputs()
    }


def quantiles_function(
    model: TemporalFusionTransformer, batch_size: int | None
) -> tf.types.experimental.ConcreteFunction:
    """Returns the function from named inputs to `quantiles` (batch, horizon, quantiles)."""

    def quantiles(**inputs):
        return {"quantiles": model(inputs, training=False)}

    function = tf.function(quantiles, autograph=False)
    return function.get_concrete_function(**input_signature(model, batch_size))
