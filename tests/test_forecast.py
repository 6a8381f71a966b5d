"""Forecasts in the target's own units, with the table's own times and names."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow.compute as pc
import pytest

from tests import runs
from tft_keras.data import forecast_windows
from tft_keras.data.forecasts import forecast_batches
from tft_keras.errors import InputError
from tft_keras.forecast import forecast

tiny_run = runs.tiny_run


def test_one_row_per_series_and_step(tiny_run):
    table = runs.future_table()
    result = forecast(tiny_run, table)
    assert result.column_names == ["store", "day", "step", "q0.1", "q0.5", "q0.9"]
    assert result["store"].to_pylist() == ["north"] * 3 + ["south"] * 3
    assert result["step"].to_pylist() == [1, 2, 3] * 2
    assert result.schema.field("day").type == table.schema.field("day").type
    first = datetime.date(2024, 1, 1) + datetime.timedelta(days=37)
    assert result["day"].to_pylist() == [first + datetime.timedelta(days=d) for d in range(3)] * 2


def test_values_are_in_the_targets_units(tiny_run):
    table = runs.future_table()
    result = forecast(tiny_run, table)
    windows = forecast_windows(table, tiny_run.preprocessing())
    inputs, _ = windows.gather(np.arange(2))
    scaled = tiny_run.model()(inputs).numpy() + windows.preprocessing.calibration.offsets
    scaled = np.sort(scaled, axis=-1)
    # Undone by hand: a line through two points that the windows themselves give.
    zero, one = (windows.unscale(np.arange(2), np.full((2, 3, 3), v)) for v in (0.0, 1.0))
    expected = zero + scaled * (one - zero)
    for index, name in enumerate(("q0.1", "q0.5", "q0.9")):
        np.testing.assert_allclose(result[name].to_numpy(), expected[..., index].ravel(), rtol=1e-5)
    assert 5 < np.median(result["q0.5"].to_numpy()) < 50


def test_batches_do_not_matter(tiny_run):
    windows = runs.prepared().test
    whole = np.concatenate(
        [f for _, f in forecast_batches(tiny_run.model().predict_on_batch, windows, 1000)]
    )
    parts = list(forecast_batches(tiny_run.model().predict_on_batch, windows, 10))
    assert np.concatenate([p for p, _ in parts]).tolist() == list(range(len(windows)))
    np.testing.assert_allclose(np.concatenate([f for _, f in parts]), whole, rtol=1e-5)


def test_a_series_never_seen_is_forecast_too(tiny_run):
    with pytest.warns(UserWarning, match="'store' has categories.*'east', in 1 of 2 series"):
        result = forecast(tiny_run, runs.future_table(("east", "north")))
    assert result["store"].to_pylist() == ["east"] * 3 + ["north"] * 3
    assert np.isfinite(result["q0.5"].to_numpy()).all()


def test_known_inputs_missing_over_the_horizon_are_an_error(tiny_run):
    table = runs.future_table().filter(pc.less(pc.field("day"), datetime.date(2024, 2, 8)))
    with pytest.raises(InputError, match=r"promotion, weekday.*Received: .*store='north'"):
        forecast(tiny_run, table)


def test_other_quantiles_lie_between_those_trained(tiny_run):
    table = runs.future_table()
    trained = forecast(tiny_run, table)
    low, middle = (trained[name].to_numpy() for name in ("q0.1", "q0.5"))
    result = forecast(tiny_run, table, quantiles=(0.5, 0.2, 0.9))
    assert result.column_names[3:] == ["q0.2", "q0.5", "q0.9"]
    np.testing.assert_allclose(result["q0.2"].to_numpy(), low + (middle - low) / 4, rtol=1e-6)
    for name in ("q0.5", "q0.9"):
        np.testing.assert_array_equal(result[name].to_numpy(), trained[name].to_numpy())
    with pytest.raises(InputError, match=r"trained, 0\.1 and 0\.9\. Received: 0\.95\."):
        forecast(tiny_run, table, quantiles=(0.5, 0.95))
