"""The measures, against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tft_keras.metrics import ForecastMetrics, quantile_loss, table

NAN = float("nan")
# Two windows, two steps, quantiles 0.1, 0.5, 0.9; the last target is missing.
ACTUAL = np.array([[10.0, -2.0], [4.0, NAN]])
FORECAST = np.array(
    [
        [[8.0, 9.0, 12.0], [-1.0, 0.0, 3.0]],
        [[5.0, 4.0, 6.0], [9.0, 1.0, 0.0]],
    ]
)


@pytest.fixture
def result() -> dict:
    metrics = ForecastMetrics((0.1, 0.5, 0.9), horizon=2)
    metrics.update(ACTUAL, FORECAST)
    return metrics.result()


def test_quantile_loss_by_hand():
    # Below the forecast of 0.9 by 2: (0.9 - 1) * -2; above that of 0.1 by 2: 0.1 * 2.
    losses = quantile_loss(np.array([10.0]), np.array([[8.0, 10.0, 12.0]]), (0.1, 0.5, 0.9))
    np.testing.assert_allclose(losses, [[0.2, 0.0, 0.2]])


def test_over_all_cells(result):
    assert result["cells"] == 3
    # 0.1: 0.1*2, 0.9*1, 0.9*1; 0.5: 0.5*1, 0.5*2, 0; 0.9: 0.1*2, 0.1*5, 0.1*2.
    assert result["quantile_loss"] == pytest.approx({"0.1": 2 / 3, "0.5": 0.5, "0.9": 0.3})
    # Twice the sums over |10| + |-2| + |4|.
    assert result["q_risk"] == pytest.approx({"0.1": 4 / 16, "0.5": 3 / 16, "0.9": 1.8 / 16})
    assert result["mae"] == pytest.approx((1 + 2 + 0) / 3)
    assert result["rmse"] == pytest.approx(np.sqrt((1 + 4 + 0) / 3))
    assert result["smape"] == pytest.approx((2 * 1 / 19 + 2 * 2 / 2 + 0) / 3)
    # 10 in [8, 12]; -2 not in [-1, 3]; 4 not in [5, 6].
    assert result["coverage"] == pytest.approx(1 / 3)
    # Only the third cell (5, 4, 6) crosses among those that count.
    assert result["crossing"] == pytest.approx(1 / 3)


def test_for_each_step(result):
    first, second = result["steps"]
    assert (first["step"], first["cells"]) == (1, 2)
    assert (second["step"], second["cells"]) == (2, 1)
    assert first["mae"] == pytest.approx(0.5)
    assert second["mae"] == pytest.approx(2.0)
    assert second["q_risk"]["0.5"] == pytest.approx(2 * 1 / 2)
    assert first["crossing"] == pytest.approx(0.5)
    assert second["coverage"] == 0.0


def test_batches_add_up(result):
    metrics = ForecastMetrics((0.1, 0.5, 0.9), horizon=2)
    metrics.update(ACTUAL[:1], FORECAST[:1])
    metrics.update(ACTUAL[1:], FORECAST[1:])
    assert metrics.result() == result


def test_a_point_forecast_stands_for_every_quantile_and_has_no_interval():
    metrics = ForecastMetrics((0.1, 0.9), horizon=1, point=True)
    metrics.update(np.array([[3.0]]), np.array([[1.0]]))
    result = metrics.result()
    assert result["quantile_loss"] == pytest.approx({"0.1": 0.2, "0.9": 1.8})
    assert result["mae"] == 2.0
    assert result["coverage"] is None
    assert result["crossing"] is None


def test_the_quantile_nearest_to_the_middle_is_the_median():
    metrics = ForecastMetrics((0.05, 0.4, 0.95), horizon=1)
    metrics.update(np.array([[3.0]]), np.array([[[0.0, 2.0, 9.0]]]))
    assert metrics.result()["mae"] == 1.0


def test_both_zero_is_no_symmetric_error():
    metrics = ForecastMetrics((0.5,), horizon=1)
    metrics.update(np.array([[0.0]]), np.array([[[0.0]]]))
    result = metrics.result()
    assert result["smape"] == 0.0
    assert result["q_risk"] == {"0.5": None}


def test_nothing_to_measure_gives_none_not_nan():
    metrics = ForecastMetrics((0.1, 0.9), horizon=2)
    metrics.update(np.full((3, 2), NAN), np.zeros((3, 2, 2)))
    result = metrics.result()
    assert result["cells"] == 0
    for name in ("mae", "rmse", "smape", "coverage", "crossing"):
        assert result[name] is None


def test_table_is_aligned_and_has_every_forecast_and_step(result):
    point = ForecastMetrics((0.1, 0.5, 0.9), horizon=2, point=True)
    point.update(ACTUAL, np.zeros((2, 2)))
    lines = table("test", {"model": result, "last value": point.result()}).splitlines()
    assert lines[0] == "test: 3 values"
    assert lines[1].split()[:4] == ["step", "forecast", "loss", "0.1"]
    assert lines[1].split()[-5:] == ["MAE", "RMSE", "SMAPE", "coverage", "crossing"]
    names = [(line.split()[0], " ".join(line.split()[1:3])) for line in lines[2:]]
    assert [step for step, _ in names] == ["all", "all", "1", "1", "2", "2"]
    assert lines[3].split()[-2:] == ["-", "-"]
    # The column's numbers end where its title ends.
    end = lines[1].index("MAE") + 3
    assert lines[2][:end].split()[-1] == "1" and lines[2][end] == " "
    without = table("test", {"model": result}, steps=False).splitlines()
    assert len(without) == 3
