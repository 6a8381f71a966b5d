import numpy as np
import pandas as pd
import pytest

from tft_keras.data import Schema, prepare
from tft_keras.data.seasons import find_season, seasonal_naive

from .tables import SMALL


def _hourly(pattern, days=40):
    hours = days * 24
    noise = np.random.default_rng(0).normal(0, 0.1, hours)
    return pd.DataFrame(
        {"t": pd.date_range("2024-01-01", periods=hours, freq="h"), "y": pattern(hours) + noise}
    )


def _daily(hours):
    return np.sin(np.arange(hours) % 24 * np.pi / 12)


def _weekly(hours):
    return np.sin(np.arange(hours) % 168 * np.pi / 84) + (np.arange(hours) // 24 % 7 > 4) * 3.0


@pytest.mark.parametrize(("pattern", "season"), [(_daily, 24), (_weekly, 168)])
def test_the_season_is_the_one_whose_forecast_is_best(pattern, season):
    data = prepare(_hourly(pattern), Schema("y", "t"), SMALL)
    assert data.preprocessing.season == season
    windows = data.train
    positions = np.arange(len(windows) - 50, len(windows))
    actual = windows.actuals(positions)
    errors = {}
    for each in (24, 168):
        naive = seasonal_naive(windows, positions, each, np.full_like(actual, np.nan))
        errors[each] = np.nanmean(np.abs(naive - actual))
    assert min(errors, key=errors.get) == season


def test_a_whole_number_time_has_no_season_unless_named():
    frame = _hourly(_daily).assign(t=lambda f: np.arange(len(f)))
    data = prepare(frame, Schema("y", "t"), SMALL)
    assert data.preprocessing.season is None
    assert find_season(data.train, ()) is None
    assert find_season(data.train, (24,)) == 24
