import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.data import Schema, Skipped, forecast_windows, prepare, prepare_again
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, shop_table

UNAIDED = dataclasses.replace(SCHEMA, known=())


def _with_future(rows=30, future=2, **settings):
    """The shop table with its last rows' targets and observed inputs unknown."""
    frame = shop_table(rows=rows, **settings)
    frame["visitors"] = frame["visitors"].astype(float)
    frame.loc[frame.index % rows >= rows - future, ["sales", "visitors", "weather"]] = None
    return frame


@pytest.fixture(scope="module")
def fitted():
    return prepare(shop_table(), SCHEMA, SMALL).preprocessing


@pytest.fixture(scope="module")
def unaided():
    return prepare(shop_table(), UNAIDED, SMALL).preprocessing


def test_one_window_per_series_after_its_last_target(fitted):
    frame = _with_future(future=3)
    windows = forecast_windows(frame.sample(frac=1, random_state=0), fitted)
    assert windows.series(np.arange(3)) == [("s0",), ("s1",), ("s2",)]
    days = pd.date_range("2024-01-28", periods=2).to_numpy()
    np.testing.assert_array_equal(windows.times(np.arange(3)), np.tile(days, (3, 1)))
    np.testing.assert_array_equal(windows.history([1], 4)[0], frame["sales"][53:57])
    assert windows.last_value([1]) == frame["sales"][56]
    assert np.isnan(windows.actuals(np.arange(3))).all()


def test_inputs_are_those_of_training(fitted):
    frame = shop_table()
    reference = prepare_again(frame, fitted).test
    windows = forecast_windows(_with_future(), fitted)
    inputs, _ = windows.gather(np.arange(3))
    last = np.flatnonzero(
        reference.times(np.arange(len(reference)))[:, 1] == windows.times([0])[0, 1]
    )
    expected, _ = reference.gather(last)
    for name, array in expected.items():
        np.testing.assert_array_equal(inputs[name], array, err_msg=name)


def test_without_known_inputs_times_are_extrapolated(unaided):
    windows = forecast_windows(shop_table(), unaided)
    days = pd.date_range("2024-01-31", periods=2).to_numpy()
    np.testing.assert_array_equal(windows.times([0, 2]), [days, days])
    assert [str(value)[:10] for value in windows.time_column([0])] == ["2024-01-31", "2024-02-01"]
    inputs, _ = windows.gather([0])
    assert inputs["observed_real"].shape == (1, 4, 2)


def test_months_are_extrapolated_by_the_calendar():
    stamps = pd.date_range("2023-01-01", periods=30, freq="MS", unit="us")
    frame = pd.DataFrame({"t": stamps, "y": np.arange(30.0)})
    fitted = prepare(frame, Schema("y", "t"), SMALL).preprocessing
    expected = np.array(["2025-07-01", "2025-08-01"], "datetime64[us]")
    np.testing.assert_array_equal(forecast_windows(frame, fitted).times([0])[0], expected)


def test_series_may_end_at_different_times(fitted):
    frame = _with_future()
    frame = frame[(frame["store"] != "s0") | (frame.index % 30 < 20)]
    frame.loc[18:19, "sales"] = None
    windows = forecast_windows(frame, fitted)
    assert windows.times([0, 1])[:, 0].astype("datetime64[D]").astype(str).tolist() == [
        "2024-01-19",
        "2024-01-29",
    ]


def test_rows_of_the_horizon_must_be_there(fitted):
    with pytest.raises(InputError, match=r"2 rows after .*price, promotion.*s0.*time=2024-01-31"):
        forecast_windows(shop_table(), fitted)


@pytest.mark.parametrize("column", ["price", "promotion"])
def test_known_inputs_missing_over_the_horizon_are_named(fitted, column):
    frame = _with_future()
    frame["promotion"] = frame["promotion"].astype(object)
    frame.loc[59, column] = None
    with pytest.raises(
        InputError, match=rf"no '{column}' in series \(store='s1'\).*2024-01-30.*row=59"
    ):
        forecast_windows(frame, fitted)


def test_a_missing_category_that_was_trained_may_be_missing():
    frame = _with_future().assign(holiday=None)
    frame.loc[::5, "holiday"] = "feast"
    schema = dataclasses.replace(SCHEMA, known=("holiday",))
    fitted = prepare(frame, schema, SMALL).preprocessing
    assert len(forecast_windows(frame, fitted)) == 3


def test_a_known_column_that_is_not_there(fitted):
    with pytest.raises(InputError, match="known column.*'price'"):
        forecast_windows(_with_future().drop(columns="price"), fitted)


def test_what_is_known_of_the_future_target_does_not_matter(fitted):
    frame = _with_future(future=5)
    changed = frame.copy()
    changed.loc[frame.index % 30 == 29, ["visitors"]] = 1e6
    left, right = forecast_windows(frame, fitted), forecast_windows(changed, fitted)
    for name, array in left.gather([0, 1, 2])[0].items():
        np.testing.assert_array_equal(array, right.gather([0, 1, 2])[0][name])


def test_unseen_series_and_categories(fitted):
    frame = _with_future(stores=1).assign(store="new", kind="kiosk", size=9.0)
    with pytest.warns(UserWarning, match=r"'kind'.*such as 'kiosk', in 1 of 1 series \(100%\)"):
        inputs, _ = forecast_windows(frame, fitted).gather([0])
    assert inputs["static_categorical"].tolist() == [[0]]


def test_short_series_are_skipped_with_a_warning(fitted):
    frame = _with_future()
    frame = frame[(frame["store"] != "s1") | (frame.index % 30 > 25)]
    with pytest.warns(UserWarning, match=r"1 series.*store='s1'.*2 of 4"):
        windows = forecast_windows(frame, fitted)
    assert windows.skipped == (Skipped(("s1",), 2, 4),)
    assert windows.series([0, 1]) == [("s0",), ("s2",)]


def test_a_gap_before_the_horizon_skips_the_series(unaided):
    frame = shop_table()
    frame = frame.drop(index=[27])
    with pytest.warns(UserWarning, match=r"store='s0'.*2 of 4"):
        assert len(forecast_windows(frame, unaided)) == 2


def test_all_series_too_short(unaided):
    with pytest.raises(InputError, match="needs 4 rows.*at most 3"):
        forecast_windows(shop_table(rows=3), unaided)


def test_a_table_as_short_as_the_encoder(unaided):
    windows = forecast_windows(shop_table(rows=4), unaided)
    assert len(windows) == 3


def test_a_hole_in_the_filled_future_is_named():
    config = dataclasses.replace(SMALL, gaps="fill")
    fitted = prepare(shop_table(), SCHEMA, config).preprocessing
    frame = _with_future(future=3).drop(index=[27])
    with pytest.raises(InputError, match=r"s0.* without a row at time=2024-01-28"):
        forecast_windows(frame[frame["store"] == "s0"], fitted)
    with pytest.warns(UserWarning, match=r"1 series .*rows of the horizon.*store='s0'"):
        windows = forecast_windows(frame, fitted)
    assert windows.series([0, 1]) == [("s1",), ("s2",)]
    assert windows.skipped[0].ended


def test_times_are_shown_on_the_clocks_of_the_zone():
    stamps = pd.date_range("2024-03-01", periods=30, freq="D", tz="Europe/Berlin", unit="us")
    frame = pd.DataFrame({"t": stamps, "y": np.arange(30.0)})
    windows = forecast_windows(frame, prepare(frame, Schema("y", "t"), SMALL).preprocessing)
    assert windows.times([0])[0].astype(str).tolist() == [
        "2024-03-30T23:00:00.000000",
        "2024-03-31T22:00:00.000000",
    ]
    expected = pd.date_range("2024-03-31", periods=2).to_numpy()
    np.testing.assert_array_equal(windows.wall_clock(windows.times([0]))[0], expected)
    expected = pd.date_range("2024-03-25", periods=6).to_numpy()
    shown = windows.wall_clock(windows.history_times([0], 6))
    np.testing.assert_array_equal(shown[0], expected)
