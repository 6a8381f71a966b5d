"""The bars of one instrument on a regular grid, with its sessions, spliced over their gaps."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from tft_keras.data.bars.calendars import DAY, Sessions
from tft_keras.data.bars.reading import PRICES, Bars


@dataclasses.dataclass(frozen=True, eq=False)
class Instrument:
    """Bars of one instrument in order.

    Attributes:
        name: group values.
        times: (rows,) int64 nanoseconds since 1970, UTC.
        open, high, low, close, volume: (rows,) float64.
        breaks: (rows,) bool, whether a gap lies before the bar: it is the first of a session.
        period: (rows,) int64, numbered runs of bars over which the session's inputs are counted:
            from one gap or opening to the next; of daily bars, a month.
        daily: whether bars are a day long or longer, and so have no sessions.
    """

    name: tuple[Any, ...]
    times: np.ndarray
    open: np.ndarray
    high: np.ndarray
    low: np.ndarray
    close: np.ndarray
    volume: np.ndarray
    breaks: np.ndarray
    period: np.ndarray
    daily: bool

    @functools.cached_property
    def returns(self) -> np.ndarray:
        """(rows,) log return of each bar, from its open where a gap lies before it."""
        before = np.append(self.open[0], self.close[:-1])
        return np.log(self.close / np.where(self.breaks, self.open, before))

    @functools.cached_property
    def jumps(self) -> np.ndarray:
        """(rows,) log return from the close before to the open."""
        return np.log(self.open / np.append(self.open[0], self.close[:-1]))

    @functools.cached_property
    def spliced(self) -> dict[str, np.ndarray]:
        """Open, high, low and close, each (rows,), without the jumps; the first close is 100.

        Equal prices of a session stay exactly equal. TA-Lib takes small differences for none, so
        that prices far below 1 must not reach it.
        """
        before = np.append(self.open[0], self.close[:-1])
        factor = np.cumprod(np.where(self.breaks, before / self.open, 1.0)) * (100 / self.close[0])
        return {name: getattr(self, name) * factor for name in PRICES}

    @functools.cached_property
    def path(self) -> np.ndarray:
        """(rows,) log of the spliced close, 0 at the first one."""
        return np.log(self.spliced["close"] / 100)


def make_instrument(
    bars: Bars, place: int, step: int, sessions: Sessions, max_filled: int
) -> tuple[Instrument, int]:
    """Fills an instrument's short gaps and finds its sessions.

    Args:
        bars: of all instruments.
        place: of the instrument.
        step: nanoseconds from bar to bar.
        sessions: the market's.
        max_filled: longest run of missing bars that is filled.

    Returns:
        The instrument, and the number of bars filled in.
    """
    start, stop = np.searchsorted(bars.codes, (place, place + 1))
    times = bars.times[start:stop]
    values = {name: array[start:stop] for name, array in bars.values.items()}
    daily, filled = step >= DAY, 0
    if not daily:
        missing = missing_bars(times, step, sessions, max_filled)
        filled = int(missing.sum())
        if filled:
            times, values = _fill(times, values, missing, step)
    breaks = np.append(False, np.diff(times) != step) & (not daily)
    period = _period(times, breaks, sessions, daily)
    return Instrument(
        bars.names[place], times, **values, breaks=breaks, period=period, daily=daily
    ), filled


def missing_bars(
    times: np.ndarray, step: int, sessions: Sessions | None, max_filled: int
) -> np.ndarray:
    """Returns (rows,) int64: bars to be filled in after each; none where a gap ends a session."""
    distances = np.diff(times)
    missing = distances // step - 1
    fillable = (missing > 0) & (missing <= max_filled) & (distances % step == 0)
    if sessions is not None:
        fillable &= ~sessions.between(times[:-1], times[1:])
    return np.append(np.where(fillable, missing, 0), 0)


def _fill(
    times: np.ndarray, values: dict[str, np.ndarray], missing: np.ndarray, step: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Inserts bars without trades: all prices the close before, volume 0."""
    source = np.repeat(np.arange(len(times)), missing + 1)
    age = np.arange(len(source)) - np.flatnonzero(np.append(True, np.diff(source) > 0))[source]
    inserted = age > 0
    filled = {
        name: np.where(inserted, values["close"][source], values[name][source]) for name in PRICES
    }
    filled["volume"] = np.where(inserted, 0.0, values["volume"][source])
    return times[source] + age * step, filled


def _period(times: np.ndarray, breaks: np.ndarray, sessions: Sessions, daily: bool) -> np.ndarray:
    if daily:
        part = times.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)
    else:
        part = sessions.of(times, daily)
    return np.cumsum(np.append(False, np.diff(part) != 0) | breaks)
