"""The model with its networks as tables, against the one that was trained."""

import numpy as np

from export.device_model import device_model
from export.manifest import input_sizes
from tests import runs


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
