"""The observed inputs: returns, session, candles, volatility, volume; the indicators come on top.

Every input at bar t is computed of the bars up to t of its instrument, the gaps between sessions
taken out: prices are spliced so that a session goes on at the close of the one before, and the jump
is an input of its own. All inputs are free of the price's level and of the unit of the volume.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tft_keras.data.bars.indicators import indicators
from tft_keras.data.bars.instrument import Instrument
from tft_keras.data.bars.rolling import (
    deviation,
    highest,
    mean,
    position,
    ratio,
    shift,
    total,
    within,
)

# The longest window is 120 bars; relative volume looks back twice on it, and what is smoothed
# recursively forgets its beginning meanwhile.
WARM_UP = 240
LONGEST = 120
Feature = tuple[str, np.ndarray]


def observed(bars: Instrument) -> dict[str, np.ndarray]:
    """Computes the observed inputs beside the target.

    Returns:
        209 columns by name, each (rows,) float32; the first `WARM_UP` rows may have NaN.
    """
    families = (_returns, _session, _candles, _volatility, _moments, _volume, _trend, indicators)
    return {name: values.astype(np.float32) for family in families for name, values in family(bars)}


def _returns(bars: Instrument) -> Iterator[Feature]:
    """Log returns, as they are and in units of the volatility."""
    scale = np.sqrt(mean(bars.returns**2, 60))
    for window in (1, 2, 3, 5, 10, 20, 30, 60, 120):
        value = bars.path - shift(bars.path, window) if window > 1 else bars.returns
        if window > 1:
            yield f"return_{window}", value
        yield f"normalized_return_{window}", ratio(value, scale * np.sqrt(window))
    yield "return_15", bars.path - shift(bars.path, 15)


def _session(bars: Instrument) -> Iterator[Feature]:
    """The jump into the session, and what has happened since."""
    last_break = np.maximum.accumulate(np.where(bars.breaks, np.arange(len(bars.times)), 0))
    yield "overnight_return", bars.jumps if bars.daily else bars.jumps[last_break]
    since = within(bars.returns, bars.period, np.cumsum)
    high = within(np.log(bars.spliced["high"]), bars.period, np.maximum.accumulate)
    low = within(np.log(bars.spliced["low"]), bars.period, np.minimum.accumulate)
    yield "session_bars", np.log1p(within(np.ones(len(since)), bars.period, np.cumsum))
    yield "session_return", since
    yield "session_range", high - low
    yield "session_position", position(np.log(bars.spliced["close"]), low, high)


def _candles(bars: Instrument) -> Iterator[Feature]:
    """The shape of the last bar, and of the ones before on average."""
    body = np.log(bars.close / bars.open)
    size = np.log(bars.high / bars.low)
    yield "candle_body", body
    yield "candle_range", size
    yield "candle_body_share", ratio(body, size)
    yield "candle_position", position(bars.close, bars.low, bars.high)
    yield "candle_upper_shadow", np.log(bars.high / np.maximum(bars.open, bars.close))
    yield "candle_lower_shadow", np.log(np.minimum(bars.open, bars.close) / bars.low)
    for window in (5, 10, 20, 60, 120):
        yield f"candle_range_mean_{window}", mean(size, window)
    yield "up_share_20", mean(bars.returns > 0, 20)


def _volatility(bars: Instrument) -> Iterator[Feature]:
    """Volatility per bar, estimated from returns and from the bars' ranges."""
    returns, square = bars.returns, bars.returns**2
    realized = {k: np.sqrt(mean(square, k)) for k in (5, 10, 20, 30, 60, 120)}
    for window, value in realized.items():
        yield f"realized_volatility_{window}", value
    body, size = np.log(bars.close / bars.open), np.log(bars.high / bars.low)
    up = np.log(bars.high / bars.open)
    down = np.log(bars.low / bars.open)
    estimates = {
        "parkinson_volatility": size**2 / (4 * np.log(2)),
        "garman_klass_volatility": 0.5 * size**2 - (2 * np.log(2) - 1) * body**2,
        "rogers_satchell_volatility": up * (up - body) + down * (down - body),
    }
    for name, variance in estimates.items():
        for window in (5, 10, 20, 60, 120):
            yield f"{name}_{window}", np.sqrt(np.maximum(mean(variance, window), 0))
    for window in (10, 20, 60, 120):
        yield f"downside_volatility_{window}", np.sqrt(mean(np.minimum(returns, 0) ** 2, window))
    for short, long in ((5, 20), (10, 60), (20, 120), (5, 60)):
        yield f"volatility_ratio_{short}_{long}", ratio(realized[short], realized[long], 1.0)
    neighbours = np.abs(returns) * np.abs(shift(returns, 1))
    for window in (20, 60, 120):
        yield f"bipower_volatility_{window}", np.sqrt(np.pi / 2 * mean(neighbours, window))


def _moments(bars: Instrument) -> Iterator[Feature]:
    """The distribution of the last returns beyond its scale."""
    returns = bars.returns
    largest = np.abs(returns)
    for window in (20, 60, 120):
        center, spread = mean(returns, window), deviation(returns, window)
        square, cube = mean(returns**2, window), mean(returns * returns * returns, window)
        third = cube - 3 * center * square + 2 * center**3
        fourth = mean(returns**2 * returns**2, window) - 4 * center * cube
        fourth += 6 * center**2 * square - 3 * center**4
        yield f"skewness_{window}", ratio(third, spread**3)
        yield f"kurtosis_{window}", ratio(fourth, spread**4, 3.0)
        pairs = mean(returns * shift(returns, 1), window)
        yield f"autocorrelation_{window}", ratio(pairs, square)
        yield f"largest_return_{window}", ratio(highest(largest, window), np.sqrt(square), 1.0)


def _volume(bars: Instrument) -> Iterator[Feature]:
    """Volume against its own mean, and where in the price's movement it was."""
    volume, returns = bars.volume, bars.returns
    usual = mean(volume, LONGEST)
    for window in (1, 5, 10, 20, 60):
        relative = np.log(ratio(mean(volume, window), usual) + 0.01)
        yield f"relative_volume_{window}", relative
    level = np.log(ratio(volume, usual) + 0.01)
    for window in (20, 60, 120):
        score = ratio(level - mean(level, window), deviation(level, window))
        yield f"volume_score_{window}", score
    for window in (1, 5, 20):
        yield f"volume_change_{window}", level - shift(level, window)
    concentration = ratio(mean(volume**2, 60), mean(volume, 60) ** 2, 1.0)
    yield "volume_concentration_60", np.log(concentration)
    place = 2 * position(bars.close, bars.low, bars.high) - 1
    for window in (5, 10, 20, 60, 120):
        traded = total(volume, window)
        yield f"signed_volume_{window}", ratio(total(np.sign(returns) * volume, window), traded)
        yield f"money_flow_{window}", ratio(total(place * volume, window), traded)
        # Logarithms: their mean, weighted by volume, is that of the price in any unit.
        typical = (np.log(bars.spliced["high"]) + np.log(bars.spliced["low"])) / 2
        typical = typical - np.log(bars.spliced["close"])
        yield f"vwap_distance_{window}", _vwap_distance(bars.path, typical, volume, window)
    for window in (5, 20, 60):
        weighted = ratio(total(returns * volume, window), total(volume, window))
        yield f"volume_weighted_return_{window}", weighted
    for window in (20, 60, 120):
        yield f"return_volume_correlation_{window}", _correlation(np.abs(returns), level, window)
        yield f"zero_volume_share_{window}", mean(volume == 0, window)


def _vwap_distance(
    path: np.ndarray, typical: np.ndarray, volume: np.ndarray, window: int
) -> np.ndarray:
    """Log close minus the mean of the log price weighted by volume; by time without volume."""
    price = path + typical
    traded = total(volume, window)
    weighted = ratio(total(price * volume, window), traded)
    return path - np.where(traded == 0, mean(price, window), weighted)


def _correlation(first: np.ndarray, second: np.ndarray, window: int) -> np.ndarray:
    joint = mean(first * second, window) - mean(first, window) * mean(second, window)
    spread = deviation(first, window) * deviation(second, window)
    return np.clip(ratio(joint, spread), -1, 1)


def _trend(bars: Instrument) -> Iterator[Feature]:
    """How straight the way of the price was, and where it stands in its range."""
    path = bars.path
    for window in (10, 20, 60, 120):
        way = total(np.abs(bars.returns), window)
        yield f"efficiency_{window}", ratio(path - shift(path, window), way)
    for window in (10, 20, 60):
        spread = deviation(path, window)
        yield f"bollinger_position_{window}", ratio(path - mean(path, window), spread)
        yield f"bollinger_width_{window}", spread
    for window in (60, 120):
        top = highest(np.log(bars.spliced["high"]), window)
        yield f"drawdown_{window}", np.log(bars.spliced["close"]) - top
    for short, long in ((5, 20), (10, 60), (20, 120)):
        yield f"mean_crossing_{short}_{long}", mean(path, short) - mean(path, long)
