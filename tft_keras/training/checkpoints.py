"""The checkpoints of a run: whole training states, and the final weights."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tft_keras import atomic
from tft_keras.errors import InputError
from tft_keras.training.state import TrainingState

_EPOCH = "tft_epoch_"
_FINAL = "tft_final_epoch_"
_VARIABLES = "variables"
_WEIGHTS_LIST = "weights.json"
_STATE = "state.json"


class Checkpoints:
    """A folder with `tft_epoch_{N}` and `tft_final_epoch_{N}`, each written atomically.

    `tft_epoch_{N}` holds everything after N epochs: weights, the optimizer's variables and the
    `TrainingState`. `tft_final_epoch_{N}` holds the weights that a finished run forecasts with.
    Each lists its weights by name and shape, so that loading into another model says what differs.

    Args:
        folder: where they are; made when the first one is saved.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def path(self, epoch: int) -> pathlib.Path:
        """Folder of the whole state after `epoch` epochs."""
        return self.folder / f"{_EPOCH}{epoch}"

    def epochs(self) -> list[int]:
        """Epochs whose whole state is there, rising."""
        return self._numbers(_EPOCH)

    def last(self) -> int | None:
        """The latest epoch whose whole state is there."""
        return max(self.epochs(), default=None)

    def final(self) -> pathlib.Path | None:
        """Folder of the final weights, if training has finished."""
        epoch = max(self._numbers(_FINAL), default=None)
        return None if epoch is None else self.folder / f"{_FINAL}{epoch}"

    def save(self, model: keras.Model, state: TrainingState) -> pathlib.Path:
        """Saves the whole state, then removes all states but the best and this one.

        Args:
            model: a compiled model.
            state: its training state.
        """
        path = self.path(state.epoch)
        with atomic.replacing(path) as temporary:
            temporary.mkdir()
            _write(temporary, model, model.optimizer)
            (temporary / _STATE).write_text(json.dumps(state.to_dict(), indent=1))
        self.prune(state)
        return path

    def prune(self, state: TrainingState) -> None:
        """Removes all states but the best and the last one."""
        for epoch in set(self.epochs()) - {state.best_epoch, state.epoch}:
            atomic.remove(self.path(epoch))

    def restore(self, model: keras.Model, epoch: int) -> TrainingState:
        """Loads weights and optimizer of `epoch` into a compiled model; returns the state."""
        path = self.path(epoch)
        _read(path, model, model.optimizer)
        return self.state(epoch)

    def state(self, epoch: int) -> TrainingState:
        """Returns the training state saved after `epoch` epochs."""
        return TrainingState.from_dict(json.loads((self.path(epoch) / _STATE).read_text()))

    def save_final(self, model: keras.Model, epoch: int) -> pathlib.Path:
        """Saves the model's weights as those of the finished run, taken from `epoch`."""
        path = self.folder / f"{_FINAL}{epoch}"
        if not path.exists():
            with atomic.replacing(path) as temporary:
                temporary.mkdir()
                _write(temporary, model)
        for other in set(self._numbers(_FINAL)) - {epoch}:
            atomic.remove(self.folder / f"{_FINAL}{other}")
        return path

    def _numbers(self, prefix: str) -> list[int]:
        pattern = re.compile(re.escape(prefix) + r"(\d+)")
        found = [pattern.fullmatch(path.name) for path in self.folder.glob(f"{prefix}*")]
        return sorted(int(match[1]) for match in found if match)


def load_weights(path: pathlib.Path, model: keras.Model) -> None:
    """Loads the weights of any checkpoint into a model of the same architecture.

    Raises:
        InputError: the model's weights have other names or shapes.
    """
    _read(path, model)


def _write(
    folder: pathlib.Path, model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None
) -> None:
    _tracked(model, optimizer).write(str(folder / _VARIABLES))
    (folder / _WEIGHTS_LIST).write_text(json.dumps(_listed(model), indent=1))


def _read(
    folder: pathlib.Path, model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None
) -> None:
    stored = json.loads((folder / _WEIGHTS_LIST).read_text())
    for ours, theirs in zip(_listed(model), stored, strict=False):
        if ours != theirs:
            raise InputError(
                "A checkpoint loads into a model of the same architecture. Received: "
                f"{folder} with {theirs['name']} of shape {theirs['shape']} where the model has "
                f"{ours['name']} of shape {ours['shape']}."
            )
    if len(stored) != len(model.weights):
        raise InputError(
            "A checkpoint loads into a model of the same architecture. Received: "
            f"{folder} with {len(stored)} weights where the model has {len(model.weights)}."
        )
    status = _tracked(model, optimizer).read(str(folder / _VARIABLES))
    status.assert_existing_objects_matched().expect_partial()


def _tracked(
    model: keras.Model, optimizer: keras.optimizers.Optimizer | None
) -> tf.train.Checkpoint:
    # Not the model itself: a compiled model would bring its optimizer into the final weights.
    parts = {} if optimizer is None else {"optimizer": optimizer}
    return tf.train.Checkpoint(weights=list(model.weights), **parts)


def _listed(model: keras.Model) -> list[dict[str, Any]]:
    return [{"name": weight.name, "shape": list(weight.shape)} for weight in model.weights]
