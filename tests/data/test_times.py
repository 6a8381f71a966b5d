import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tft_keras.data.columns import datetime_unit
from tft_keras.data.times import Step, TimeAxis
from tft_keras.errors import InputError


def _axis(stamps, type_=None):
    """The axis of one series, and its times."""
    array = pa.array(stamps)
    type_ = type_ or array.type
    unit = datetime_unit(type_)
    times = array.cast(pa.timestamp(unit, getattr(type_, "tz", None))) if unit else array
    times = times.cast(pa.int64()).to_numpy()
    first = np.arange(len(times)) == 0
    return TimeAxis(type_).infer_step(times, first), times


@pytest.mark.parametrize(
    ("frequency", "step", "season"),
    [
        ("s", Step(10**9, "nanoseconds"), 86400),
        ("5min", Step(300 * 10**9, "nanoseconds"), 288),
        ("30min", Step(1800 * 10**9, "nanoseconds"), 336),
        ("h", Step(3600 * 10**9, "nanoseconds"), 168),
        ("D", Step(86400 * 10**9, "nanoseconds"), 7),
        ("W", Step(7 * 86400 * 10**9, "nanoseconds"), 52),
        ("MS", Step(1, "months"), 12),
        ("ME", Step(1, "months"), 12),
        ("QS", Step(3, "months"), 4),
        ("YS", Step(12, "months"), 1),
        ("7h", Step(7 * 3600 * 10**9, "nanoseconds"), 24),
        ("11h", Step(11 * 3600 * 10**9, "nanoseconds"), 1),
    ],
)
def test_step_and_season_of_common_frequencies(frequency, step, season):
    stamps = pd.date_range("2023-01-01", periods=40, freq=frequency, unit="us")
    axis, times = _axis(stamps)
    assert axis.step == step
    assert axis.step.season == season
    assert (np.diff(axis.positions(times)) == axis.stride).all()


@pytest.mark.parametrize("frequency", ["30min", "D", "MS", "ME", "QS", "YS"])
def test_advance_continues_the_series(frequency):
    stamps = pd.date_range("2023-01-31", periods=40, freq=frequency, unit="us")
    axis, times = _axis(stamps)
    np.testing.assert_array_equal(
        axis.advance(np.repeat(times[9], 30), np.arange(1, 31)), times[10:]
    )
    np.testing.assert_array_equal(axis.advance(np.repeat(times[9], 9), np.arange(-9, 0)), times[:9])


def test_an_integer_index():
    axis, times = _axis([10, 15, 20, 35])
    assert axis.step == Step(5, "index")
    assert axis.step.season == 1
    assert axis.advance(times[-1:], 2).tolist() == [45]
    assert axis.datetimes(times) is times


def test_days_in_a_zone_are_steps_of_the_calendar():
    stamps = pd.date_range("2024-03-20", periods=20, freq="D", tz="Europe/Berlin", unit="us")
    assert len(set(np.diff(stamps.asi8))) == 2  # one day has 23 hours
    axis, times = _axis(stamps)
    assert axis.step == Step(86400 * 10**9, "nanoseconds")
    assert (np.diff(axis.positions(times)) == axis.stride).all()
    np.testing.assert_array_equal(
        axis.advance(np.repeat(times[:1], 19), np.arange(1, 20)), times[1:]
    )


def test_months_in_a_zone_are_steps_of_the_calendar():
    stamps = pd.date_range("2024-01-01", periods=20, freq="MS", tz="America/New_York", unit="us")
    axis, times = _axis(stamps)
    assert axis.step == Step(1, "months")
    np.testing.assert_array_equal(
        axis.advance(np.repeat(times[:1], 19), np.arange(1, 20)), times[1:]
    )


def test_hours_in_a_zone_are_hours():
    stamps = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin", unit="us")
    axis, times = _axis(stamps)
    assert axis.step == Step(3600 * 10**9, "nanoseconds")
    assert (np.diff(axis.positions(times)) == axis.stride).all()


@pytest.mark.parametrize(
    "type_",
    [pa.timestamp("ms"), pa.timestamp("us", "Asia/Tokyo"), pa.date32(), pa.int16(), pa.date64()],
)
def test_times_come_back_in_their_own_type(type_):
    array = pa.array([1, 2]).cast(pa.int16()) if type_ == pa.int16() else None
    if array is None:
        array = pa.array([np.datetime64("2024-05-01", "s"), np.datetime64("2024-05-02", "s")])
        array = array.cast(type_)
    axis, times = _axis(array, type_)
    assert axis.arrow(times).equals(array)


def test_split_times():
    axis, _ = _axis(pd.date_range("2024-01-01", periods=3, freq="h", unit="us"))
    assert axis.text(axis.parse("2024-01-01", "test")) == "2024-01-01T00:00:00.000000"
    noon = axis.parse("2024-01-01T12:00", "test")
    assert axis.parse("2024-01-01T12:00Z", "test") == noon
    assert axis.parse("2024-01-01T14:00+02:00", "test") == noon
    with pytest.raises(InputError, match="ISO.*test='soon'"):
        axis.parse("soon", "test")
    index, _ = _axis([1, 2])
    assert index.parse(7, "test") == 7
    with pytest.raises(InputError, match="whole number.*test='2024-01-01'"):
        index.parse("2024-01-01", "test")


def test_a_table_of_another_kind_of_time_is_refused():
    with pytest.raises(InputError, match="kind trained on"):
        TimeAxis(pa.int64(), Step(1, "months"))
    with pytest.raises(InputError, match="kind trained on"):
        TimeAxis(pa.timestamp("s"), Step(1, "index"))


def test_series_of_one_row_have_no_step():
    with pytest.raises(InputError, match="two rows or more.*3 rows.*group"):
        TimeAxis(pa.int64()).infer_step(np.arange(3), np.ones(3, bool))
