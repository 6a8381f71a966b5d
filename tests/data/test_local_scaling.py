"""Statistics of each row's own past, against pandas' rolling windows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tft_keras.config import DataConfig
from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.derived import LEVEL_MOVED, SPREAD_MOVED
from tft_keras.data.local_scaling import LocalScaler, fit_local_scaler
from tft_keras.data.preprocessing import Preprocessing

from .tables import PLAIN, all_windows

BARE = LocalScaler(5, 3, center=1.0, scale=2.0, least_share=0.0, least=1e-9)
CONFIG = DataConfig(
    encoder_steps=6, horizon=2, **PLAIN | {"scaling": "local"}, local_steps=5, validation=0.2
)


def _column(rows=60):
    values = np.random.default_rng(0).normal(10, 3, rows)
    values[[3, 20, 21]] = np.nan
    return values


def _rolling(values, robust=False):
    """Center and spread of up to 5 rows, as pandas computes them."""
    rolling = pd.Series(values).rolling(5, min_periods=1)
    if not robust:
        return rolling.mean().to_numpy(), rolling.std(ddof=0).to_numpy()
    low, high = (rolling.quantile(q).to_numpy() for q in (0.25, 0.75))
    spread = np.where(high > low, (high - low) / 1.349, rolling.std(ddof=0))
    return rolling.median().to_numpy(), spread


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("log1p", [False, True])
def test_a_rows_statistics_are_those_of_the_rows_up_to_it(robust, log1p):
    values, segments = _column(), np.array([0, 25])
    scaler = dataclasses.replace(BARE, robust=robust, log1p=log1p)
    found = scaler.rows(values, segments)
    taken = np.log1p(values) if log1p else values
    parts = [_rolling(part, robust) for part in (taken[:25], taken[25:])]
    center, spread = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    np.testing.assert_allclose(found[0], center, rtol=1e-12)
    # pandas updates sums as it goes on, which leaves 1e-9 of a spread that is 0.
    np.testing.assert_allclose(found[1], np.maximum(spread, 1e-9), rtol=1e-6, atol=1e-7)


def test_no_later_row_counts():
    values, segments = _column(), np.array([0])
    before = BARE.rows(values, segments)
    values[40:] = 1e9
    after = BARE.rows(values, segments)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[:40], other[:40])


def test_a_spread_is_never_next_to_nothing():
    scaler = dataclasses.replace(BARE, least_share=0.01, least=0.5)
    values = np.concatenate([np.full(10, 1e6), np.zeros(10)])
    center, spread = scaler.rows(values, np.array([0, 10]))
    np.testing.assert_array_equal(center, values)
    np.testing.assert_array_equal(spread[:10], 1e4)  # a hundredth of the level
    np.testing.assert_array_equal(spread[10:], 0.5)


def test_rows_without_a_value_up_to_them_have_the_statistics_of_all():
    statistics = BARE.rows(np.array([np.nan, np.nan, 4.0, 6.0]), np.array([0]))
    assert np.isnan(statistics[0][:2]).all() and np.isnan(statistics[1][:2]).all()
    center, spread = BARE.filled(statistics)
    np.testing.assert_array_equal(center, [1, 1, 4, 5])
    np.testing.assert_array_equal(spread[[0, 1, 3]], [2, 2, 1])


def test_how_level_and_spread_moved():
    values = np.array([1.0, 3, 2, 8, 4, 4, 9, 1, 5, 7])
    now = BARE.rows(values, np.array([0]))
    level, spread = BARE.moves(now, BARE.rows_before(now, np.array([0])))
    center, deviation = _rolling(values)
    for row in range(5, 10):
        larger = max(deviation[row], deviation[row - 3])
        assert level[row] == pytest.approx((center[row] - center[row - 3]) / larger)
        assert spread[row] == pytest.approx(np.log(deviation[row] / deviation[row - 3]))
    np.testing.assert_array_equal([level[:3], spread[:3]], 0)


@pytest.mark.parametrize("robust", [False, True])
def test_tensorflow_computes_the_same(robust):
    scaler = dataclasses.replace(BARE, robust=robust, least_share=0.01)
    frames = np.random.default_rng(1).normal(5, 2, (40, 5))
    frames[np.random.default_rng(2).random(frames.shape) < 0.3] = np.nan
    frames[7] = np.nan
    ours, theirs = scaler.statistics(frames), scaler.statistics(tf.constant(frames), tnp)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-12)
    assert np.isnan(ours[0][7])


def test_the_least_spreads_are_fitted_on_training_rows():
    values = np.concatenate([np.random.default_rng(0).normal(100, 10, 400), [1e9] * 50])
    scaler = fit_local_scaler(values, np.arange(400), np.array([0]), 20, 5, False, False)
    assert scaler.center == pytest.approx(values[:400].mean())
    assert scaler.scale == pytest.approx(values[:400].std())
    # A tenth of the typical spread, 10 of 100, relative to the level.
    assert scaler.least_share == pytest.approx(0.01, rel=0.1)
    assert 3 < scaler.least < 10


def _table(levels=(1.0, 1e6), rows=60):
    parts = []
    for place, level in enumerate(levels):
        values = level * (10 + np.random.default_rng(place).normal(0, 1, rows))
        parts.append(pd.DataFrame({"g": place, "t": np.arange(rows), "y": values}))
    return pd.concat(parts, ignore_index=True)


def test_windows_are_scaled_row_by_row_and_forecasts_by_the_origins_row():
    table = _table(levels=(1.0,))
    data = prepare(table, Schema("y", "t"), CONFIG)
    values = table["y"].to_numpy()
    center, spread = _rolling(values)
    names = data.preprocessing.variable_names()["history"]
    assert names == ["y", LEVEL_MOVED, SPREAD_MOVED]
    inputs, targets = data.train.gather([7])
    scaled = (values - center) / np.where(spread > 0, spread, np.nan)
    # float32 values of some units.
    np.testing.assert_allclose(inputs["observed_real"][0, :, 0], scaled[7:13], atol=1e-5)
    origin = (values[13:15] - center[12]) / spread[12]
    np.testing.assert_allclose(targets[0], origin, rtol=1e-5)
    np.testing.assert_allclose(data.train.unscale([7], targets)[0], values[13:15], rtol=1e-6)


def test_series_of_all_levels_look_alike():
    one = prepare(_table((1.0, 1e6)), Schema("y", "t", ("g",)), CONFIG)
    inputs, targets = all_windows(one.train)
    same = prepare(_table((1.0, 1.0)), Schema("y", "t", ("g",)), CONFIG)
    others, same_targets = all_windows(same.train)
    np.testing.assert_allclose(inputs["observed_real"], others["observed_real"], atol=1e-5)
    np.testing.assert_allclose(targets, same_targets, rtol=1e-4, atol=1e-4)


def test_a_forecasts_window_is_scaled_as_in_training():
    """With more rows before the window than a window has, or the first rows would differ."""
    table = _table(levels=(1.0,))
    config = dataclasses.replace(CONFIG, local_steps=12, test=0.0)
    data = prepare(table, Schema("y", "t"), config)
    windows = forecast_windows(table, data.preprocessing)
    found, _ = windows.gather([0])
    longer = pd.concat([table, table.assign(t=table["t"] + 60)], ignore_index=True)
    again = prepare(longer, Schema("y", "t"), config, data.preprocessing)
    position = 60 - 6
    expected, _ = again.train.gather([position])
    np.testing.assert_array_equal(found["observed_real"], expected["observed_real"])
    np.testing.assert_array_equal(
        windows.unscale([0], np.ones((1, 2))), again.train.unscale([position], np.ones((1, 2)))
    )


def test_observed_columns_by_flag():
    table = _table(levels=(1.0,)).assign(x=lambda t: t["y"] * 7 + 3)
    schema = Schema("y", "t", observed=("x",))
    local = prepare(table, schema, dataclasses.replace(CONFIG, local_observed=True))
    inputs, _ = all_windows(local.train)
    np.testing.assert_allclose(
        inputs["observed_real"][..., 1], inputs["observed_real"][..., 0], atol=1e-4
    )
    plain, _ = all_windows(prepare(table, schema, CONFIG).train)
    assert np.abs(plain["observed_real"][..., 1] - plain["observed_real"][..., 0]).max() > 0.1


def test_auto_takes_one_scale_for_all_rows_only_by_series():
    table = _table()
    schema = Schema("y", "t", ("g",))
    auto = dataclasses.replace(CONFIG, scaling="auto")
    assert "each row by mean" in prepare(table, schema, auto).describe()
    per_series = dataclasses.replace(auto, scale_per_series=True)
    assert "target scaled each series" in prepare(table, schema, per_series).describe()


def test_it_goes_to_json_and_back():
    preprocessing = prepare(_table(), Schema("y", "t", ("g",)), CONFIG).preprocessing
    assert Preprocessing.from_dict(preprocessing.to_dict()) == preprocessing
