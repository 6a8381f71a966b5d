"""From a model to .tflite files: int8 by the trained observers, and float32."""

from __future__ import annotations

import warnings

import tensorflow as tf
from absl import logging
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from export import passes
from export.device_model import device_model
from export.flatbuffer import Graph
from export.inference import inference_model, quantiles_function
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import observer_mode

SIGNATURE = "serving_default"


def convert_int8(
    model: TemporalFusionTransformer,
    batch_size: int | None = 1,
    float_edges: dict[str, list[float]] | None = None,
) -> bytes:
    """Returns the int8 .tflite file of a quantized model; its observers give every scale.

    Args:
        model: quantized, its observers calibrated.
        batch_size: windows of a call; `None` for any number.
        float_edges: if given, real inputs and the quantiles are float32 tensors; these are the
            sizes by which real inputs are divided, by name.
    """
    converter = _converter(device_model(model), batch_size)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    graph = _convert(converter)
    passes.integer_codes(graph)
    passes.integer_elu(graph)
    if not model.integer_layer_norm:
        passes.float_means(graph)
    passes.drop_copies(graph)
    passes.fold_constants(graph)
    graph.drop_unused()
    passes.per_tensor_weights(graph)
    passes.integer_weights(graph)
    if float_edges is not None:
        passes.float_edges(graph, float_edges)
    return _finished(graph)


def convert_float32(model: TemporalFusionTransformer, batch_size: int | None = 1) -> bytes:
    """Returns the float32 .tflite file of a model; of a quantized one, without quantization."""
    copy = inference_model(model)
    if not model.quantized:
        return _finished(_convert(_converter(copy, batch_size)))
    with observer_mode(copy, "off"):
        converter = _converter(copy, batch_size)
    return _finished(_convert(converter))


def _converter(model: TemporalFusionTransformer, batch_size: int | None) -> tf.lite.TFLiteConverter:
    """Returns the converter of a model whose weights are constants already.

    The converter would make them constants, too, but by way of a SavedModel of the whole model.
    """
    frozen = convert_variables_to_constants_v2(quantiles_function(model, batch_size))
    return tf.lite.TFLiteConverter.from_concrete_functions([frozen], tf.Module())


def _convert(converter: tf.lite.TFLiteConverter) -> Graph:
    """Converts without the converter's advice, such as to give data to calibrate with."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = Graph(converter.convert())
    finally:
        logging.set_verbosity(level)
    if len(graph.model.subgraphs) != 1:
        raise ValueError(
            "A model written out without loops converts to one subgraph. "
            f"Received: {len(graph.model.subgraphs)}."
        )
    return graph


def _finished(graph: Graph) -> bytes:
    """Returns the file, without the names of all tensors between inputs and outputs."""
    names = graph.input_names()
    graph.drop_unused()
    graph.drop_names()
    graph.name_signature(names, ["quantiles"], SIGNATURE)
    return graph.content()
