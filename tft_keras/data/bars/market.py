"""What all instruments share: the step from bar to bar and the trading sessions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tft_keras.data.bars.calendars import DAY, MINUTE, Hours, Sessions, find_sessions, infer_hours
from tft_keras.data.bars.instrument import missing_bars
from tft_keras.data.bars.options import ALWAYS_OPEN, AUTO, BarOptions
from tft_keras.data.bars.reading import Bars
from tft_keras.errors import InputError

# Future rows need sessions too.
_FUTURE = 400 * DAY
_MOST_IRREGULAR = 0.05


@dataclasses.dataclass(frozen=True)
class Market:
    """What all instruments share.

    Attributes:
        step: nanoseconds from bar to bar.
        hours: of the daily sessions, where these were not an exchange's.
        sessions: around all times and a year beyond.
        at_close: a bar's time is that of its end, not of its beginning.
    """

    step: int
    hours: Hours | None
    sessions: Sessions
    at_close: bool

    @property
    def daily(self) -> bool:
        """Whether bars are a day long or longer, and so have no sessions."""
        return self.step >= DAY


def find_market(bars: Bars, options: BarOptions, before: dict[str, Any]) -> Market:
    """Finds the step and the sessions.

    Args:
        bars: of all instruments.
        options: the exchange, and the step if it is given.
        before: the description of features made before, whose step and hours are taken; or empty.

    Raises:
        InputError: the bars have no common step, or there is no such exchange.
    """
    step = before.get("step") or _step(bars, options)
    if before:
        _check_step(bars, step, before)
    exchange = options.exchange
    if exchange == AUTO and before:
        exchange = before["options"]["exchange"]
    hours = None
    if exchange == AUTO and before:
        hours = Hours(**before["hours"])
    elif exchange == AUTO:
        hours = _infer_hours(bars, options, step)
    first, last = int(bars.times.min()), int(bars.times.max()) + _FUTURE
    sessions = find_sessions(exchange, hours, first, last)
    # Hours that were inferred begin and end with bars, whichever side their times are at.
    at_close = hours is None and exchange != ALWAYS_OPEN and _at_close(bars, sessions)
    return Market(step, hours, sessions, at_close)


def _step(bars: Bars, options: BarOptions) -> int:
    distances = np.diff(bars.times)[np.diff(bars.codes) == 0]
    if options.bar_minutes:
        step = round(options.bar_minutes * MINUTE)
    elif not len(distances):
        raise InputError(
            f"An instrument needs two bars or more. Received: {len(bars.times)} bars of "
            f"{len(bars.names)} instruments. Check the group columns."
        )
    else:
        values, counts = np.unique(distances, return_counts=True)
        step = int(values[counts.argmax()])
    irregular = float((distances % step != 0).mean()) if len(distances) else 0.0
    if step < DAY and irregular > _MOST_IRREGULAR:
        raise InputError(
            f"Bars must be whole steps apart. Received: {irregular:.0%} of them are not, with a "
            f"step of {step / MINUTE:g} minutes. Give bars of one length, or set bar_minutes."
        )
    return step


def _check_step(bars: Bars, step: int, before: dict[str, Any]) -> None:
    own = _step(bars, BarOptions())
    if own != step:
        raise InputError(
            "Bars must be of the length that `like` has. Received: bars of "
            f"{own / MINUTE:g} minutes, {before['step'] / MINUTE:g} in `like`. Resample them."
        )


def _infer_hours(bars: Bars, options: BarOptions, step: int) -> Hours:
    """The hours of sessions, from the training rows of all instruments."""
    rows, breaks = [], []
    for place in range(len(bars.names)):
        start, stop = np.searchsorted(bars.codes, (place, place + 1))
        filled = missing_bars(bars.times[start:stop], step, None, options.max_filled_bars).sum()
        # Filling moves the end of the training rows; these are among them in any case.
        training = options.training_rows(max(int(stop - start - filled), 0))
        times = bars.times[start : start + training]
        missing = missing_bars(times, step, None, options.max_filled_bars)
        distances = np.diff(times)
        gap = np.append(False, (distances != step) & (missing[:-1] == 0))[: len(times)]
        rows.append(times)
        breaks.append(gap)
    if step >= DAY:
        days = np.unique((np.concatenate(rows) // DAY + 3) % 7)
        return Hours(0, 1440, tuple(days.tolist()))
    return infer_hours(np.concatenate(rows), np.concatenate(breaks), step)


def _at_close(bars: Bars, sessions: Sessions) -> bool:
    """Whether bars are at the closing moments of sessions rather than at the opening ones."""
    apart = sessions.closes[:-1] < sessions.opens[1:]
    ends, starts = sessions.closes[:-1][apart], sessions.opens[1:][apart]
    return int(np.isin(bars.times, ends).sum()) > int(np.isin(bars.times, starts).sum())
