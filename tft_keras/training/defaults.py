"""What settings suit a table where none are given; docs/accuracy.md tells how they were chosen."""

from __future__ import annotations

from typing import Any

from tft_keras.config import TrainingConfig

# Below so many training windows, dropout is the higher.
_FEW_WINDOWS = 15_000
_LEAST_STEPS = 200
_MOST_EPOCHS = 100
_PATIENCE = 5


def suited(windows: int, validated: bool) -> dict[str, Any]:
    """Returns settings of model and training by the amount of data.

    Few windows are soon learned by heart: they get more dropout, and so many epochs that the
    steps suffice. Training stops when the validation loss has not become better for some epochs.

    Args:
        windows: of the training split.
        validated: whether there are windows of the validation split.
    """
    training = TrainingConfig()
    epoch = min(windows, training.windows_per_epoch or windows)
    steps = -(-epoch // training.batch_size)
    return {
        "hidden_size": 16,
        "dropout": 0.3 if windows < _FEW_WINDOWS else 0.1,
        "epochs": min(max(training.epochs, -(-_LEAST_STEPS // steps)), _MOST_EPOCHS),
        "early_stopping_patience": _PATIENCE if validated else 0,
    }
