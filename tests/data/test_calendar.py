"""Calendar inputs against pandas."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.calendar import calendar_inputs, categories, wave
from tft_keras.data.steps import DAY, HOUR, WEEK, Step

from .tables import PLAIN

LONG = 6 * 366 * DAY
TIMES = pd.date_range("2023-12-25 22:30", periods=3000, freq="7h30min")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("minute of hour", TIMES.minute),
        ("hour of day", TIMES.hour),
        ("weekday", TIMES.weekday),
        ("day of month", TIMES.day - 1),
        ("month", TIMES.month - 1),
        ("quarter", TIMES.quarter - 1),
    ],
)
def test_categories(name, expected):
    codes, keys = categories(name, TIMES.to_numpy())
    np.testing.assert_array_equal(codes, expected)
    assert keys == [str(key) for key in range(len(keys))] and codes.max() < len(keys)


def test_waves():
    angle = 2 * np.pi * ((TIMES.dayofyear - 1) // 7) / 53
    np.testing.assert_allclose(wave("week of year (sine)", TIMES.to_numpy()), np.sin(angle))
    np.testing.assert_allclose(wave("week of year (cosine)", TIMES.to_numpy()), np.cos(angle))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step(HOUR // 4, "nanoseconds"), "minute of hour,hour of day,weekday,day of month,month"),
        (Step(HOUR, "nanoseconds"), "hour of day,weekday,day of month,month"),
        (Step(DAY, "nanoseconds"), "weekday,day of month,month"),
        (Step(WEEK, "nanoseconds"), "week of year (sine),week of year (cosine)"),
        (Step(1, "months"), "month"),
        (Step(3, "months"), "quarter"),
        (Step(12, "months"), ""),
        (Step(1, "index"), ""),
    ],
)
def test_what_suits_a_step(step, expected):
    categorical, waves = calendar_inputs(step, LONG)
    assert ",".join((*categorical, *waves)) == expected


def test_a_cycle_that_training_saw_once_is_no_input():
    assert calendar_inputs(Step(HOUR, "nanoseconds"), 40 * DAY)[0] == ("hour of day", "weekday")
    assert calendar_inputs(Step(HOUR, "nanoseconds"), 10 * DAY)[0] == ("hour of day",)


CONFIG = DataConfig(encoder_steps=24, horizon=6, **PLAIN | {"calendar": "auto"})


def _hours(zone, rows=24 * 60):
    times = pd.date_range("2024-02-20", periods=rows, freq="h", tz="UTC").tz_convert(zone)
    return pd.DataFrame({"t": times, "y": np.arange(rows) % 24 + 0.5})


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_windows_have_them_on_the_clocks_of_the_tables_zone(zone):
    table = _hours(zone)
    data = prepare(table, Schema("y", "t"), CONFIG)
    assert data.preprocessing.variable_names()["future"] == ["hour of day", "weekday"]
    inputs, _ = data.train.gather([400])
    hours = table["t"].dt.hour.to_numpy()[400:430]
    codes = inputs["known_categorical"][0]
    # Code 0 is the unknown one; in New York summer time begins on 10 March.
    np.testing.assert_array_equal(codes[:, 0], _codes(hours, 24))
    np.testing.assert_array_equal(codes[:, 1], _codes(table["t"].dt.weekday[400:430], 7))


def _codes(values, count):
    """Categories in the order of their names as text, from 1."""
    order = sorted(range(count), key=str)
    return [1 + order.index(value) for value in values]


def test_a_forecast_has_them_beyond_the_table():
    table = _hours("America/New_York")
    preprocessing = prepare(table, Schema("y", "t"), CONFIG).preprocessing
    inputs, _ = forecast_windows(table, preprocessing).gather([0])
    ahead = table["t"].iloc[-1] + pd.to_timedelta(np.arange(1, 7), unit="h")
    expected = [_codes(ahead.hour, 24), _codes(ahead.weekday, 7)]
    np.testing.assert_array_equal(inputs["known_categorical"][0, -6:].T, expected)


def test_a_column_of_the_table_goes_first():
    table = _hours("UTC").assign(weekday=lambda t: t["t"].dt.weekday)
    schema = Schema("y", "t", known=("weekday",), categorical=("weekday",))
    data = prepare(table, schema, CONFIG)
    assert data.preprocessing.variable_names()["future"] == ["weekday", "hour of day"]
    none = prepare(table, schema, dataclasses.replace(CONFIG, calendar="none"))
    assert none.preprocessing.variable_names()["future"] == ["weekday"]
