"""Bars of any table as sorted plain arrays, repaired where that is safe and refused elsewhere."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tft_keras.data import columns, zones
from tft_keras.data.bars.calendars import DAY
from tft_keras.data.bars.options import BarOptions
from tft_keras.data.series import describe_series, read_series
from tft_keras.data.table import Table, open_table
from tft_keras.data.time_columns import read_times
from tft_keras.errors import InputError, nearest

PRICES = ("open", "high", "low", "close")
_USUAL = {
    "time": (
        "ts_event",
        "timestamp",
        "time",
        "datetime",
        "date",
        "open_time",
        "ts",
        "bar_time",
        "t",
    ),
    "group": ("symbol", "pair", "ticker", "instrument", "instrument_id", "asset", "series"),
    "open": ("open", "o", "open_price", "px_open"),
    "high": ("high", "h", "high_price", "px_high"),
    "low": ("low", "l", "low_price", "px_low"),
    "close": ("close", "c", "close_price", "px_close", "last"),
    "volume": ("volume", "v", "vol", "base_volume", "tick_volume"),
}
# Counts since 1970 of the years 1990 to 2100 do not overlap between these units.
_UNITS = {"s": 10**9, "ms": 10**12, "us": 10**15, "ns": 10**18}
_ROUNDING = 1e-9
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclasses.dataclass(frozen=True, eq=False)
class Bars:
    """Bars of all instruments, by instrument, then by time.

    Attributes:
        time: name of the time column.
        time_type: the type in which times are written.
        group: names of the group columns.
        group_types: their types.
        names: group values of each instrument.
        codes: (rows,) int32, the instrument of each bar.
        times: (rows,) int64 nanoseconds since 1970: UTC, or by the clocks of `daily_in`.
        values: open, high, low, close and volume, (rows,) float64 each.
        daily_in: the time zone in which all bars are at one time of the day, where it is not UTC.
    """

    time: str
    time_type: pa.DataType
    group: tuple[str, ...]
    group_types: tuple[pa.DataType, ...]
    names: list[tuple[Any, ...]]
    codes: np.ndarray
    times: np.ndarray
    values: dict[str, np.ndarray]
    daily_in: str | None = None

    def take(self, rows: np.ndarray) -> Bars:
        """Returns the bars at these rows."""
        values = {name: array[rows] for name, array in self.values.items()}
        return dataclasses.replace(
            self, codes=self.codes[rows], times=self.times[rows], values=values
        )

    def time_column(self, times: np.ndarray) -> pa.Array:
        """Returns times as the table wrote its own."""
        if self.daily_in:
            times = zones.to_utc(times, "ns", self.daily_in)
        return pa.array(times // NANOSECONDS[self.time_type.unit]).cast(self.time_type)

    def describe(self, row: int) -> str:
        """Returns the instrument and time of a bar, for messages."""
        series = describe_series(self.group, self.names[self.codes[row]])
        return f"{series}, time={self.times[row].astype('datetime64[ns]')}"


def read_bars(source: Any, options: BarOptions) -> Bars:
    """Reads, sorts, checks and repairs the bars of a table.

    Repaired, with a warning that counts: bars without a finite price (dropped, as if there had been
    no trade), missing volume (0), high and low that do not enclose the other prices (widened to
    enclose them), identical duplicates (dropped).

    Args:
        source: as for `tft_keras.data.prepare`.
        options: names of the columns.

    Raises:
        InputError: a column is missing or of a wrong type, a price is not above zero, a volume is
            negative, or two bars of one instrument and time differ.
    """
    table = open_table(source)
    names = _find_columns(table, options)
    times, time_type = _times(table, names["time"], options.time_zone)
    times, daily_in = _by_local_days(times, time_type.tz)
    codes, instruments = read_series(table, names["group"])
    bars = Bars(
        names["time"],
        time_type,
        names["group"],
        tuple(_group_type(table.columns[column]) for column in names["group"]),
        instruments.names,
        codes,
        times,
        {name: columns.reals(table, names[name]) for name in (*PRICES, "volume")},
        daily_in,
    )
    bars = _drop_missing(bars)
    _check_signs(bars)
    bars = bars.take(np.lexsort((bars.times, bars.codes)))
    return _enclose(_drop_duplicates(bars))


def _find_columns(table: Table, options: BarOptions) -> dict[str, Any]:
    found = {name: _find(table.columns, name, getattr(options, name)) for name in _USUAL}
    missing = [name for name, column in found.items() if column is None and name != "group"]
    if missing:
        hints = (nearest(name, table.columns) for name in missing)
        raise InputError(
            f"Bars have the columns time, {', '.join(PRICES)} and volume. Received: no "
            f"{' and no '.join(missing)}.{next((hint for hint in hints if hint), '')} "
            f"Name them by options. The table has: {', '.join(table.columns)}."
        )
    return found | {"group": found["group"] or ()}


def _find(names: Mapping[str, Any], role: str, given: Any) -> Any:
    if given is not None:
        for column in given if role == "group" else (given,):
            if column not in names:
                raise InputError(
                    f"The {role} column must be in the table. Received: {role}={column!r}."
                    f"{nearest(column, names)} The table has: {', '.join(names)}."
                )
        return given
    folded = {name.lower(): name for name in reversed(list(names))}
    column = next((folded[usual] for usual in _USUAL[role] if usual in folded), None)
    return (column,) if column and role == "group" else column


def _times(table: Table, column: str, zone: str | None) -> tuple[np.ndarray, pa.DataType]:
    times, read = read_times(table, column)
    unit, given_zone = read.unit, getattr(read.type, "tz", None)
    if unit is None:
        unit, given_zone = _unit_of(times, column), "UTC"
    elif not read.naive and given_zone is None:
        given_zone = "UTC"
    if given_zone is None and zone:
        times, given_zone = _to_utc(times, unit, zone, column), "UTC"
    scale = NANOSECONDS[unit]
    if len(times) and np.abs(times).max() > np.iinfo(np.int64).max // scale:
        raise InputError(
            f"Times must lie between the years 1678 and 2262. Received: {column!r} outside of them."
        )
    return times * scale, pa.timestamp(unit, given_zone)


def _by_local_days(times: np.ndarray, zone: str | None) -> tuple[np.ndarray, str | None]:
    """Bars of whole days keep to the zone's calendar, whose days are not 24 hours each."""
    zone = zones.plain_zone(zone)
    if zone is None or not len(times):
        return times, None
    local = zones.to_local(times, "ns", zone)
    of_day = local % DAY
    return (local, zone) if (of_day == of_day[0]).all() else (times, None)


def _unit_of(times: np.ndarray, column: str) -> str:
    typical = abs(float(np.median(times))) if len(times) else 0.0
    for unit, size in _UNITS.items():
        if 0.5 * size <= typical < 5 * size:
            return unit
    raise InputError(
        "Whole numbers in the time column must be seconds, milli-, micro- or nanoseconds since "
        f"1970. Received: {column!r} with a median of {typical:.0f}. Convert it to timestamps."
    )


def _to_utc(times: np.ndarray, unit: str, zone: str, column: str) -> np.ndarray:
    try:
        zoned = pc.assume_timezone(pa.array(times).cast(pa.timestamp(unit)), zone)
    except pa.ArrowInvalid as error:
        raise InputError(
            "time_zone must be a zone in which each local time is one moment. Received: "
            f"time_zone={zone!r}, {column!r} ({error}). Write the times in UTC."
        ) from None
    return zoned.cast(pa.int64()).to_numpy()


def _group_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _drop_missing(bars: Bars) -> Bars:
    volume = bars.values["volume"]
    without = ~np.isfinite(volume)
    if without.any():
        _warn(f"{int(without.sum())} bars without a finite volume: taken as a volume of 0.")
        bars.values["volume"] = np.where(without, 0.0, volume)
    bad = ~np.logical_and.reduce([np.isfinite(bars.values[name]) for name in PRICES])
    if bad.all():
        raise InputError(
            f"Bars need finite prices. Received: {len(bad)} bars, none with four of them."
        )
    if not bad.any():
        return bars
    _warn(f"{int(bad.sum())} bars without four finite prices: dropped, as bars without a trade.")
    return bars.take(np.flatnonzero(~bad))


def _check_signs(bars: Bars) -> None:
    for name in (*PRICES, "volume"):
        bad = bars.values[name] < 0 if name == "volume" else bars.values[name] <= 0
        if bad.any():
            row = int(bad.argmax())
            rule = "Volumes must be 0 or more." if name == "volume" else "Prices must be above 0."
            raise InputError(
                f"{rule} Received: {name}={bars.values[name][row]:g} in {bars.describe(row)}; "
                f"{int(bad.sum())} such bars. Correct or drop these bars; of a spread, which may "
                "be negative, give a price index above 0."
            )


def _drop_duplicates(bars: Bars) -> Bars:
    same = (np.diff(bars.codes) == 0) & (np.diff(bars.times) == 0)
    if not same.any():
        return bars
    differ = np.logical_or.reduce([np.diff(array) != 0 for array in bars.values.values()]) & same
    if differ.any():
        row = int(differ.argmax())
        raise InputError(
            "An instrument may have one bar at a time. Received: different bars in "
            f"{bars.describe(row)}; {int(differ.sum())} such bars. Keep one of them, name the "
            "columns that tell the instruments apart in `group`, or write local times in UTC."
        )
    _warn(f"{int(same.sum())} bars that are there twice, with the same values: dropped once.")
    return bars.take(np.flatnonzero(np.append(True, ~same)))


def _enclose(bars: Bars) -> Bars:
    prices = [bars.values[name] for name in PRICES]
    high, low = np.maximum.reduce(prices), np.minimum.reduce(prices)
    # Prices of different types may differ by their rounding.
    wrong = high - bars.values["high"] > _ROUNDING * high
    wrong |= bars.values["low"] - low > _ROUNDING * high
    if wrong.any():
        _warn(
            f"{int(wrong.sum())} bars whose high or low does not enclose the other prices: widened "
            f"to enclose them. The first one: {bars.describe(int(wrong.argmax()))}."
        )
    return dataclasses.replace(bars, values=bars.values | {"high": high, "low": low})


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
