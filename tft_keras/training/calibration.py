"""The phases of quantization-aware training: calibrate, freeze, and when."""

from __future__ import annotations

import warnings

import tf_keras as keras

from tft_keras import quantization
from tft_keras.config import TrainingConfig
from tft_keras.data import Windows
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer


def prepare_observers(
    model: TemporalFusionTransformer, training: TrainingConfig, windows: Windows
) -> None:
    """Brings a quantized model's observers to where training starts.

    Observers that have no ranges yet see training batches, with nothing quantized; those of a
    quantization-aware run that training starts from keep theirs. Then they are frozen if the
    settings say so.

    Args:
        model: a quantized one.
        training: the run's settings.
        windows: the training split.

    Raises:
        InputError: there is not the data to calibrate with.
    """
    if has_unseen(model):
        count = training.qat_calibration_batches
        check_calibration(training, windows)
        batches = windows.dataset(training.batch_size, shuffle_seed=training.seed)
        quantization.calibrate(model, batches, count)
    if training.freeze_qat_observers:
        model.freeze_observers()
    else:
        model.unfreeze_observers()


def has_unseen(model: TemporalFusionTransformer) -> bool:
    """Returns whether some observers never saw data."""
    return any(row["state"] == "unseen" for row in model.observer_report())


def check_calibration(training: TrainingConfig, windows: Windows) -> None:
    """Checks that observers without ranges can get them; warns of fewer batches than asked for.

    Raises:
        InputError: no batches are asked for.
    """
    count = training.qat_calibration_batches
    there = windows.steps_per_epoch(training.batch_size)
    if not count:
        raise InputError(
            "Observers must see data before they are used or frozen. Received: "
            "qat_calibration_batches=0 with observers that never saw any. Give a number of "
            "batches, or load_model with a quantization-aware run."
        )
    if count > there:
        warnings.warn(
            f"Observers are calibrated on the {there} batches of {training.batch_size} windows "
            f"that the training split has, not on qat_calibration_batches={count}.",
            UserWarning,
            stacklevel=3,
        )


class FreezeLastEpochs(keras.callbacks.Callback):
    """Freezes the observers for the last epochs of a training.

    Args:
        training: the run's settings.
    """

    def __init__(self, training: TrainingConfig) -> None:
        super().__init__()
        self._first = training.epochs - training.freeze_last_epochs

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if epoch >= self._first:
            self.model.freeze_observers()
        if epoch == self._first:
            # Traced anew: a step with frozen observers takes fewer passes over memory, and a run
            # that is resumed here must compute the same.
            self.model.make_train_function(force=True)
