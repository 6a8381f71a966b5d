"""Settings by the amount of data."""

from __future__ import annotations

import pytest

from tft_keras.training import suited


@pytest.mark.parametrize(
    ("windows", "epochs", "dropout"),
    [(65, 100, 0.3), (300, 40, 0.3), (6400, 10, 0.3), (14_999, 10, 0.3), (15_000, 10, 0.1)],
)
def test_few_windows_get_more_epochs_and_dropout(windows, epochs, dropout):
    found = suited(windows, validated=True)
    assert (found["epochs"], found["dropout"]) == (epochs, dropout)


def test_training_stops_early_where_it_can_be_told():
    assert suited(1000, validated=True)["early_stopping_patience"] > 0
    assert suited(1000, validated=False)["early_stopping_patience"] == 0
