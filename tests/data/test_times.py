import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tft_keras.data.steps import DAY, HOUR, Step
from tft_keras.data.table import ArrowTable
from tft_keras.data.time_columns import read_times
from tft_keras.data.time_steps import infer_axis
from tft_keras.data.times import TimeAxis
from tft_keras.errors import InputError


def _axis(*series, **settings):
    """The axis of some series, and the times of the first one."""
    arrays = [pa.array(stamps) for stamps in series]
    table = ArrowTable(pa.table({"t": pa.chunked_array(arrays)}))
    times, column = read_times(table, "t", settings.pop("time_zone", None))
    offsets = np.append(0, np.cumsum([len(array) for array in arrays]))
    return infer_axis(times, offsets, column, **settings), times[: len(arrays[0])]


def _advance_all(axis, times):
    """The times after the first one, as the axis finds them from it."""
    days = axis.days(times, np.array([0, len(times)]))
    first = np.repeat(times[:1], len(times) - 1)
    return axis.advance(first, np.arange(1, len(times)), None if days is None else days[0])


@pytest.mark.parametrize(
    ("frequency", "step", "seasons"),
    [
        ("s", Step(10**9, "nanoseconds"), (86400, 604800)),
        ("5min", Step(300 * 10**9, "nanoseconds"), (288, 2016)),
        ("30min", Step(1800 * 10**9, "nanoseconds"), (48, 336)),
        ("h", Step(HOUR, "nanoseconds"), (24, 168)),
        ("D", Step(DAY, "nanoseconds"), (7, 364)),
        ("W", Step(7 * DAY, "nanoseconds"), (52,)),
        ("MS", Step(1, "months"), (12,)),
        ("ME", Step(1, "months"), (12,)),
        ("QS", Step(3, "months"), (4,)),
        ("YS", Step(12, "months"), ()),
        ("7h", Step(7 * HOUR, "nanoseconds"), (24,)),
        ("11h", Step(11 * HOUR, "nanoseconds"), ()),
        ("B", Step(DAY, "nanoseconds", None, True, ((0, 5),)), (5,)),
        ("BME", Step(1, "months"), (12,)),
        ("BMS", Step(1, "months"), (12,)),
        ("BQE", Step(3, "months"), (4,)),
    ],
)
def test_step_and_seasons_of_common_frequencies(frequency, step, seasons):
    stamps = pd.date_range("2023-01-01", periods=40, freq=frequency, unit="us")
    axis, times = _axis(stamps)
    assert axis.step == step
    assert axis.step.seasons == seasons
    assert (np.diff(axis.positions(times)) == axis.stride).all()


@pytest.mark.parametrize(
    "frequency", ["30min", "D", "B", "W", "MS", "ME", "BMS", "BME", "QS", "BQE", "YS"]
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/New_York", "Asia/Tokyo"])
def test_advance_continues_the_series(frequency, zone):
    stamps = pd.date_range("2023-01-31", periods=40, freq=frequency, unit="us", tz=zone)
    axis, times = _axis(stamps)
    assert (np.diff(axis.positions(times)) == axis.stride).all()
    np.testing.assert_array_equal(_advance_all(axis, times), times[1:])
    back = axis.advance(
        np.repeat(times[9], 9), np.arange(-9, 0), axis.days(times, np.array([0, len(times)]))
    )
    np.testing.assert_array_equal(back, times[:9])


def test_days_of_a_zone_go_on_where_only_the_horizon_sees_summer_time_begin():
    stamps = pd.date_range("2024-01-01", periods=100, freq="D", tz="Europe/Berlin", unit="us")
    axis, times = _axis(stamps[:88])
    ahead = axis.advance(np.repeat(times[-1:], 12), np.arange(1, 13))
    np.testing.assert_array_equal(ahead, stamps[88:].asi8)


def test_advance_takes_times_of_any_shape():
    stamps = pd.date_range("2024-03-29", periods=20, freq="D", tz="Europe/Berlin", unit="us")
    axis, times = _axis(stamps)
    steps = np.arange(1, 6)
    ahead = axis.advance(np.repeat(times[:3, None], 5, axis=1), steps)
    np.testing.assert_array_equal(ahead, times[np.arange(3)[:, None] + steps])


def test_the_thirtieth_is_the_last_day_of_february():
    stamps = [pd.Timestamp(2023, month, 28 if month == 2 else 30) for month in range(1, 13)]
    axis, times = _axis(pd.DatetimeIndex(stamps).as_unit("s"))
    assert axis.step == Step(1, "months")
    np.testing.assert_array_equal(_advance_all(axis, times), times[1:])


def test_series_on_different_days_of_the_month_have_one_step():
    first = pd.date_range("2023-01-01", periods=20, freq="MS", unit="s")
    middle = (first + pd.Timedelta(days=14)).as_unit("s")
    end = pd.date_range("2023-01-31", periods=20, freq="ME", unit="s")
    axis, _ = _axis(first, middle, end)
    assert axis.step == Step(1, "months")


def test_local_midnights_written_in_utc_follow_the_calendar_of_their_zone():
    local = pd.date_range("2024-01-01", periods=200, freq="D", tz="Europe/Berlin", unit="s")
    with pytest.warns(UserWarning, match="Europe/Berlin's clocks, written in UTC"):
        axis, times = _axis(local.tz_convert("UTC"))
    assert (np.diff(axis.positions(times)) == axis.stride).all()
    np.testing.assert_array_equal(_advance_all(axis, times), times[1:])


@pytest.mark.parametrize("frequency", ["6h", "12h"])
def test_parts_of_days_in_a_zone_are_steps_on_its_clocks(frequency):
    naive = pd.date_range("2024-01-01", periods=400, freq=frequency, unit="s")
    stamps = naive.tz_localize("Europe/Berlin", nonexistent="shift_forward", ambiguous=True)
    axis, times = _axis(stamps)
    assert (np.diff(axis.positions(times)) == axis.stride).all()
    np.testing.assert_array_equal(_advance_all(axis, times), times[1:])


def test_a_setting_names_the_zone_of_naive_times():
    naive = pd.date_range("2024-03-20", periods=20, freq="D", unit="s")
    axis, times = _axis(naive, time_zone="Europe/Berlin")
    zoned = naive.tz_localize("Europe/Berlin")
    np.testing.assert_array_equal(axis.datetimes(times), zoned.tz_convert(None).to_numpy())
    assert axis.arrow(times).equals(pa.array(naive))
    start = axis.parse("2024-03-31", "test")
    assert axis.datetimes(np.array(start)) == np.datetime64("2024-03-30T23:00")


@pytest.mark.parametrize(
    ("values", "ahead"),
    [
        ([202310, 202311, 202312], [202401, 202402]),
        ([20240227, 20240228, 20240229], [20240301, 20240302]),
        (["2024-02-27", "2024-02-28", "2024-02-29"], ["2024-03-01", "2024-03-02"]),
        (["2023-10", "2023-11", "2023-12"], ["2024-01", "2024-02"]),
        (["2024-02-29T22:00", "2024-02-29T23:00"], ["2024-03-01T00:00", "2024-03-01T01:00"]),
        (["20240227", "20240228", "20240229"], ["20240301", "20240302"]),
    ],
)
def test_dates_written_as_digits_or_text_come_back_as_written(values, ahead):
    axis, times = _axis(values)
    later = axis.advance(np.repeat(times[-1:], 2), np.arange(1, 3))
    assert axis.arrow(times).to_pylist() == values
    assert axis.arrow(later).to_pylist() == ahead


@pytest.mark.parametrize(
    "values", [[20231, 20232, 20233, 20234, 20241], [202352, 202401, 202402], [2024001, 2023365]]
)
def test_numbers_of_quarters_weeks_and_days_of_years_are_refused(values):
    with pytest.raises(InputError, match="Whole numbers|whole numbers.*look like year and"):
        axis, _ = _axis(sorted(values))
        assert axis.step.unit != "index"
        raise InputError("Whole numbers were read as dates")


def test_numbers_beyond_dates_are_an_index():
    axis, _ = _axis([202310, 202311, 202312, 202313])
    assert axis.step == Step(1, "index")


def test_an_integer_index():
    axis, times = _axis([10, 15, 20, 35])
    assert axis.step == Step(5, "index")
    assert axis.step.seasons == ()
    assert axis.advance(times[-1:], 2).tolist() == [45]
    assert axis.datetimes(times) is times


def test_hours_in_a_zone_are_hours():
    stamps = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin", unit="us")
    axis, times = _axis(stamps)
    assert axis.step.size == HOUR and not axis.step.wall_clock
    assert (np.diff(axis.positions(times)) == axis.stride).all()


def test_business_days_leave_out_holidays():
    days = pd.bdate_range("2024-01-01", periods=120, unit="s").drop("2024-04-01")
    axis, times = _axis(days)
    axis = axis.with_holidays(times)
    assert (np.diff(axis.positions(times)) == axis.stride).all()
    friday = np.array([pd.Timestamp("2024-03-29").timestamp()], np.int64)
    assert axis.datetimes(axis.advance(friday, 1))[0] == np.datetime64("2024-04-02")


@pytest.mark.parametrize(
    "type_",
    [pa.timestamp("ms"), pa.timestamp("us", "Asia/Tokyo"), pa.date32(), pa.int16(), pa.date64()],
)
def test_times_come_back_in_their_own_type(type_):
    if type_ == pa.int16():
        array = pa.array([1, 2]).cast(type_)
    else:
        array = pa.array([np.datetime64("2024-05-01", "s"), np.datetime64("2024-05-02", "s")])
        array = array.cast(type_)
    axis, times = _axis(array)
    assert axis.arrow(times).equals(array)


def test_times_that_do_not_fit_their_type_take_a_wider_one():
    axis, times = _axis(pa.array([125, 126], pa.int8()))
    assert axis.arrow(axis.advance(times[-1:], np.array([2]))).to_pylist() == [128]


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


def test_split_dates_are_those_of_the_tables_zone():
    stamps = pd.date_range("2023-12-01", periods=60, freq="D", tz="Europe/Berlin", unit="s")
    axis, times = _axis(stamps)
    first = times[times >= axis.parse("2024-01-01", "validation")][0]
    assert axis.text(first) == "2024-01-01T00:00:00"


@pytest.mark.parametrize(("values", "is_index"), [([1, 2], False), (["2024-01-01"], True)])
def test_a_table_of_another_kind_of_time_is_refused(values, is_index):
    table = ArrowTable(pa.table({"t": values}))
    with pytest.raises(InputError, match="kind trained on"):
        read_times(table, "t", is_index=is_index)


def test_an_unknown_zone_is_refused():
    with pytest.raises(InputError, match="tz database.*Europe/Berln.*Did you mean"):
        _axis(["2024-01-01", "2024-01-02"], time_zone="Europe/Berln")


def test_a_run_from_before_zones_takes_that_of_the_table():
    old = Step.from_dict({"size": DAY, "unit": "nanoseconds"})
    stamps = pd.date_range("2024-03-20", periods=20, freq="D", tz="Europe/Berlin", unit="us")
    table = ArrowTable(pa.table({"t": pa.array(stamps)}))
    times, column = read_times(table, "t")
    axis = TimeAxis.of_step(column, old, times)
    np.testing.assert_array_equal(_advance_all(axis, times), times[1:])


def test_series_of_one_row_have_no_step():
    with pytest.raises(InputError, match="two rows or more.*3 rows.*group"):
        _axis([1], [2], [3])
