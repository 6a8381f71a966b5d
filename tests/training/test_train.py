"""Training from start to end, and going on after being stopped anywhere."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests import runs
from tft_keras import atomic
from tft_keras.errors import InputError
from tft_keras.training import NonFiniteLossError, Run, train
from tft_keras.training.checkpoints import load_weights

tiny_model = runs.tiny_model

pytestmark = pytest.mark.usefixtures("tiny_model")


@pytest.fixture(scope="module")
def data():
    return runs.prepared()


class Stopped(BaseException):
    """Stands for the end of the process."""


class StopAt(keras.callbacks.Callback):
    """Stops in the middle of an epoch."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__()
        self._at = (epoch, batch)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self._epoch, batch) == self._at:
            raise Stopped


def _train(run: Run, data, **options) -> list[np.ndarray]:
    return train(run, data, **options).get_weights()


def _metrics(run: Run) -> list[dict]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def _names(run: Run) -> set[str]:
    return {path.name for path in run.checkpoints.folder.iterdir()}


def _assert_same(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_run_folder_holds_everything(tmp_path, data):
    run = runs.new_run(tmp_path, data)
    weights = _train(run, data)
    assert {p.name for p in tmp_path.iterdir()} == {
        *("config.json", "preprocessing.json", "metrics.jsonl", "logs", "checkpoints")
    }
    metrics = _metrics(run)
    assert [m["epoch"] for m in metrics] == [1, 2, 3]
    assert all({"loss", "val_loss", "learning_rate", "seconds"} < set(m) for m in metrics)
    best = 1 + int(np.argmin([m["val_loss"] for m in metrics]))
    assert _names(run) == {f"tft_epoch_{best}", "tft_epoch_3", f"tft_final_epoch_{best}"}
    opened = Run.open(tmp_path)
    assert opened.config == run.config
    uncalibrated = dataclasses.replace(opened.preprocessing(), calibration=None)
    assert uncalibrated == data.preprocessing
    _assert_same(opened.model().get_weights(), weights)


def test_same_seed_same_weights_another_seed_others(tmp_path, data):
    first, second, other = (
        _train(runs.new_run(tmp_path / name, data, seed=seed, epochs=1), data)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    _assert_same(first, second)
    assert np.abs(first[1] - other[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("at", "decay"), [((0, 1), "constant"), ((1, 2), "cosine"), ((2, 0), "cosine")]
)
def test_resuming_in_the_middle_of_an_epoch(tmp_path, data, at, decay):
    expected = _train(runs.new_run(tmp_path / "whole", data, learning_rate_decay=decay), data)
    stopped = runs.new_run(tmp_path / "stopped", data, learning_rate_decay=decay)
    with pytest.raises(Stopped):
        train(stopped, data, callbacks=[StopAt(*at)])
    _assert_same(_train(Run.open(stopped.path), data), expected)
    assert [m["epoch"] for m in _metrics(stopped)] == [1, 2, 3]


def test_resuming_after_a_stop_before_any_renaming(tmp_path, data, monkeypatch):
    whole = runs.new_run(tmp_path / "whole", data, epochs=2)
    with monkeypatch.context() as patch:
        renamings = _count_renamings(patch)
        expected = _train(whole, data)
    # A checkpoint and the metrics of each epoch, and the final weights, at least.
    assert len(renamings) >= 5
    for stop in range(len(renamings)):
        stopped = runs.new_run(tmp_path / f"stopped{stop}", data, epochs=2)
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            _stop_before(patch, stop)
            train(stopped, data)
        resumed = Run.open(stopped.path)
        _assert_same(_train(resumed, data), expected)
        for ours, theirs in zip(_metrics(resumed), _metrics(whole), strict=True):
            assert ours | {"seconds": 0} == theirs | {"seconds": 0}
        assert _names(resumed) == _names(whole)


def _count_renamings(patch: pytest.MonkeyPatch) -> list[pathlib.Path]:
    rename, renamings = pathlib.Path.replace, []
    patch.setattr(
        pathlib.Path, "replace", lambda path, to: renamings.append(to) or rename(path, to)
    )
    return renamings


def _stop_before(patch: pytest.MonkeyPatch, stop: int) -> None:
    """Stops before the renaming of that number, as a kill does: nothing is tidied up."""
    rename, numbers = pathlib.Path.replace, itertools.count()

    def replace(path: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
        if next(numbers) == stop:
            raise Stopped
        return rename(path, to)

    patch.setattr(pathlib.Path, "replace", replace)
    patch.setattr(atomic, "_delete", lambda path: None)


def test_a_finished_run_may_go_on_for_more_epochs(tmp_path, data):
    constant = {"learning_rate_decay": "constant"}  # a decay depends on the number of epochs
    expected = _train(runs.new_run(tmp_path / "five", data, epochs=5, **constant), data)
    run = runs.new_run(tmp_path / "two", data, epochs=2, **constant)
    train(run, data)
    training = dataclasses.replace(run.config.training, epochs=5)
    run.config = dataclasses.replace(run.config, training=training)
    _assert_same(_train(run, data), expected)
    assert len(_metrics(run)) == 5


def test_training_a_finished_run_changes_nothing(tmp_path, data):
    run = runs.new_run(tmp_path, data)
    weights, metrics = _train(run, data), _metrics(run)
    _assert_same(_train(run, data), weights)
    assert _metrics(run) == metrics


@pytest.fixture
def overshooting(tmp_path, data):
    """Settings under which the validation loss soon rises."""
    return {
        "epochs": 30,
        "early_stopping_patience": 3,
        "learning_rate": 0.3,
        "learning_rate_decay": "constant",
        "weight_averaging": 0.0,
    }


def test_early_stopping_keeps_the_best_weights(tmp_path, data, overshooting):
    run = runs.new_run(tmp_path, data, **overshooting)
    weights = _train(run, data)
    losses = [m["val_loss"] for m in _metrics(run)]
    best = 1 + int(np.argmin(losses))
    assert len(losses) == best + 3 < 30
    assert _names(run) == {f"tft_epoch_{best}", f"tft_epoch_{best + 3}", f"tft_final_epoch_{best}"}
    model = runs.model_building.build_model(run.config)
    load_weights(run.checkpoints.path(best), model)
    _assert_same(model.get_weights(), weights)


def test_the_early_stopping_count_survives_a_stop(tmp_path, data, overshooting):
    whole = runs.new_run(tmp_path / "whole", data, **overshooting)
    expected = _train(whole, data)
    last = len(_metrics(whole))
    stopped = runs.new_run(tmp_path / "stopped", data, **overshooting)
    with pytest.raises(Stopped):
        train(stopped, data, callbacks=[StopAt(last - 1, 0)])
    _assert_same(_train(stopped, data), expected)
    assert len(_metrics(stopped)) == last


def test_early_stopping_needs_a_validation_split(tmp_path):
    data = runs.prepared(data=dataclasses.replace(runs.DATA, validation=0.0))
    run = runs.new_run(tmp_path, data, early_stopping_patience=2)
    with pytest.raises(InputError, match=r"early_stopping_patience=2, validation=0\.0"):
        train(run, data)


def test_without_validation_the_last_weights_are_final(tmp_path):
    data = runs.prepared(data=dataclasses.replace(runs.DATA, validation=0.0))
    run = runs.new_run(tmp_path, data)
    train(run, data)
    assert _names(run) == {"tft_epoch_3", "tft_final_epoch_3"}
    assert "val_loss" not in _metrics(run)[0]


class Spoil(keras.callbacks.Callback):
    """Sets a weight to NaN after a step."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__()
        self._at = (epoch, batch)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self._epoch, batch) == self._at:
            self.model.bias.assign(self.model.bias * np.nan)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (1, r"Received: loss=nan at epoch 3, step 3\. Lower"),
        # After the last step there is no more loss; the weights themselves are looked at.
        (3, r"Received: non-finite values in .*bias.* at epoch 3, step 4\."),
    ],
)
def test_a_loss_that_is_not_finite_stops_at_its_step(tmp_path, data, batch, message):
    run = runs.new_run(tmp_path, data, epochs=5)
    with pytest.raises(NonFiniteLossError, match=message):
        train(run, data, callbacks=[Spoil(2, batch)])
    assert run.checkpoints.last() == 2
    assert [m["epoch"] for m in _metrics(run)] == [1, 2]
    model = runs.model_building.build_model(run.config)
    load_weights(run.checkpoints.path(2), model)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_an_infinite_learning_rate_is_noticed(tmp_path, data):
    run = runs.new_run(tmp_path, data, learning_rate=3e38)
    with pytest.raises(NonFiniteLossError, match=r"loss=(inf|nan) at epoch 1, step [23]\."):
        train(run, data)
    assert run.checkpoints.last() is None


def test_cosine_decay_goes_down_to_zero(tmp_path, data):
    run = runs.new_run(tmp_path, data, learning_rate_decay="cosine")
    train(run, data)
    rates = [m["learning_rate"] for m in _metrics(run)]
    # 4 steps an epoch; Keras reports the rate of the last step taken, the first being number 0.
    expected = [5e-3 * 0.5 * (1 + np.cos(np.pi * step / 12)) for step in (3, 7, 11)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_events_for_tensorboard_are_there_once(tmp_path, data):
    run = runs.new_run(tmp_path, data)
    with pytest.raises(Stopped):
        train(run, data, callbacks=[StopAt(2, 0)])
    train(run, data)
    for folder, tags in (
        ("train", {"epoch_loss", "epoch_learning_rate", "epoch_seconds", "epoch_epoch"}),
        ("validation", {"epoch_loss"}),
    ):
        (file,) = (run.logs / folder).iterdir()
        events = [
            (event.step, value.tag, tf.make_ndarray(value.tensor).item())
            for event in tf.compat.v1.train.summary_iterator(str(file))
            for value in event.summary.value
        ]
        assert {tag for _, tag, _ in events} == tags
        losses = [(step, value) for step, tag, value in events if tag == "epoch_loss"]
        name = "loss" if folder == "train" else "val_loss"
        expected = [(m["epoch"], m[name]) for m in _metrics(run)]
        np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_training_on_never_ends_with_worse_weights(data, tmp_path):
    first = runs.new_run(tmp_path / "first", data)
    before = _train(first, data)
    config = dataclasses.replace(
        runs.run_config(data, dataclasses.replace(runs.TRAINING, learning_rate=10.0)),
        load_model=str(first.path),
    )
    second = Run.create(tmp_path / "second", config, data.preprocessing)
    after = _train(second, data)
    state = second.checkpoints.state(second.checkpoints.last())
    assert (state.epoch, state.best_epoch) == (3, 0)
    assert state.best_loss < min(metrics["val_loss"] for metrics in state.history)
    # all but the counter of calls
    for one, two in zip(before[1:], after[1:], strict=True):
        np.testing.assert_array_equal(one, two)
