import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import Schema, prepare
from tft_keras.data.layout import lay_out
from tft_keras.data.table import open_table
from tft_keras.errors import InputError

from .tables import SMALL

SCHEMA = Schema("y", "t", group=("g",), known=("k",))


def _lay_out(frame, schema=SCHEMA, **settings):
    return lay_out(open_table(frame), schema, DataConfig(**settings))


def _frame(times, groups=None, **columns):
    times = np.asarray(times)
    y = np.arange(len(times), dtype=float)
    return pd.DataFrame({"g": groups or "a", "t": times, "y": y, "k": y} | columns)


def test_rows_are_sorted_by_series_and_time():
    layout = _lay_out(_frame([2, 1, 1, 2, 0], ["b", "b", "a", "a", "a"]))
    assert layout.series.names == [("a",), ("b",)]
    assert layout.order.tolist() == [4, 2, 3, 1, 0]
    assert layout.times.tolist() == [0, 1, 2, 1, 2]
    assert layout.offsets.tolist() == [0, 3, 5]


def test_a_sorted_table_is_not_copied():
    layout = _lay_out(_frame([1, 2, 1, 2], ["a", "a", "b", "b"]))
    values = np.arange(4)
    assert layout.order is None
    assert layout.take(values, -1) is values


def test_numbers_name_series_in_the_order_of_numbers():
    layout = _lay_out(_frame([1, 2, 1, 2], [10, 10, 9, 9]))
    assert layout.series.names == [(9,), (10,)]


def test_several_group_columns():
    frame = _frame([1, 2, 1, 1, 2], ["a", "a", "a", "b", "b"], h=[2, 2, 1, 2, 2])
    layout = _lay_out(frame, dataclasses.replace(SCHEMA, group=("g", "h")))
    assert layout.series.names == [("a", 1), ("a", 2), ("b", 2)]
    assert layout.order.tolist() == [2, 0, 1, 3, 4]


def test_no_group_is_one_series():
    layout = _lay_out(_frame([2, 1]), Schema("y", "t"))
    assert layout.series.names == [()]
    assert layout.offsets.tolist() == [0, 2]


def test_a_row_without_group_is_refused():
    with pytest.raises(InputError, match="needs its group.*no 'g' in row 1"):
        _lay_out(_frame([1, 2], ["a", None]))


def test_duplicates_name_the_series_and_the_time():
    times = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-02"])
    with pytest.raises(
        InputError, match=r"g='a'.* twice at t=2024-01-02.*1 such.*duplicates='last'"
    ):
        _lay_out(_frame(times))


def test_of_duplicates_the_last_row_is_kept():
    layout = _lay_out(_frame([2, 1, 2, 3, 2]), duplicates="last")
    assert layout.times.tolist() == [1, 2, 3]
    assert layout.order.tolist() == [1, 4, 3]
    in_order = _lay_out(_frame([1, 1, 2, 2, 3]), duplicates="last")
    assert in_order.order.tolist() == [1, 3, 4]


def test_the_repeated_hour_of_local_time_is_a_duplicate():
    utc = pd.date_range("2024-10-26T20", periods=10, freq="h", tz="UTC", unit="us")
    local = utc.tz_convert("Europe/Berlin")
    assert _lay_out(_frame(local)).segments.tolist() == [0]
    with pytest.raises(InputError, match=r"twice at t=2024-10-27T02:00.*UTC"):
        _lay_out(_frame(local.tz_localize(None)))


def test_gaps_split_the_rows():
    frame = _frame([1, 2, 3, 5, 6, 1, 2], ["a"] * 5 + ["b"] * 2)
    assert _lay_out(frame).segments.tolist() == [0, 3, 5]


def test_gaps_ignored():
    frame = _frame([1, 2, 3, 5, 6, 1, 2], ["a"] * 5 + ["b"] * 2)
    assert _lay_out(frame, gaps="ignore").segments.tolist() == [0, 5]


def test_gaps_filled():
    layout = _lay_out(_frame([3, 1, 7, 2, 1], ["a", "a", "a", "b", "b"]), gaps="fill")
    assert layout.axis.step.size == 1
    assert layout.times.tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert layout.order.tolist() == [1, -1, 0, -1, -1, -1, 2, 4, 3]
    assert layout.offsets.tolist() == [0, 7, 9]
    assert layout.segments.tolist() == [0, 7]
    np.testing.assert_array_equal(
        layout.take(np.array([10.0, 20, 30, 40, 50]), np.nan),
        [20, np.nan, 10, np.nan, np.nan, np.nan, 30, 50, 40],
    )


def test_months_are_filled_by_the_calendar():
    months = pd.date_range("2024-01-31", periods=12, freq="ME", unit="us")
    layout = _lay_out(_frame(months.delete([3, 4])), gaps="fill")
    np.testing.assert_array_equal(layout.axis.datetimes(layout.times), months.to_numpy())


def test_gaps_that_cannot_be_filled():
    with pytest.raises(InputError, match="whole steps apart.*time=7"):
        _lay_out(_frame([0, 2, 4, 7]), gaps="fill")
    with pytest.raises(InputError, match="20 times longer.*rows from 3"):
        _lay_out(_frame([0, 1, 10**6]), gaps="fill")


@pytest.mark.parametrize(("gaps", "windows"), [("split", 10), ("ignore", 15), ("fill", 16)])
def test_windows_by_treatment_of_gaps(gaps, windows):
    # Filling makes 20 windows whole; four of them have no target in their horizon.
    times = np.delete(np.arange(25), range(10, 15))
    config = dataclasses.replace(SMALL, gaps=gaps, validation=0.0, test=0.0)
    assert len(prepare(_frame(times), SCHEMA, config).train) == windows


def test_filled_rows_are_missing_values():
    frame = _frame(np.delete(np.arange(25), [12]))
    config = dataclasses.replace(SMALL, gaps="fill", validation=0.0, test=0.0)
    data = prepare(frame, SCHEMA, config)
    assert data.preprocessing.variable_names()["history"] == [
        *("y", "y is missing", "k", "k is missing"),
    ]
    inputs, _ = data.train.gather([10])
    np.testing.assert_array_equal(inputs["observed_real"][0, :, 1], [0, 0, 1, 0])
    np.testing.assert_array_equal(inputs["known_real"][0, :, 1], [0, 0, 1, 0, 0, 0])
    assert inputs["observed_real"][0, 2, 0] == 0
    np.testing.assert_array_equal(data.train.actuals([7]), [[11, np.nan]])
