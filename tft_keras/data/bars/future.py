"""The times of bars that are still to come."""

from __future__ import annotations

import numpy as np

from tft_keras.data.bars.calendars import DAY, Sessions


def future_times(
    last: int, count: int, step: int, sessions: Sessions, at_close: bool, skip_closed: bool
) -> tuple[np.ndarray, int]:
    """Returns the times of the bars after the last one.

    Args:
        last: time of the last bar, int64 nanoseconds since 1970, UTC.
        count: how many.
        step: nanoseconds from bar to bar.
        sessions: the market's.
        at_close: bars carry the time of their end.
        skip_closed: go on in the next session where one closes; else by the clock.

    Returns:
        (count,) int64, and how many of them are outside of sessions.
    """
    if not skip_closed:
        times = last + step * np.arange(1, count + 1)
        if step >= DAY:
            return times, 0
        return times, int((~sessions.is_open(times, at_close)).sum())
    if step >= DAY:
        return _dates(last, count, step, sessions), 0
    found = np.zeros(0, np.int64)
    start = last
    while len(found) < count and start < sessions.closes[-1]:
        times = start + step * np.arange(1, 1025)
        found = np.append(found, times[sessions.is_open(times, at_close)])
        start = int(times[-1])
    return found[:count], 0


def _dates(last: int, count: int, step: int, sessions: Sessions) -> np.ndarray:
    """The next trading days; longer bars go on by the clock."""
    if step > DAY:
        return last + step * np.arange(1, count + 1)
    midnights = sessions.dates.astype("datetime64[ns]").astype(np.int64)
    later = midnights[midnights > last - last % DAY]
    return later[:count] + last % DAY
