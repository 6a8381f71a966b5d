"""Which epoch is the best one, and when training is over."""

from __future__ import annotations

import json

from tft_keras.training.state import TrainingState


def _after(*losses: float | None) -> TrainingState:
    state = TrainingState()
    for loss in losses:
        state = state.after_epoch({"loss": 1.0} | ({} if loss is None else {"val_loss": loss}))
    return state


def test_the_lowest_validation_loss_is_the_best():
    state = _after(0.5, 0.3, 0.4, 0.3)
    assert (state.epoch, state.best_epoch, state.best_loss) == (4, 2, 0.3)
    assert state.epochs_without_better == 2


def test_without_validation_the_last_epoch_is_the_best():
    state = _after(None, None, None)
    assert (state.epoch, state.best_epoch, state.epochs_without_better) == (3, 3, 0)


def test_history_has_every_epoch_once():
    assert [metrics["epoch"] for metrics in _after(0.5, 0.3).history] == [1, 2]
    assert _after(0.5).history[0] == {"epoch": 1, "loss": 1.0, "val_loss": 0.5}


def test_over_after_all_epochs_or_without_a_better_one_for_long():
    state = _after(0.3, 0.4, 0.5)
    assert not state.is_over(epochs=4, patience=0)
    assert state.is_over(epochs=3, patience=0)
    assert state.is_over(epochs=9, patience=2)
    assert not state.is_over(epochs=9, patience=3)


def test_round_trip_through_json():
    for state in (TrainingState(), _after(0.5, 0.3, 0.4)):
        assert TrainingState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
