"""Stops training as soon as the loss is not a number any more."""

from __future__ import annotations

import math

import numpy as np
import tf_keras as keras

from tft_keras.errors import InputError


class NonFiniteLossError(InputError):
    """Training came to a loss or to weights that are infinite or not a number."""


class FiniteLoss(keras.callbacks.Callback):
    """Raises `NonFiniteLossError` at the first step whose loss is infinite or not a number.

    Keras reports the mean loss of the epoch so far, which stays non-finite from that step on, so
    that looking at the number it hands out anyway is enough and costs nothing. A step can also
    spoil the weights without showing it in its own loss: they are looked at once an epoch, before
    a checkpoint is written. So this callback must come before the one that saves.
    """

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch = epoch + 1
        self._step = 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._step = batch + 1
        self._check("loss", logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        for weight in self.model.weights:
            value = np.asarray(weight)
            if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
                raise self._error(f"non-finite values in {weight.name}")
        self._check("val_loss", logs)

    def _check(self, name: str, logs: dict[str, float] | None) -> None:
        loss = (logs or {}).get(name, 0.0)
        if not math.isfinite(loss):
            raise self._error(f"{name}={loss}")

    def _error(self, received: str) -> NonFiniteLossError:
        return NonFiniteLossError(
            f"Training needs a finite loss. Received: {received} at epoch {self._epoch}, step "
            f"{self._step}. Lower the learning rate or max_gradient_norm, or look for extreme "
            "values in the table; checkpoints of earlier epochs are untouched."
        )
