"""The observed inputs that TA-Lib computes, on spliced prices, made free of the price's level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tft_keras.data.bars.instrument import Instrument
from tft_keras.data.bars.options import require
from tft_keras.data.bars.rolling import deviation, highest, lowest, position, ratio, total

# TA-Lib takes a money flow below 1 for none.
_VOLUME_UNIT = 1e6


def indicators(bars: Instrument) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names and (rows,) values.

    Recursive ones (averages of Wilder's and exponential kind) begin at the instrument's first bar,
    so that later bars cannot change them.
    """
    yield from _oscillators(bars)
    yield from _averages(bars)
    yield from _direction(bars)
    yield from _ranges(bars)


def _oscillators(bars: Instrument) -> Iterator[tuple[str, np.ndarray]]:
    talib, price = require("talib"), bars.spliced
    high, low, close = price["high"], price["low"], price["close"]
    for window in (5, 9, 14, 21, 30, 60):
        yield f"rsi_{window}", talib.RSI(close, window)
    for window in (14, 30):
        strength = talib.RSI(close, window)
        span = lowest(strength, window), highest(strength, window)
        yield f"stochastic_rsi_{window}", position(strength, *span)
    for window in (5, 14, 30, 60):
        flat = highest(high, window) == lowest(low, window)
        slow, slower = talib.STOCH(high, low, close, window, 3, 0, 3, 0)
        yield f"stochastic_k_{window}", np.where(flat, 50.0, slow)
        yield f"stochastic_d_{window}", np.where(flat, 50.0, slower)
        yield f"williams_r_{window}", np.where(flat, -50.0, talib.WILLR(high, low, close, window))
    for window in (5, 14, 20, 30, 60):
        yield f"cci_{window}", talib.CCI(high, low, close, window)
    for window in (5, 14, 30, 60):
        traded = total(bars.volume, window) > 0
        flow = talib.MFI(high, low, close, bars.volume * _VOLUME_UNIT, window)
        yield f"mfi_{window}", np.where(traded, flow, 50.0)
    yield "ultimate_oscillator", talib.ULTOSC(high, low, close, 7, 14, 28)
    balance = talib.BOP(price["open"], high, low, close)
    for window in (5, 14, 30):
        yield f"balance_of_power_{window}", talib.SMA(balance, window)


def _averages(bars: Instrument) -> Iterator[tuple[str, np.ndarray]]:
    talib, close = require("talib"), bars.spliced["close"]
    for fast, slow, signal in ((5, 15, 5), (12, 26, 9), (24, 52, 18)):
        line, _, histogram = talib.MACD(close, fast, slow, signal)
        yield f"macd_{fast}_{slow}", line / close
        yield f"macd_histogram_{fast}_{slow}", histogram / close
    for window in (5, 15, 30):
        yield f"trix_{window}", talib.TRIX(close, window)
    for window in (5, 10, 20, 60, 120):
        yield f"ema_distance_{window}", np.log(close / talib.EMA(close, window))
    for window in (10, 30):
        yield f"kama_distance_{window}", np.log(close / talib.KAMA(close, window))


def _direction(bars: Instrument) -> Iterator[tuple[str, np.ndarray]]:
    talib, price = require("talib"), bars.spliced
    high, low, close = price["high"], price["low"], price["close"]
    for window in (7, 14, 30, 60):
        up = talib.PLUS_DI(high, low, close, window)
        down = talib.MINUS_DI(high, low, close, window)
        yield f"adx_{window}", talib.ADX(high, low, close, window)
        yield f"directional_difference_{window}", up - down
    for window in (10, 25, 60):
        yield f"aroon_{window}", talib.AROONOSC(high, low, window)
    for window in (10, 20, 60, 120):
        slope = talib.LINEARREG_SLOPE(bars.path, window)
        spread = np.sqrt((window**2 - 1) / 12)
        yield f"trend_slope_{window}", slope
        if window < 120:
            yield f"trend_distance_{window}", bars.path - talib.LINEARREG(bars.path, window)
        strength = ratio(slope * spread, deviation(bars.path, window))
        yield f"trend_strength_{window}", np.clip(strength, -1, 1)
    yield "sar_distance", np.log(close / talib.SAR(high, low, 0.02, 0.2))


def _ranges(bars: Instrument) -> Iterator[tuple[str, np.ndarray]]:
    talib, price = require("talib"), bars.spliced
    high, low, close = price["high"], price["low"], price["close"]
    for window in (5, 14, 30, 60):
        yield f"natr_{window}", talib.NATR(high, low, close, window)
    for window in (10, 30, 60):
        yield f"ewma_volatility_{window}", np.sqrt(talib.EMA(bars.returns**2 * 1e6, window) / 1e6)
