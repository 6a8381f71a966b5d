"""The measures of a run beside the baselines, on windows whose values are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests import runs
from tft_keras.data.forecasts import forecast_batches
from tft_keras.errors import InputError
from tft_keras.evaluation import best_baseline, evaluate, seasonal_naive
from tft_keras.metrics import ForecastMetrics
from tft_keras.training import Run

tiny_run = runs.tiny_run


class Counting:
    """Windows over the series 0, 1, 2, ... with a horizon of 5 and 8 values before the origin."""

    horizon = 5

    def lagged(self, positions: np.ndarray, lag: int) -> np.ndarray:
        rows = 8 + positions[:, None] + np.arange(self.horizon) - lag
        unknown = (rows < 0) | (rows >= 8 + positions[:, None])
        return np.where(unknown, np.nan, rows).astype(np.float64)


@pytest.mark.parametrize(
    ("season", "expected"),
    [
        (7, [1, 2, 3, 4, 5]),
        # The fourth step's season before is not known yet; two seasons before is.
        (3, [5, 6, 7, 5, 6]),
        (1, [7, 7, 7, 7, 7]),
        # Before the start of the series: what is given instead.
        (10, [-1, -1, 0, 1, 2]),
    ],
)
def test_seasonal_naive_by_hand(season, expected):
    forecast = seasonal_naive(Counting(), np.array([0]), season, np.full((1, 5), -1.0))
    assert forecast.tolist() == [expected]


@pytest.fixture
def table():
    return runs.sales_table()


def test_model_and_baselines_are_measured_on_the_same_cells(tiny_run, table):
    results = evaluate(tiny_run, table)
    assert list(results) == ["validation", "test"]
    windows = runs.prepared().test
    actual = windows.actuals(np.arange(len(windows)))
    for measures in results["test"].values():
        assert measures["cells"] == (~np.isnan(actual)).sum()
        assert [step["step"] for step in measures["steps"]] == [1, 2, 3]
    assert list(results["test"]) == ["model", "last value", "seasonal naive"]


def test_the_models_measures_are_those_of_its_forecasts(tiny_run, table):
    windows = dataclasses.replace(runs.prepared().test, preprocessing=tiny_run.preprocessing())
    metrics = ForecastMetrics((0.1, 0.5, 0.9), horizon=3)
    for positions, values in forecast_batches(tiny_run.model().predict_on_batch, windows, 7):
        metrics.update(windows.actuals(positions), values)
    expected = metrics.result()
    result = evaluate(tiny_run, table, splits=["test"])["test"]["model"]
    assert result["q_risk"] == pytest.approx(expected["q_risk"], rel=1e-5)
    assert result["rmse"] == pytest.approx(expected["rmse"], rel=1e-5)


def test_the_baselines_errors_by_hand(tiny_run, table):
    results = evaluate(tiny_run, table, splits=["test"], season=7)["test"]
    last, seasonal = [], []
    for store in ("north", "south"):
        sales = table.filter([name == store for name in table["store"].to_pylist()])["sales"]
        sales = sales.to_numpy(zero_copy_only=False)
        # 80 rows, the last fifth is the test split, three rows the horizon.
        stop = 80 - int(np.argmax(~np.isnan(sales[::-1])))
        first = stop - round(stop * 0.2)
        for origin in range(first, 80 - 2):
            past = sales[:origin]
            for step in range(3):
                y = sales[origin + step]
                if np.isnan(y) or np.isnan(sales[origin : origin + 3]).all():
                    continue
                naive = past[~np.isnan(past)][-1]
                week = sales[origin + step - 7]
                last.append(abs(y - naive))
                seasonal.append(abs(y - (naive if np.isnan(week) else week)))
    assert results["last value"]["cells"] == len(last)
    assert results["last value"]["mae"] == pytest.approx(np.mean(last))
    assert results["seasonal naive"]["mae"] == pytest.approx(np.mean(seasonal))
    # The weekly pattern is in the data.
    assert results["seasonal naive"]["mae"] < results["last value"]["mae"]


def test_a_baselines_interval_is_that_of_its_errors_on_the_validation_split(tiny_run, table):
    data = runs.prepared()

    def naive(windows):
        positions = np.arange(len(windows))
        center, scale = np.moveaxis(windows.unscale(positions, [[0.0, 1.0]] * len(positions)), 1, 0)
        last = windows.last_value(positions)[:, None]
        return last, windows.actuals(positions), center[:, None], (scale - center)[:, None]

    last, actual, _, spread = naive(data.validation)
    errors = (actual - last) / spread
    low, high = np.nanquantile(errors, (0.1, 0.9), axis=0)
    last, actual, _, spread = naive(data.test)
    inside = (actual >= last + low * spread) & (actual <= last + high * spread)
    found = evaluate(tiny_run, table, splits=["test"])["test"]["last value"]
    assert found["coverage"] == pytest.approx(inside[~np.isnan(actual)].mean())
    # The median stays the forecast that the name says.
    assert found["mae"] == pytest.approx(np.nanmean(np.abs(actual - last)))


def test_a_model_that_loses_is_named():
    results = {name: {"wql": wql} for name, wql in (("model", 0.5), ("last value", 0.6))}
    assert best_baseline(results) is None
    assert best_baseline(results | {"seasonal naive": {"wql": 0.4}}) == "seasonal naive"
    assert best_baseline({"model": {"wql": None}, "last value": {"wql": None}}) is None


def test_the_season_is_guessed_from_the_step(tiny_run, table):
    # Daily rows: a week.
    assert evaluate(tiny_run, table, ["test"]) == evaluate(tiny_run, table, ["test"], season=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": ["tests"]}, r"splits must be among .*'tests'\. Did you mean 'test'"),
        ({"season": 0}, r"season=0"),
    ],
)
def test_wrong_arguments(tiny_run, table, options, message):
    with pytest.raises(InputError, match=message):
        evaluate(tiny_run, **({"source": table} | options))


def test_a_run_trained_in_memory_needs_a_table(tiny_run):
    run = Run(tiny_run.path, dataclasses.replace(tiny_run.config, source=None))
    with pytest.raises(InputError, match=r"trained on a table in memory"):
        evaluate(run)


def test_without_a_table_that_of_the_training_is_used(tiny_run, table):
    assert evaluate(tiny_run) == evaluate(tiny_run, table)
