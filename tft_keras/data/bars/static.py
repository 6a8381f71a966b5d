"""The static inputs: what kind of instrument it is, as its training rows show."""

from __future__ import annotations

import numpy as np

from tft_keras.data.bars.calendars import DAY, MINUTE
from tft_keras.data.bars.instrument import Instrument

STATIC_NAMES = ("log_price", "log_tick", "log_median_volume", "log_volatility", "log_day_minutes")
# Differences of prices smaller than this share of the price are rounding.
_ROUNDING = 1e-9
_LEAST = 1e-12


def statics(bars: Instrument, rows: slice, step: int) -> dict[str, float]:
    """Computes the static inputs.

    Args:
        bars: of one instrument.
        rows: those that training may see.
        step: nanoseconds from bar to bar.

    Returns:
        log_price: of the median close. log_tick: of the smallest difference between two closes, in
        units of the median close. log_median_volume: of 1 + the median volume. log_volatility: of
        the standard deviation of the returns. log_day_minutes: of the median number of minutes with
        bars in a day.
    """
    close = bars.close[rows]
    price = float(np.median(close))
    distances = np.diff(np.unique(close)) / price
    distances = distances[distances > _ROUNDING]
    tick = float(distances.min()) if len(distances) else _LEAST
    days = np.unique(bars.times[rows] // DAY, return_counts=True)[1]
    minutes = min(float(np.median(days)) * step, DAY) / MINUTE
    values = (
        np.log(price),
        np.log(tick),
        np.log1p(np.median(bars.volume[rows])),
        np.log(max(float(bars.returns[rows].std()), _LEAST)),
        np.log(minutes),
    )
    return dict(zip(STATIC_NAMES, map(float, values), strict=True))
