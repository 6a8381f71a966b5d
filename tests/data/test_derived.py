"""Lags: what is known of earlier seasons, and never what is not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.derived import Derived, lag_rows

from .tables import PLAIN

CONFIG = DataConfig(encoder_steps=5, horizon=10, **PLAIN | {"lags": "auto"})
ROWS = 120


def _table(**columns):
    days = pd.date_range("2024-01-01", periods=ROWS)
    return pd.DataFrame({"t": days, "y": np.arange(ROWS, dtype=float) ** 1.5} | columns)


def test_rows_are_the_last_whole_seasons_before_the_origin():
    past, ahead = [-7, -6, -5], [-4, -3, -2, -1, -4, -3, -2, -1, -4, -3]
    np.testing.assert_array_equal(lag_rows(4, 3, 10), past + ahead)
    np.testing.assert_array_equal(lag_rows(12, 1, 3), [-13, -12, -11, -10])


@pytest.mark.parametrize("scaling", ["standard", "local"])
def test_windows_have_the_target_of_the_last_week(scaling):
    table = _table()
    data = prepare(table, Schema("y", "t"), dataclasses.replace(CONFIG, scaling=scaling))
    assert data.preprocessing.derived.lags == (7,)
    assert data.preprocessing.variable_names()["future"] == ["7 rows before"]
    inputs, _ = data.train.gather([20])
    lags = inputs["known_real"][0, :, 0]
    values, origin = table["y"].to_numpy(), 25
    week = values[origin - 7 : origin]
    # Scaled as the row is: the past by its own statistics, the horizon by the origin's.
    center, scale = _statistics(data, np.minimum(np.arange(20, 35), 24))
    expected = np.concatenate([values[13:18], week, week[:3]])
    np.testing.assert_allclose(lags, (expected - center) / scale, rtol=1e-5, atol=1e-5)


def _statistics(data, rows):
    values = pd.Series(data.train.store.target)
    if data.preprocessing.config.scaling == "standard":
        training = values[: data.train.store.series.validation[0]]
        return training.mean(), training.std(ddof=0)
    rolling = values.rolling(5, min_periods=1)
    return rolling.mean().to_numpy()[rows], rolling.std(ddof=0).to_numpy()[rows]


def test_what_lies_before_the_table_or_is_missing_is_the_level():
    y = np.arange(ROWS, dtype=float)
    y[3] = np.nan
    data = prepare(_table(y=y), Schema("y", "t"), CONFIG)
    inputs, _ = data.train.gather([0])  # the origin is row 5
    # The past, all before the table; then rows -2, -1, 0 to 4, and again from -2 on.
    missing = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0], bool)
    np.testing.assert_array_equal(inputs["known_real"][0, :, 0] == 0, missing)


@pytest.mark.parametrize("scaling", ["standard", "local"])
def test_nothing_after_the_origin_is_seen(scaling):
    """All inputs of a window, made once more with other targets from its origin on."""
    config = dataclasses.replace(CONFIG, scaling=scaling, calendar="auto")
    table = _table()
    preprocessing = prepare(table, Schema("y", "t"), config).preprocessing
    changed = table.copy()
    changed.loc[45:, "y"] = -1e3
    before, after = (
        prepare(t, Schema("y", "t"), config, preprocessing).train.gather([40])[0]
        for t in (table, changed)
    )
    assert before.keys() == after.keys()
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name], err_msg=name)


@pytest.mark.parametrize("scaling", ["standard", "local"])
def test_a_forecasts_window_is_that_of_training(scaling):
    config = dataclasses.replace(CONFIG, scaling=scaling, calendar="auto")
    table = _table()
    preprocessing = prepare(table, Schema("y", "t"), config).preprocessing
    found, _ = forecast_windows(table[:50], preprocessing).gather([0])
    expected, _ = prepare(table, Schema("y", "t"), config, preprocessing).train.gather([45])
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_a_season_that_few_rows_have_is_no_input():
    """Weekly rows of five years: a fifth of the training rows has none a year before."""
    weeks = pd.date_range("2023-01-01", periods=300, freq="W")
    table = pd.DataFrame({"t": weeks, "y": np.arange(300.0)})
    assert prepare(table, Schema("y", "t"), CONFIG).preprocessing.derived == Derived()
