"""Observed inputs against values computed in another way, window by window."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import talib

from tests.data.bar_tables import bars, column, prepared, session_times
from tft_keras.data.bars import WARM_UP, rolling

ROWS = 420


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return bars(session_times(1, ROWS), seed=9, decimals=12).to_pandas()


@pytest.fixture(scope="module")
def features():
    return prepared(bars(session_times(1, ROWS), seed=9, decimals=12))


@pytest.fixture(scope="module")
def expected(frame) -> dict[str, pd.Series]:
    """By pandas, and by TA-Lib on the prices as they are: the session has no gap."""
    close, opens, high, low = (frame[name] for name in ("close", "open", "high", "low"))
    volume = frame["volume"]
    returns = np.log(close).diff()
    returns[0] = np.log(close[0] / opens[0])
    path, window = np.log(close), returns.rolling(20)
    typical = (np.log(high) + np.log(low)) / 2
    line = talib.MACD(close, 12, 26, 9)
    return {
        "return_5": path.diff(5),
        "normalized_return_10": path.diff(10) / np.sqrt((returns**2).rolling(60).mean() * 10),
        "realized_volatility_20": np.sqrt((returns**2).rolling(20).mean()),
        "parkinson_volatility_10": np.sqrt(
            (np.log(high / low) ** 2).rolling(10).mean() / (4 * np.log(2))
        ),
        "downside_volatility_10": np.sqrt((returns.clip(upper=0) ** 2).rolling(10).mean()),
        "skewness_20": window.apply(lambda r: ((r - r.mean()) ** 3).mean() / r.std(ddof=0) ** 3),
        "kurtosis_20": window.apply(lambda r: ((r - r.mean()) ** 4).mean() / r.std(ddof=0) ** 4),
        "largest_return_20": returns.abs().rolling(20).max()
        / np.sqrt((returns**2).rolling(20).mean()),
        "up_share_20": (returns > 0).rolling(20).mean(),
        "session_return": returns.cumsum(),
        "session_position": np.log(close / low.cummin()) / np.log(high.cummax() / low.cummin()),
        "signed_volume_10": (np.sign(returns) * volume).rolling(10).sum()
        / volume.rolling(10).sum(),
        "relative_volume_5": np.log(volume.rolling(5).mean() / volume.rolling(120).mean() + 0.01),
        "zero_volume_share_20": (volume == 0).rolling(20).mean(),
        "vwap_distance_10": path - (typical * volume).rolling(10).sum() / volume.rolling(10).sum(),
        "return_volume_correlation_60": returns.abs()
        .rolling(60)
        .corr(np.log(volume / volume.rolling(120).mean() + 0.01)),
        "efficiency_10": path.diff(10) / returns.abs().rolling(10).sum(),
        "bollinger_position_20": (path - path.rolling(20).mean()) / path.rolling(20).std(ddof=0),
        "drawdown_60": path - np.log(high.rolling(60).max()),
        "trend_slope_20": path.rolling(20).apply(lambda p: np.polyfit(np.arange(20), p, 1)[0]),
        "trend_strength_20": path.rolling(20).apply(lambda p: np.corrcoef(np.arange(20), p)[0, 1]),
        "rsi_14": talib.RSI(close, 14),
        "adx_14": talib.ADX(high, low, close, 14),
        "natr_14": talib.NATR(high, low, close, 14),
        "cci_20": talib.CCI(high, low, close, 20),
        "mfi_14": talib.MFI(high, low, close, volume, 14),
        "aroon_25": talib.AROONOSC(high, low, 25),
        "williams_r_14": talib.WILLR(high, low, close, 14),
        "macd_12_26": line[0] / close,
        "macd_histogram_12_26": line[2] / close,
        "ema_distance_20": np.log(close / talib.EMA(close, 20)),
    }


def test_values(features, expected):
    for name, series in expected.items():
        values = series.to_numpy(np.float64)[WARM_UP:]
        tolerance = 1e-5 * np.abs(values).max()
        message = name
        np.testing.assert_allclose(column(features, name), values, atol=tolerance, err_msg=message)


@pytest.mark.parametrize("window", [1, 2, 7, 16, 30])
def test_rolling_measures(window):
    values = np.random.default_rng(1).normal(0, 1, 50)
    series = pd.Series(values).rolling(window)
    np.testing.assert_allclose(rolling.total(values, window), series.sum(), atol=1e-12)
    np.testing.assert_array_equal(rolling.highest(values, window), series.max())
    np.testing.assert_array_equal(rolling.lowest(values, window), series.min())
    np.testing.assert_allclose(rolling.deviation(values, window), series.std(ddof=0), atol=1e-7)


def test_a_window_longer_than_the_values():
    assert np.isnan(rolling.total(np.ones(5), 9)).all()


def test_a_huge_value_leaves_no_trace():
    values = np.array([1e18, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(rolling.total(values, 2)[2:], 2.0)
