"""From a model to .tflite files: int8 by the trained observers, and float32."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from export import passes
from export.device_model import device_model
from export.flatbuffer import Graph
from export.inference import inference_model, input_signature, quantiles_function
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import observer_mode

SIGNATURE = "serving_default"


def convert_int8(
    model: TemporalFusionTransformer, batch_size: int | None = 1, integer_edges: bool = True
) -> bytes:
    """Returns the int8 .tflite file of a quantized model; its observers give every scale.

    Args:
        model: quantized, its observers calibrated.
        batch_size: windows of a call; `None` for any number.
        integer_edges: whether real inputs and the quantiles are int8 tensors, otherwise float32.
    """
    device = device_model(model)
    converter = _converter(device, batch_size)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if integer_edges:
        converter.inference_input_type = converter.inference_output_type = tf.int8
    graph = Graph(converter.convert())
    passes.integer_codes(graph)
    passes.integer_elu(graph)
    passes.float_means(graph)
    passes.drop_copies(graph)
    passes.fold_constants(graph)
    graph.drop_unused()
    passes.per_tensor_weights(graph)
    passes.integer_weights(graph)
    return _named(graph, model)


def convert_float32(model: TemporalFusionTransformer, batch_size: int | None = 1) -> bytes:
    """Returns the float32 .tflite file of a model; of a quantized one, without quantization."""
    copy = inference_model(model)
    if not model.quantized:
        return _named(Graph(_converter(copy, batch_size).convert()), model)
    with observer_mode(copy, "off"):
        converter = _converter(copy, batch_size)
    return _named(Graph(converter.convert()), model)


def _converter(model: TemporalFusionTransformer, batch_size: int | None) -> tf.lite.TFLiteConverter:
    """Returns the converter of a model whose weights are constants already.

    The converter would make them constants, too, but by way of a SavedModel of the whole model.
    """
    signature = input_signature(model, batch_size)
    concrete = quantiles_function(model, batch_size).get_concrete_function(**signature)
    return tf.lite.TFLiteConverter.from_concrete_functions(
        [convert_variables_to_constants_v2(concrete)]
    )


def _named(graph: Graph, model: TemporalFusionTransformer) -> bytes:
    """Returns the file, with the inputs' names that got lost in the conversion."""
    # Both sides are in the order of the names.
    graph.name_signature(sorted(model.example_inputs(1)), ["quantiles"], SIGNATURE)
    graph.drop_unused()
    return graph.content()
