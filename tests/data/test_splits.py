import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.data import Schema, prepare
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, assert_same_windows, shop_table

DAYS = pd.date_range("2024-01-01", periods=30, freq="D", unit="us")


def _split_of_horizon(windows):
    positions = np.arange(len(windows))
    return windows.times(positions)


@pytest.mark.parametrize(
    ("validation", "test", "first_validation", "first_test"),
    [
        (0.2, 0.2, 18, 24),
        ("2024-01-19", "2024-01-25", 18, 24),
        (0.2, "2024-01-25", 18, 24),
        ("2024-01-19", 0.2, 18, 24),
        ("2024-01-18T01:00", "2024-01-24T23:00Z", 18, 24),
        (0.0, 0.2, 24, 24),
        (0, 0.2, 24, 24),
        (0.2, 0.0, 24, 30),
    ],
)
def test_the_whole_horizon_lies_in_its_split(validation, test, first_validation, first_test):
    config = dataclasses.replace(SMALL, validation=validation, test=test)
    data = prepare(shop_table(), SCHEMA, config)
    edges = [0, first_validation, first_test, 30]
    for number, name in enumerate(("train", "validation", "test")):
        begin, end = edges[number], edges[number + 1]
        first = max(begin, config.encoder_steps)
        expected = max(end - first - config.horizon + 1, 0)
        windows = getattr(data, name)
        assert len(windows) == 3 * expected
        if expected:
            times = windows.times(np.arange(len(windows)))
            assert times.min() == DAYS[first]
            assert times.max() == DAYS[end - 1]


def test_encoder_rows_may_come_from_the_split_before():
    data = prepare(shop_table(1), SCHEMA.from_dict(_alone()), SMALL)
    assert data.test.times([0])[0, 0] == DAYS[24]
    np.testing.assert_array_equal(data.test.history([0], 4)[0], shop_table(1)["sales"][20:24])


def _alone():
    return Schema("sales", "time").to_dict()


def test_shares_are_of_the_rows_up_to_the_last_known_target():
    frame = shop_table(1)
    future = frame[-10:].assign(time=frame["time"][-10:] + pd.Timedelta(days=10), sales=None)
    longer = pd.concat([frame, future], ignore_index=True)
    left = prepare(frame, Schema("sales", "time"), SMALL)
    right = prepare(longer, Schema("sales", "time"), SMALL)
    assert left.preprocessing == right.preprocessing
    assert_same_windows(left.train, right.train)
    assert_same_windows(left.validation, right.validation)


def test_an_integer_index_is_split_by_a_number():
    frame = pd.DataFrame({"t": np.arange(100, 130), "y": np.arange(30.0)})
    config = dataclasses.replace(SMALL, validation=118, test=124)
    data = prepare(frame, Schema("y", "t"), config)
    assert data.validation.times([0]).tolist() == [[118, 119]]
    assert data.test.times([0]).tolist() == [[124, 125]]
    with pytest.raises(InputError, match="whole number.*test='2024-01-01'"):
        prepare(frame, Schema("y", "t"), dataclasses.replace(config, test="2024-01-01"))


def test_each_series_is_split_by_itself():
    frame = shop_table()
    frame = frame[(frame["store"] != "s1") | (frame.index % 30 < 20)]
    data = prepare(frame, SCHEMA, SMALL)
    short = [series == ("s1",) for series in data.test.series(np.arange(len(data.test)))]
    times = data.test.times(np.flatnonzero(short))
    assert times.min() == DAYS[16]


@pytest.mark.parametrize("per_series", [False, True])
@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_later_rows_reach_nothing_earlier(per_series, scaling):
    config = dataclasses.replace(SMALL, scale_per_series=per_series, scaling=scaling)
    frame = shop_table()
    changed = frame.copy()
    later = frame.index % 30 >= 18
    for column in ("sales", "price", "visitors"):
        changed[column] = changed[column].astype(float)
        changed.loc[later, column] *= -1000
    changed.loc[later & (frame.index % 2 == 0), ["price", "visitors"]] = None
    changed.loc[later, "weather"] = "hail"
    before, after = prepare(frame, SCHEMA, config), prepare(changed, SCHEMA, config)
    assert before.preprocessing == after.preprocessing
    assert_same_windows(before.train, after.train)


def test_the_test_split_does_not_reach_validation():
    frame = shop_table()
    changed = frame.copy()
    changed.loc[frame.index % 30 >= 24, "sales"] = 1e6
    before, after = prepare(frame, SCHEMA, SMALL), prepare(changed, SCHEMA, SMALL)
    assert_same_windows(before.validation, after.validation)


def test_no_training_window():
    with pytest.raises(InputError, match="training window needs 6 rows.*at most 3 training rows"):
        prepare(shop_table(), SCHEMA, dataclasses.replace(SMALL, validation="2024-01-04"))


def test_an_empty_validation_split_is_warned_of():
    with pytest.warns(UserWarning, match="validation split.*horizon=2.*at most 1 rows"):
        prepare(shop_table(), SCHEMA, dataclasses.replace(SMALL, validation=0.03))


def _series_of_lengths(**lengths):
    parts = [
        pd.DataFrame({"g": name, "t": DAYS[:rows], "y": np.arange(float(rows))})
        for name, rows in lengths.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_splits_of_so_many_rows_take_the_last_ones_of_every_series():
    frame = _series_of_lengths(a=30, b=14, c=11)
    config = dataclasses.replace(SMALL, validation_steps=3, test_steps=2)
    data = prepare(frame, Schema("y", "t", ("g",)), config)
    np.testing.assert_array_equal(data.test.actuals(np.arange(3)), [[28, 29], [12, 13], [9, 10]])
    assert data.validation.series_count() == 3
    assert data.validation.actuals(np.arange(len(data.validation))).max() == 27
    shares = prepare(frame, Schema("y", "t", ("g",)), dataclasses.replace(SMALL, test=0.1))
    assert shares.test.series_count() == 1


def test_every_split_says_which_series_have_none():
    frame = _series_of_lengths(a=30, b=14, c=11)
    config = dataclasses.replace(SMALL, validation=0.0, test=0.1)
    lines = prepare(frame, Schema("y", "t", ("g",)), config).describe().splitlines()
    assert lines[0] == "step: 1 day"
    assert lines[1] == "target scaled by all training rows"
    assert lines[2].startswith("train: ") and lines[2].endswith(" windows of 3 series")
    assert lines[4] == "test: 2 windows of 1 series, 2 without"


def test_origins_are_counted_back_from_the_last_one():
    frame = _series_of_lengths(a=30, b=14)
    windows = prepare(frame, Schema("y", "t", ("g",)), SMALL).train
    last = windows.origins("last")
    assert windows.series(last) == [("a",), ("b",)]
    ends = windows.actuals(last)[:, -1]
    third = windows.origins("every:3")
    for series, end in zip((("a",), ("b",)), ends, strict=True):
        own = [p for p in third if windows.series([p]) == [series]]
        values = windows.actuals(own)[:, -1]
        assert values[-1] == end
        assert (np.diff(values) == 3).all()
    assert len(windows.origins("all")) == len(windows)
    for wrong in ("first", "every:0", "every:x", "every"):
        with pytest.raises(InputError, match=f"all, last or every:N.*{wrong}"):
            windows.origins(wrong)


@pytest.mark.parametrize("shown", ["zone", "utc", "naive"])
def test_split_dates_follow_the_calendar_of_the_tables_zone(shown):
    local = pd.date_range("2023-11-01", periods=120, freq="D", tz="Europe/Berlin", unit="s")
    times = {
        "zone": local,
        "utc": local.tz_convert("UTC").tz_localize(None),
        "naive": local.tz_localize(None),
    }[shown]
    frame = pd.DataFrame({"t": times, "y": np.arange(120.0)})
    zone = None if shown == "zone" else "Europe/Berlin"
    if shown == "utc":
        frame["t"] = frame["t"].dt.tz_localize("UTC")
    config = dataclasses.replace(SMALL, validation="2024-01-01", test="2024-02-01", time_zone=zone)
    data = prepare(frame, Schema("y", "t"), config)
    assert data.validation.actuals([0])[0, 0] == 61
    assert data.test.actuals([0])[0, 0] == 92


def test_a_category_that_no_training_window_shows_is_unknown():
    frame = _series_of_lengths(a=30, b=30, short=5)
    data = prepare(frame, Schema("y", "t", ("g",), static=("g",)), SMALL)
    fitted = data.preprocessing.vocabularies["g"]
    assert fitted.keys == ["a", "b"]
