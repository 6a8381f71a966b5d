"""Offsets that make shares right, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tft_keras.data.calibration import Calibration, fit_calibration

QUANTILES = (0.1, 0.5, 0.9)


def _forecasts(windows=400, horizon=3):
    """A forecast too narrow and too low, of normal targets that spread with the step."""
    generator = np.random.default_rng(0)
    targets = generator.normal(0, 1, (windows, horizon)) * np.arange(1, horizon + 1)
    forecasts = np.broadcast_to(np.array([-1.0, -0.5, 0.0]), (windows, horizon, 3))
    return forecasts.astype(np.float32), targets.astype(np.float32)


def test_shares_become_right_at_every_step():
    forecasts, targets = _forecasts()
    calibrated = fit_calibration(QUANTILES, forecasts, targets, 1e9).apply(forecasts)
    below = (targets[..., None] <= calibrated).mean(axis=0)
    # 400 windows: a quantile lies between two of them.
    np.testing.assert_allclose(below, np.tile(QUANTILES, (3, 1)), atol=1 / 400)


def test_few_windows_count_less():
    forecasts, targets = _forecasts()
    whole = np.array(fit_calibration(QUANTILES, forecasts, targets, 1e9).offsets)
    few = np.array(fit_calibration(QUANTILES, forecasts, targets, 10).offsets)
    np.testing.assert_allclose(few, whole / 2, rtol=1e-6)


def test_missing_targets_count_nowhere():
    forecasts, targets = _forecasts()
    targets[::2] = np.nan
    targets[:, 2] = np.nan
    offsets = fit_calibration(QUANTILES, forecasts, targets, 1e9).offsets
    half = fit_calibration(QUANTILES, forecasts[1::2], targets[1::2], 1e9).offsets
    np.testing.assert_array_equal(offsets, half)
    assert offsets[2] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("xp", [np, tnp])
def test_calibrated_quantiles_do_not_cross(xp):
    calibration = Calibration(((1.0, 0.0, 0.0), (0.0, 0.5, 0.25)))
    values = np.zeros((1, 2, 3), np.float32)
    found = calibration.apply(values if xp is np else tf.constant(values), xp)
    np.testing.assert_array_equal(np.asarray(found), [[[0, 0, 1], [0, 0.25, 0.5]]])


def test_it_goes_to_json_and_back():
    calibration = Calibration(((1.0, 0.0), (0.0, 0.5)))
    assert Calibration.from_dict(calibration.to_dict()) == calibration
