"""Calendar inputs against pandas."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.calendar import calendar_inputs, categories, wave
from tft_keras.data.public_holidays import check_country
from tft_keras.data.steps import DAY, HOUR, WEEK, Step
from tft_keras.errors import InputError

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


def test_holidays_and_the_days_around_them():
    days = pd.date_range("2024-09-25", periods=140).to_numpy()
    codes, keys = categories("holiday in DE-BY", days)
    found = {str(day)[:10]: keys[code] for day, code in zip(days, codes, strict=True)}
    # Unity Day, and All Saints' Day, which is one in Bavaria, not in Berlin.
    assert [found[f"2024-10-0{day}"] for day in (1, 2, 3, 4, 5)] == [
        *("other day", "day before", "holiday", "day after", "other day")
    ]
    assert found["2024-11-01"] == "holiday"
    # Of a day between two, the next one counts; at the year's end the next year's.
    assert [found[f"2024-12-{day}"] for day in (24, 25, 26, 27, 31)] == [
        *("day before", "holiday", "holiday", "day after", "day before")
    ]
    berlin, _ = categories("holiday in DE-BE", days)
    assert keys[berlin[list(found).index("2024-11-01")]] == "other day"


def test_windows_have_holidays_of_the_zones_days():
    table = _hours("America/New_York", 24 * 150)
    config = dataclasses.replace(CONFIG, calendar="none", holidays="US")
    data = prepare(table, Schema("y", "t"), config)
    assert data.preprocessing.variable_names()["future"] == ["holiday in US"]
    vocabulary = data.preprocessing.vocabularies["holiday in US"]
    memorial_day = np.flatnonzero(table["t"].dt.strftime("%m-%d") == "05-27")
    inputs, _ = data.train.gather([memorial_day[0]])
    codes = inputs["known_categorical"][0, :, 0]
    expected = vocabulary.encode(np.arange(2, dtype=np.int32), ["holiday", "day after"])
    np.testing.assert_array_equal(codes, np.repeat(expected, [24, 6]))


@pytest.mark.parametrize(
    ("country", "freq", "message"),
    [
        ("DEU-XX", "D", r"holidays='DEU-XX'"),
        ("DE-XX", "D", r"such as DE-BY\. Received: holidays='DE-XX'"),
        ("DE", "W", r"at most a day apart\. Received: holidays='DE' with a step of 1 week"),
    ],
)
def test_holidays_that_cannot_be(country, freq, message):
    times = pd.date_range("2024-01-01", periods=200, freq=freq)
    table = pd.DataFrame({"t": times, "y": np.arange(200.0)})
    config = dataclasses.replace(CONFIG, holidays=country)
    with pytest.raises(InputError, match=message):
        prepare(table, Schema("y", "t"), config)


def test_without_the_package_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(InputError, match=r"pip install 'tft-keras\[holidays\]'"):
        check_country("DE")
