"""Training a run from where it is to its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tft_keras import atomic
from tft_keras.config import TrainingConfig
from tft_keras.data import PreparedData, Windows
from tft_keras.data.calibration import fit_calibration
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.averaging import AveragedWeights, averaged
from tft_keras.training.calibration import FreezeLastEpochs, prepare_observers
from tft_keras.training.checkpoints import load_weights
from tft_keras.training.event_log import EventLog
from tft_keras.training.finite_loss import FiniteLoss
from tft_keras.training.initial_weights import copy_weights, load_model
from tft_keras.training.model_building import build_model, compile_model
from tft_keras.training.run import Run
from tft_keras.training.state import TrainingState
from tft_keras.training.state_saver import StateSaver

# Of the validation split, for the calibration.
_CALIBRATION_WINDOWS = 8192


def train(
    run: Run, data: PreparedData, callbacks: Sequence[keras.callbacks.Callback] = ()
) -> TemporalFusionTransformer:
    """Trains a run from its last whole checkpoint, or from its start, to its end.

    The same settings and table give the same weights, whether or not training was stopped on the
    way, since all that a step depends on is in the checkpoint: weights, optimizer, dropout counter,
    epoch (which determines the order of the windows) and early-stopping count.

    Args:
        run: where the settings are and the results go.
        data: the run's table, prepared with the run's preprocessing.
        callbacks: more callbacks for `fit`, for example to show progress.

    Returns:
        The compiled model with the final weights: those of the lowest validation loss, those that
        it started from by `load_model` included, or of the last epoch if there is no validation
        split.

    Raises:
        InputError: the settings do not fit the data.
        NonFiniteLossError: the loss became infinite or not a number; earlier checkpoints stay.
    """
    training = run.config.training
    _check(run, data)
    steps = data.train.steps_per_epoch(training.batch_size, training.windows_per_epoch)
    keras.utils.set_random_seed(training.seed)
    model = build_model(run.config)
    compile_model(model, run.config, steps)
    state = _restore(run, data, model)
    if not state.is_over(training.epochs, training.early_stopping_patience):
        state = _fit(run, data, model, state, steps, callbacks)
    load_weights(run.checkpoints.path(state.best_epoch), model)
    if training.calibrate and len(data.validation):
        _calibrate(run, data.validation, model)
    run.checkpoints.save_final(model, state.best_epoch)
    return model


def _check(run: Run, data: PreparedData) -> None:
    patience = run.config.training.early_stopping_patience
    if patience and not len(data.validation):
        raise InputError(
            "Early stopping needs windows in the validation split. Received: "
            f"early_stopping_patience={patience}, validation={run.config.data.validation!r}."
        )


def _restore(run: Run, data: PreparedData, model: TemporalFusionTransformer) -> TrainingState:
    atomic.remove_leftovers(run.path)
    atomic.remove_leftovers(run.checkpoints.folder)
    last = run.checkpoints.last()
    if last is not None:
        with averaged(model):
            state = run.checkpoints.restore(model, last)
        # The process may have ended between writing this checkpoint and what follows from it.
        run.checkpoints.prune(state)
        run.write_metrics(state)
        return state
    state = TrainingState()
    training = run.config.training
    if run.config.load_model:
        copy_weights(load_model(run.config.load_model), model)
    if training.use_qat:
        prepare_observers(model, training, data.train)
    model.optimizer.start_averages()
    if run.config.load_model and len(data.validation):
        # The weights that training starts from are its epoch 0: it never ends with worse ones.
        windows = _validation(data, training)["validation_data"]
        loss = model.evaluate(windows, verbose=0)
        state = dataclasses.replace(state, best_loss=float(loss))
    if run.config.load_model or training.use_qat:
        # So that going on depends on no file outside the run, and need not calibrate again.
        run.checkpoints.save(model, state)
    return state


def _fit(
    run: Run,
    data: PreparedData,
    model: TemporalFusionTransformer,
    state: TrainingState,
    steps: int,
    callbacks: Sequence[keras.callbacks.Callback],
) -> TrainingState:
    training = run.config.training
    windows = data.train.dataset(
        training.batch_size,
        shuffle_seed=training.seed,
        first_epoch=state.epoch,
        epochs=training.epochs - state.epoch,
        windows_per_epoch=training.windows_per_epoch,
    )
    saver = StateSaver(run, state)
    if training.freeze_last_epochs:
        callbacks = [FreezeLastEpochs(training), *callbacks]
    model.fit(
        windows,
        initial_epoch=state.epoch,
        epochs=training.epochs,
        steps_per_epoch=steps,
        callbacks=[FiniteLoss(), AveragedWeights(), saver, EventLog(run.logs, saver), *callbacks],
        verbose=0,
        **_validation(data, training),
    )
    return saver.state


def _calibrate(run: Run, windows: Windows, model: TemporalFusionTransformer) -> None:
    """Fits the calibration on windows evenly spaced over the validation split."""
    forecasts, targets = [], []
    for inputs, part in windows.batches(256, windows_per_epoch=_CALIBRATION_WINDOWS):
        forecasts.append(model.predict_on_batch(inputs))
        targets.append(part)
    independent = max(windows.series_count(), len(windows) / windows.horizon)
    calibration = fit_calibration(
        run.config.model.quantiles, np.concatenate(forecasts), np.concatenate(targets), independent
    )
    run.write_preprocessing(dataclasses.replace(run.preprocessing(), calibration=calibration))


def _validation(data: PreparedData, training: TrainingConfig) -> dict[str, Any]:
    if not len(data.validation):
        return {}
    # A short epoch shall not be followed by a long validation; these windows are evenly spaced.
    windows = data.validation.dataset(
        training.batch_size, windows_per_epoch=training.windows_per_epoch
    )
    return {"validation_data": windows}
