"""The callback that makes a run durable: at each epoch's end, its whole state."""

from __future__ import annotations

import time

import tf_keras as keras

from tft_keras.training.averaging import averaged
from tft_keras.training.run import Run
from tft_keras.training.state import TrainingState


class StateSaver(keras.callbacks.Callback):
    """Saves the state of training after each epoch and ends training when it is over.

    A process that is killed at any moment finds, when it goes on, the last whole checkpoint; the
    metrics file is written from the state in it, so no epoch is missing there or written twice.
    Early stopping is decided here, since its count is part of the state.

    Args:
        run: where to save.
        state: of the training so far.
    """

    def __init__(self, run: Run, state: TrainingState) -> None:
        super().__init__()
        self._run = run
        self.state = state

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        metrics["learning_rate"] = float(keras.backend.get_value(self.model.optimizer.lr))
        metrics["seconds"] = round(time.monotonic() - self._began, 3)
        self.state = self.state.after_epoch(metrics)
        with averaged(self.model):
            self._run.checkpoints.save(self.model, self.state)
        self._run.write_metrics(self.state)
        training = self._run.config.training
        if self.state.is_over(training.epochs, training.early_stopping_patience):
            self.model.stop_training = True
