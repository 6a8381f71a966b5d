"""Averaged weights and calibrated quantiles of a run."""

from __future__ import annotations

import numpy as np
import pytest

from tests import runs
from tft_keras.data.forecasts import forecast_batches
from tft_keras.evaluation import evaluate
from tft_keras.training import Run, train

tiny_model = runs.tiny_model
pytestmark = pytest.mark.usefixtures("tiny_model")


@pytest.fixture(scope="module")
def data():
    return runs.prepared()


def _losses(run: Run, name: str) -> list[float]:
    state = run.checkpoints.state(run.checkpoints.last())
    return [metrics[name] for metrics in state.history]


def test_averaging_changes_what_is_validated_not_what_is_trained(tmp_path, data):
    losses = {}
    for momentum in (0.0, 0.9):
        run = runs.new_run(tmp_path / str(momentum), data, weight_averaging=momentum)
        train(run, data)
        losses[momentum] = [_losses(run, name) for name in ("loss", "val_loss")]
    np.testing.assert_array_equal(losses[0.0][0], losses[0.9][0])
    assert (np.array(losses[0.0][1]) != losses[0.9][1]).all()


def test_the_final_weights_have_the_best_validation_loss(tmp_path, data):
    run = runs.new_run(tmp_path, data, weight_averaging=0.9)
    model = train(run, data)
    windows = data.validation.dataset(16, windows_per_epoch=run.config.training.windows_per_epoch)
    loss = model.evaluate(windows, verbose=0)
    assert loss == pytest.approx(min(_losses(run, "val_loss")), rel=1e-6)


def test_a_run_is_calibrated_on_its_validation_split(tmp_path, data):
    run = runs.new_run(tmp_path, data)
    model = train(run, data)
    assert data.preprocessing.calibration is None
    windows = data.validation
    inputs, targets = windows.gather(np.arange(len(windows)))
    forecasts = model.predict_on_batch(inputs)
    independent = max(2, len(windows) / windows.horizon)  # of two stores
    offsets = np.array(run.preprocessing().calibration.offsets)
    for step in range(windows.horizon):
        for place, quantile in enumerate(run.config.model.quantiles):
            differences = targets[:, step] - forecasts[:, step, place]
            expected = np.nanquantile(differences.astype(np.float64), quantile)
            expected *= independent / (independent + 10)
            assert offsets[step, place] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_forecasts_are_calibrated(tmp_path, data):
    run = runs.new_run(tmp_path, data)
    model = train(run, data)
    windows = runs.prepared().test
    calibrated = run.preprocessing()
    result = evaluate(run, runs.sales_table(), ("test",))["test"]["model"]
    positions = np.arange(len(windows))
    inputs, _ = windows.gather(positions)
    offsets = np.array(calibrated.calibration.offsets)
    forecast = np.sort(model.predict_on_batch(inputs).astype(np.float64) + offsets, axis=-1)
    forecast = windows.unscale(positions, forecast)
    actual = windows.actuals(positions)
    assert result["mae"] == pytest.approx(np.nanmean(np.abs(actual - forecast[..., 1])), rel=1e-6)
    # Without the run's calibration they are others.
    _, plain = next(forecast_batches(model.predict_on_batch, windows, len(windows)))
    assert np.abs(plain - forecast).max() > 1e-3


def test_it_can_be_left_out(tmp_path, data):
    run = runs.new_run(tmp_path, data, calibrate=False)
    train(run, data)
    assert run.preprocessing() == data.preprocessing
