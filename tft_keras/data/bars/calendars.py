"""Trading sessions: of an exchange's calendar, of a market that never closes, or as bars tell."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tft_keras.data.bars.options import ALWAYS_OPEN, AUTO, require
from tft_keras.errors import InputError, nearest

MINUTE = 60 * 10**9
DAY = 1440 * MINUTE
_MARGIN = np.timedelta64(20, "D")
_SHORT = 30 * MINUTE
_OPEN_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Hours:
    """Daily sessions at the same hours, in UTC: the calendar where no exchange is known.

    Args:
        open_minute: of the day at which sessions open.
        minutes: length of a session.
        weekdays: days on which sessions open, Monday is 0.
    """

    open_minute: int
    minutes: int
    weekdays: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions in order.

    Attributes:
        opens, closes: (sessions,) int64 nanoseconds since 1970, UTC.
        dates: (sessions,) datetime64[D], the trading day that each session belongs to.
        zone: the exchange's time zone.
    """

    opens: np.ndarray
    closes: np.ndarray
    dates: np.ndarray
    zone: str

    def of(self, times: np.ndarray, daily: bool) -> np.ndarray:
        """Returns the last session that has opened at each time; of daily bars, by their date."""
        if daily:
            days = times.astype("datetime64[ns]").astype("datetime64[D]")
            found = np.searchsorted(self.dates, days, side="right") - 1
        else:
            found = np.searchsorted(self.opens, times, side="right") - 1
        return np.maximum(found, 0)

    def is_open(self, times: np.ndarray, at_close: bool) -> np.ndarray:
        """Whether bars may be at these times.

        Args:
            times: (rows,) int64.
            at_close: bars carry the time of their end, not of their beginning.
        """
        # A bar's end is in the session in which its last moment is.
        session = self.of(times - int(at_close), False)
        closes = self.closes[session] + int(at_close)
        return (times >= self.opens[session] + int(at_close)) & (times < closes)

    def between(self, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Whether the market was closed at some moment between pairs of times, (rows,) bool."""
        paused = np.append(self.closes[:-1] < self.opens[1:], True)
        ends = self.closes[paused]
        return np.searchsorted(ends, earlier, "left") != np.searchsorted(ends, later, "left")

    @property
    def is_short(self) -> np.ndarray:
        """(sessions,) bool: closes half an hour or more before the usual time."""
        lengths = self.closes - self.opens
        return lengths <= np.median(lengths) - _SHORT

    @property
    def before_holiday(self) -> np.ndarray:
        """(sessions,) bool: a weekday without a session lies before the next one."""
        skipped = np.busday_count(self.dates[:-1] + 1, self.dates[1:])
        return np.append(skipped > 0, False)


def find_sessions(exchange: str, hours: Hours | None, first: int, last: int) -> Sessions:
    """Makes the sessions around a span of time.

    Args:
        exchange: name of a calendar, or `24/7`.
        hours: the sessions instead of an exchange's.
        first, last: int64 nanoseconds since 1970, UTC.

    Raises:
        InputError: there is no calendar of that name, or the library is missing.
    """
    start = np.datetime64(int(first), "ns").astype("datetime64[D]") - _MARGIN
    stop = np.datetime64(int(last), "ns").astype("datetime64[D]") + _MARGIN
    if hours or exchange == ALWAYS_OPEN:
        return _daily(hours or Hours(0, 1440, tuple(range(7))), start, stop)
    library = require("pandas_market_calendars")
    names = library.get_calendar_names()
    if exchange not in names:
        raise InputError(
            f"exchange must be a calendar of pandas_market_calendars, {ALWAYS_OPEN} or {AUTO}. "
            f"Received: exchange={exchange!r}.{nearest(exchange, names)}"
        )
    calendar = library.get_calendar(exchange)
    schedule = calendar.schedule(str(start), str(stop), tz="UTC")
    if not len(schedule):
        raise InputError(
            "The calendar must have sessions at the times of the bars. Received: "
            f"exchange={exchange!r} from {start} to {stop}. Give another one, or {AUTO}."
        )
    return Sessions(
        _nanoseconds(schedule["market_open"]),
        _nanoseconds(schedule["market_close"]),
        schedule.index.to_numpy().astype("datetime64[D]"),
        str(getattr(calendar.tz, "key", calendar.tz)),
    )


def _nanoseconds(moments: Any) -> np.ndarray:
    naive = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    return naive.to_numpy().astype("datetime64[ns]").astype(np.int64)


def _daily(hours: Hours, start: np.datetime64, stop: np.datetime64) -> Sessions:
    days = np.arange(start, stop)
    days = days[np.isin((days.astype(np.int64) + 3) % 7, hours.weekdays)]
    opens = days.astype("datetime64[ns]").astype(np.int64) + hours.open_minute * MINUTE
    closes = opens + hours.minutes * MINUTE
    # A session over midnight is of the day on which it ends, as exchanges have it.
    dates = (closes - 1).astype("datetime64[ns]").astype("datetime64[D]")
    return Sessions(opens, closes, dates, "UTC")


def infer_hours(times: np.ndarray, breaks: np.ndarray, step: int) -> Hours:
    """Finds daily sessions in bars.

    The sessions open and close at the most frequent minutes of the day at which gaps end and begin,
    on the weekdays on which there are bars then; of less than a week of bars, on all from Monday to
    Friday besides. A market is taken to be always open if its bars are in nine of ten hours of the
    week and gaps are rarer than every other day.

    Args:
        times: (rows,) int64, bars of all instruments, one after another.
        breaks: (rows,) bool, whether a gap lies before a bar; not before the first one.
        step: nanoseconds from bar to bar; a session closes one step after its last bar.
    """
    span = int(times.max() - times.min()) + step
    firsts = np.flatnonzero(breaks)
    if not len(firsts) or _is_always_open(times, firsts, span):
        return Hours(0, 1440, tuple(range(7)))
    open_minute = _most_frequent(times[firsts] % DAY // MINUTE)
    close_minute = _most_frequent((times[firsts - 1] + step) % DAY // MINUTE)
    minutes = (close_minute - open_minute) % 1440 or 1440
    since_open = times - open_minute * MINUTE
    days = since_open[since_open % DAY < minutes * MINUTE] // DAY
    weekdays = {int(day) for day in np.unique((days + 3) % 7)}
    if span < 7 * DAY:
        weekdays |= set(range(5))
    return Hours(open_minute, minutes, tuple(sorted(weekdays)))


def _is_always_open(times: np.ndarray, firsts: np.ndarray, span: int) -> bool:
    hours = np.unique(times // (60 * MINUTE) % (7 * 24))
    possible = min(7 * 24, span / (60 * MINUTE))
    gaps = len(np.unique(times[firsts]))
    return len(hours) >= _OPEN_SHARE * possible and gaps < 0.5 * span / DAY


def _most_frequent(values: np.ndarray) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()])
