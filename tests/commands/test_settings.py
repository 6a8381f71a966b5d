"""A run's own config as a file of settings."""

from __future__ import annotations

from tft_keras.commands import settings


def test_a_run_of_before_trains_the_same_once_more():
    """What its config lacks was not done then, whatever the defaults are now."""
    content = {"data": {"scaling": "robust"}, "training": {"epochs": 3}, "source": "sales.parquet"}
    assert settings.flatten(content) == {
        **{"scaling": "robust", "calendar": "none", "lags": "none"},
        **{"epochs": 3, "weight_averaging": 0.0, "calibrate": False},
        "parquet_file": "sales.parquet",
    }
