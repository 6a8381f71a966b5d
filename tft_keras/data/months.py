"""Steps of months: which day of the month series keep to, and the same day of later months."""

from __future__ import annotations

import numpy as np

# Days 1 to 31 are days of the month, its last one where it is shorter; 31 is always its last.
FIRST_WEEKDAY, LAST_WEEKDAY = 41, 42


def numbers(local: np.ndarray, unit: str) -> np.ndarray:
    """Returns the months of clock times, counted from January 1970."""
    return local.astype(f"datetime64[{unit}]").astype("datetime64[M]").astype(np.int64)


def days(local: np.ndarray, unit: str, offsets: np.ndarray) -> tuple[np.ndarray, float]:
    """Finds the day of the month that each series keeps to.

    Tried in this order: the last day, a day of the month (the last one of shorter months), the
    first weekday, the last weekday; a series takes the one that most of its rows are at.

    Args:
        local: (rows,) clock times.
        offsets: (series + 1,) first row of each series.

    Returns:
        (series,) days, and the share of rows that are at their series' day.
    """
    month, day = _month_and_day(local, unit)
    length = _lengths(month)
    begin = offsets[:-1]
    rows = np.diff(offsets)
    highest = np.repeat(np.maximum.reduceat(day, begin), rows)
    rules = (
        (day == length, np.full(len(begin), 31)),
        (day == np.minimum(highest, length), np.maximum.reduceat(day, begin)),
        (day == _first_weekday(month), np.full(len(begin), FIRST_WEEKDAY)),
        (day == _last_weekday(month), np.full(len(begin), LAST_WEEKDAY)),
    )
    counts = np.stack([np.add.reduceat(fits.astype(np.int64), begin) for fits, _ in rules])
    best = counts.argmax(axis=0)
    chosen = np.stack([rule for _, rule in rules])[best, np.arange(len(begin))]
    return chosen, float(counts.max(axis=0).sum() / len(local))


def advance(
    local: np.ndarray, unit: str, count: np.ndarray | int, days: np.ndarray | None = None
) -> np.ndarray:
    """Returns clock times so many months later, at the same time of day.

    Args:
        local: int64 of any shape.
        count: months, in a shape that broadcasts with it.
        days: of the month, likewise; by default that of each time, where the last one stays last.
    """
    month, day = _month_and_day(local, unit)
    if days is None:
        days = np.where(day == _lengths(month), 31, day)
    start = (month.astype("datetime64[M]").astype("datetime64[D]") + day - 1).astype(
        f"datetime64[{unit}]"
    )
    of_day = local.astype(f"datetime64[{unit}]") - start
    target = month + np.asarray(count)
    day = np.minimum(days, _lengths(target))
    day = np.where(days == FIRST_WEEKDAY, _first_weekday(target), day)
    day = np.where(days == LAST_WEEKDAY, _last_weekday(target), day)
    dates = target.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    return (dates.astype(f"datetime64[{unit}]") + of_day).astype(np.int64)


def _month_and_day(local: np.ndarray, unit: str) -> tuple[np.ndarray, np.ndarray]:
    dates = local.astype(f"datetime64[{unit}]").astype("datetime64[D]")
    month = dates.astype("datetime64[M]")
    day = (dates - month.astype("datetime64[D]")).astype(np.int64) + 1
    return month.astype(np.int64), day


def _lengths(month: np.ndarray) -> np.ndarray:
    first = np.asarray(month).astype("datetime64[M]")
    return ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)


def _weekday(month: np.ndarray, day: np.ndarray | int) -> np.ndarray:
    """Returns 0 for Monday to 6 for Sunday."""
    dates = np.asarray(month).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return (dates + day - 1 + 3) % 7


def _first_weekday(month: np.ndarray) -> np.ndarray:
    weekday = _weekday(month, 1)
    return 1 + np.where(weekday >= 5, 7 - weekday, 0)


def _last_weekday(month: np.ndarray) -> np.ndarray:
    length = _lengths(month)
    return length - np.maximum(_weekday(month, length) - 4, 0)
