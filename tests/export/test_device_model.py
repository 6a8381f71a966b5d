"""The model with its networks as tables, against the one that was trained."""

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from export.device_model import device_model
from export.manifest import input_sizes
from export.tflite import convert_int8
from tests import runs
from tests.support import random_inputs, random_targets
from tft_keras import ModelConfig, TemporalFusionTransformer, quantization


def test_tables_give_what_the_networks_compute(quantized_run):
    model = quantized_run.model()
    inputs, _ = runs.prepared().test.gather(np.arange(12))
    sizes = input_sizes(model)
    quotients = {n: np.float32(a / sizes[n]) if n in sizes else a for n, a in inputs.items()}
    device = device_model(model)
    selections = (device.static_selection, device.history_selection, device.future_selection)
    assert all(selection.tables is not None for selection in selections)
    scale = next(r["scale"] for r in model.observer_report() if r["name"] == "head/quantiles")
    steps = np.abs(device(quotients) - model(inputs)) / scale
    # Float sums in another order: hardly a value falls on the other side of a rounding step.
    assert steps.max() < 2.5 and (steps < 0.5).mean() > 0.95


def test_without_known_inputs_the_decoders_bias_fits_into_32_bits():
    config = ModelConfig(encoder_steps=4, horizon=2, hidden_size=4, num_heads=1)
    model = TemporalFusionTransformer(config, quantized=True)
    inputs, targets = random_inputs(config, 16), random_targets(config, 16)
    quantization.calibrate(model, tf.data.Dataset.from_tensors((inputs, targets)), 1)
    model.freeze_observers()
    interpreter = Interpreter(
        model_content=convert_int8(model),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    scale = {t["index"]: t["quantization"][0] for t in interpreter.get_tensor_details()}
    products = [o for o in interpreter._get_ops_details() if o["op_name"] == "FULLY_CONNECTED"]
    # A bias of 1, the keep gate's, is 1 / (input's scale x kernel's scale) in the runtime.
    units = [scale[o["inputs"][0]] * scale[o["inputs"][1]] for o in products]
    assert len(units) > 10 and 1 / min(units) < 2**31
