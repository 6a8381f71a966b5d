"""HAR and the simple forecasts, on series of which the best forecast is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import PreparedData, Schema, prepare
from tft_keras.data.bars import Har, measure_baselines
from tft_keras.errors import InputError

CONFIG = DataConfig(encoder_steps=10, horizon=3, validation=0.2, test=0.2)


def _data(target: np.ndarray) -> PreparedData:
    table = pa.table({"time": np.arange(len(target)), "target": target})
    return prepare(table, Schema("target", "time"), CONFIG)


@pytest.fixture(scope="module")
def data() -> PreparedData:
    """Each value is 0.5 plus half the last one plus a quarter of the mean of the last ten."""
    generator = np.random.default_rng(0)
    values = list(generator.normal(2, 1, 10))
    for _ in range(990):
        values.append(
            0.5 + 0.5 * values[-1] + 0.25 * np.mean(values[-10:]) + generator.normal(0, 0.3)
        )
    return _data(np.array(values))


def test_har_finds_the_weights(data):
    har = Har.fit(data.train, lags=(1, 10))
    np.testing.assert_allclose(har.weights[:, 0], [0.5, 0.5, 0.25], atol=0.12)
    assert har.forecast(data.test, np.arange(5)).shape == (5, 3)


def test_har_is_the_least_squares_fit_on_training_windows(data):
    har = Har.fit(data.train)
    assert har.lags == (1, 2, 10)
    positions = np.arange(len(data.train))
    past, actual = data.train.history(positions, 10), data.train.actuals(positions)
    inputs = [np.ones(len(past)), past[:, -1], past[:, -2:].mean(axis=1), past.mean(axis=1)]
    weights = np.linalg.lstsq(np.stack(inputs, axis=1), actual, rcond=None)[0]
    np.testing.assert_allclose(har.weights, weights, rtol=1e-6)


def test_means_that_are_alike_do_no_harm():
    """A constant target: all inputs are the same."""
    with pytest.warns(UserWarning, match="is constant"):
        data = _data(np.full(200, 3.0))
    har = Har.fit(data.train)
    np.testing.assert_allclose(har.forecast(data.test, np.arange(5)), 3.0)


def test_measures(data):
    results = measure_baselines(data.train, data.test)
    assert list(results) == ["zero", "training mean", "last value", "rolling mean", "HAR"]
    positions = np.arange(len(data.test))
    actual = data.test.actuals(positions)
    error = actual - data.test.last_value(positions)[:, None]
    last = results["last value"]
    assert last["values"] == actual.size
    assert last["mae"] == pytest.approx(np.abs(error).mean())
    assert last["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert last["r2_zero"] == pytest.approx(1 - (error**2).sum() / (actual**2).sum())
    center = data.train.actuals(np.arange(len(data.train))).mean()
    whole = ((actual - center) ** 2).sum()
    assert last["r2_mean"] == pytest.approx(1 - (error**2).sum() / whole)
    last_step = (error[:, -1] ** 2).sum() / (actual[:, -1] ** 2).sum()
    assert last["r2_zero_last"] == pytest.approx(1 - last_step)
    assert results["HAR"]["rmse"] < min(results[n]["rmse"] for n in ("last value", "rolling mean"))
    assert results["zero"]["r2_zero"] == 0 == results["training mean"]["r2_mean"]


def test_a_model_is_measured_on_the_same_values(data):
    positions = np.arange(len(data.test))
    model = ((p, data.test.actuals(p)) for p in np.array_split(positions, 3))
    results = measure_baselines(data.train, data.test, model)
    assert results["model"]["rmse"] == 0
    assert results["model"]["values"] == results["zero"]["values"] == 3 * len(positions)


def test_noise_cannot_be_forecast():
    results = measure_baselines(*_noise())
    assert abs(results["HAR"]["r2_zero"]) < 0.05
    assert results["last value"]["r2_zero"] == pytest.approx(-1, abs=0.2)


def _noise():
    data = _data(np.random.default_rng(1).normal(0, 1, 3000))
    return data.train, data.test


def test_missing_targets_count_nowhere():
    target = np.random.default_rng(2).normal(1, 1, 400)
    target[395] = np.nan
    data = _data(target)
    results = measure_baselines(data.train, data.test)
    actual = data.test.actuals(np.arange(len(data.test)))
    assert results["zero"]["values"] == np.isfinite(actual).sum() < actual.size
    assert np.isfinite(
        [value for measures in results.values() for value in measures.values()]
    ).all()


def test_too_few_windows():
    data = _data(np.random.default_rng(3).normal(0, 1, 24))
    with pytest.raises(InputError, match=r"more windows .* its 4 weights\. Received: \d"):
        Har.fit(data.train)
