"""The known inputs: clock and calendar, computable for bars that are still to come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tft_keras.data.bars.calendars import DAY, MINUTE, Sessions

_MOST_MINUTES = 1440.0


def known(times: np.ndarray, sessions: Sessions, daily: bool) -> dict[str, np.ndarray]:
    """Computes the known inputs of bars, or of times without bars.

    The day of week and of month is that of the trading day, to which the evening before may belong;
    the time of day is the exchange's own.

    Args:
        times: (rows,) int64 nanoseconds since 1970, UTC.
        sessions: the market's.
        daily: bars are a day long or longer.

    Returns:
        10 columns by name, each (rows,) float32.
    """
    session = sessions.of(times, daily)
    date = sessions.dates[session]
    day = 2 * np.pi * _time_of_day(times, sessions.zone)
    week = 2 * np.pi * ((date.astype(np.int64) + 3) % 7) / 7
    month = date.astype("datetime64[M]")
    first, after = month.astype("datetime64[D]"), (month + 1).astype("datetime64[D]")
    columns = {
        "time_of_day_sin": np.sin(day),
        "time_of_day_cos": np.cos(day),
        "weekday_sin": np.sin(week),
        "weekday_cos": np.cos(week),
        "minutes_since_open": _minutes(times - sessions.opens[session]),
        "minutes_to_close": _minutes(sessions.closes[session] - times),
        "month_progress": (date - first).astype(np.int64) / (after - first).astype(np.int64),
        "month_end": _is_month_end(sessions)[session],
        "short_session": sessions.is_short[session],
        "before_holiday": sessions.before_holiday[session],
    }
    return {name: values.astype(np.float32) for name, values in columns.items()}


def _time_of_day(times: np.ndarray, zone: str) -> np.ndarray:
    """Returns the share of the day that has passed in a time zone."""
    if zone != "UTC":
        local = pc.local_timestamp(pa.array(times).cast(pa.timestamp("ns", zone)))
        times = local.cast(pa.int64()).to_numpy()
    return times % DAY / DAY


def _minutes(distance: np.ndarray) -> np.ndarray:
    return np.clip(distance / MINUTE, 0, _MOST_MINUTES)


def _is_month_end(sessions: Sessions) -> np.ndarray:
    """(sessions,) bool: the last trading day of its month."""
    month = sessions.dates.astype("datetime64[M]")
    return np.append(month[:-1] != month[1:], False)
