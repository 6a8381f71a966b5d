"""The SavedModel in processes that know nothing of this library."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tf_keras as keras

from export.saved_model import FORECAST, QUANTILES, ServedModel
from tests import runs
from tft_keras import TemporalFusionTransformer
from tft_keras.config import DataConfig, ModelConfig
from tft_keras.data import Schema, prepare

LOAD = """
import json, sys
import numpy as np, tensorflow as tf
path, data = sys.argv[1:]
inputs = {name: tf.constant(array) for name, array in np.load(data).items()}
loaded = tf.saved_model.load(path)
one = loaded.signatures["serving_default"](**inputs)["quantiles"].numpy()
import keras
layer = keras.layers.TFSMLayer(path, call_endpoint="predict")
two = np.asarray(layer(inputs)["quantiles"])
assert keras.__version__.startswith("3") and not {"tft_keras", "export"} & {*sys.modules}
print(json.dumps([one.tolist(), two.tolist()]))
"""


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported[0] / "saved_model" / "1"))


def test_it_loads_without_this_library_and_in_keras_3(exported, quantized_run, tmp_path):
    inputs, _ = runs.prepared().test.gather(np.arange(5))
    np.savez(tmp_path / "inputs.npz", **inputs)
    path = str(exported[0] / "saved_model" / "1")
    command = [sys.executable, "-c", LOAD, path, str(tmp_path / "inputs.npz")]
    environment = {"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    expected = quantized_run.model()(inputs).numpy()
    for values in json.loads(result.stdout.splitlines()[-1]):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


def test_the_second_signature_takes_columns_as_they_are(loaded, quantized_run):
    """The table's own values, of the windows and of what lags and local scaling look back to."""
    windows = runs.prepared().test
    positions = np.arange(4)
    inputs, _ = windows.gather(positions)
    preprocessing = quantized_run.preprocessing()
    assert preprocessing.derived.lags and preprocessing.derived.moves
    table = runs.sales_table().to_pandas()
    table["day"] = pd.to_datetime(table["day"])
    raw = {name: array for name, array in inputs.items() if "categorical" in name}
    for role, before, after in (("known", 10, 3), ("observed", 10 + preprocessing.reach, 0)):
        columns = preprocessing.given_columns(role)
        cut = []
        for (store,), origin in zip(
            windows.series(positions), windows.times(positions)[:, 0], strict=True
        ):
            days = pd.date_range(origin - np.timedelta64(before, "D"), periods=before + after)
            part = table[table["store"] == store].set_index("day").reindex(days)
            cut.append(part[list(columns)])
        raw[f"{role}_real"] = np.array(cut, np.float32)
    signature = loaded.signatures[FORECAST]
    result = signature(**{name: tf.constant(array) for name, array in raw.items()})["forecast"]
    scaled = quantized_run.model()(inputs).numpy() + preprocessing.calibration.offsets
    expected = windows.unscale(positions, np.sort(scaled, axis=-1))
    # A scaled input that is off in its last bit may round to the next of 225 levels.
    assert np.abs(result.numpy() - expected).mean() < 0.02 * np.abs(expected).mean()


def test_signatures_name_inputs_and_outputs(loaded):
    assert set(loaded.signatures) == {QUANTILES, FORECAST}
    _, inputs = loaded.signatures[QUANTILES].structured_input_signature
    assert "observed_real" in inputs and inputs["observed_real"].shape[0] is None
    assert list(loaded.signatures[FORECAST].structured_outputs) == ["forecast"]


@pytest.mark.parametrize("scaling", ["standard", "robust", "none", "local"])
@pytest.mark.parametrize("per_series", [False, True])
@pytest.mark.parametrize("log1p", [False, True])
def test_raw_columns_are_scaled_as_in_training(scaling, per_series, log1p):
    """The table's own values, cut by pandas, against the forecast that training's scaling gives."""
    generator = np.random.default_rng(0)
    tables = []
    for place, level in enumerate((2.0, 40.0, 7.0)):
        table = pd.DataFrame({"time": np.arange(40), "series": place})
        table["sales"] = level * generator.uniform(0.5, 2, 40)
        table["price"] = level + generator.standard_normal(40)
        table["visits"] = np.where(np.arange(40) % 7 == 3, np.nan, level * table["time"])
        tables.append(table.assign(area=level**2))
    table = pd.concat(tables, ignore_index=True)
    schema = Schema(
        target="sales",
        time="time",
        group=("series",),
        static=("area",),
        known=("price",),
        observed=("visits",),
    )
    config = DataConfig(
        encoder_steps=6,
        horizon=3,
        scaling=scaling,
        scale_per_series=per_series,
        target_log1p=log1p,
    )
    prepared = prepare(table, schema, config)
    keras.utils.set_random_seed(0)
    sizes = prepared.preprocessing.model_sizes()
    model = TemporalFusionTransformer(ModelConfig(**sizes, hidden_size=8, num_heads=2))
    windows = prepared.test
    inputs, _ = windows.gather(np.arange(len(windows)))
    expected = windows.unscale(np.arange(len(windows)), model(inputs).numpy())

    # The test split is the last 4 rows of each series: two windows end there.
    raw = {"static_real": [], "known_real": [], "observed_real": [], "series": []}
    for place, part in enumerate(tables):
        for start in (40 - 4 - 6, 40 - 3 - 6):
            reach = prepared.preprocessing.reach
            past, window = part[start - reach : start + 6], part[start : start + 9]
            raw["static_real"].append(part["area"][:1])
            raw["known_real"].append(window[["price"]])
            raw["observed_real"].append(past[["sales", "visits"]])
            raw["series"].append(place)
    raw = {name: np.array(values, np.float32) for name, values in raw.items()}
    raw["series"] = raw["series"].astype(np.int32)
    forecast = ServedModel(model, prepared.preprocessing).functions[FORECAST]
    if not (per_series and scaling != "none"):
        del raw["series"]
    result = forecast(**{name: tf.constant(array) for name, array in raw.items()})["forecast"]
    # float32 throughout the model; the values reach 80.
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-4, atol=1e-4)
