"""Training again, in a stronger tier of gradient checkpointing, when memory runs out."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from tft_keras.apart import run_apart
from tft_keras.errors import InputError
from tft_keras.step_memory import MemoryLine
from tft_keras.tiers import TIERS

_TIERS = tuple(TIERS)  # each stronger than the one before
_MEGABYTE = 2**20
# Shares of the batch that did not fit, to be measured.
_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
# What else goes on in a process, and when, is never quite the same.
_SAFE = 0.9


class OutOfMemoryError(InputError):
    """Training does not fit into memory, in no tier of gradient checkpointing."""


def train_with_retry(attempt: Callable[[str | None], Any], run_path: str | os.PathLike[str]) -> Any:
    """Trains in a process of its own; in the next stronger tier each time memory runs out.

    Memory has run out when a step fails with `ResourceExhaustedError`, when an allocation of the
    interpreter or of native code fails, or when the process is killed (signal 9). This process
    itself does not import TensorFlow, so that little memory is taken from the one that trains.

    Args:
        attempt: called with `None`, makes the run or opens it, and trains; called with a tier, it
            trains on in that tier from the last checkpoint, and writes the tier to the run's
            config. Runs in a process of its own, so it must be importable by its name.
        run_path: folder of the run.

    Returns:
        What the attempt that came through returned.

    Raises:
        OutOfMemoryError: `full` has failed too. Tells what it needs and which batch size fits.
        ProcessError: an attempt ended in another way.
    """
    chosen = None
    while True:
        ending = run_apart(attempt, chosen)
        if not ending.shortage:
            ending.check()
            return ending.values[0]
        training = _training_settings(pathlib.Path(run_path))
        if not training:
            raise OutOfMemoryError(
                f"Memory ran out before training began ({ending.shortage}). A table that does not "
                "fit into memory is read from a memory-mapped copy: name its folder by --cache."
            )
        failed = training["gradient_checkpointing"]
        if failed == _TIERS[-1]:
            raise _error(training["batch_size"], ending.shortage, run_path)
        chosen = _TIERS[_TIERS.index(failed) + 1]
        warnings.warn(
            f"training ran out of memory with gradient_checkpointing={failed} ({ending.shortage}); "
            f"going on from the last checkpoint with gradient_checkpointing={chosen}",
            UserWarning,
            stacklevel=2,
        )


def _training_settings(run_path: pathlib.Path) -> dict[str, Any]:
    """Returns the training settings of a run; none if there is no run yet."""
    config = run_path / "config.json"
    return json.loads(config.read_text(encoding="utf-8"))["training"] if config.exists() else {}


def _error(batch_size: int, shortage: str, run_path: str | os.PathLike[str]) -> OutOfMemoryError:
    """Trains with smaller batches until they do not fit either, and returns what this tells."""
    sizes = sorted({round(share * batch_size) for share in _SHARES} - {0, batch_size})
    needs: dict[int, int] = {}
    for size in sizes:
        trial = run_apart(try_batch_size, str(run_path), size)
        if not trial.values:
            break
        needs[size] = trial.values[0]
    rule = f"Training does not fit into memory in any tier of gradient checkpointing ({shortage})."
    received = f"Received: batch_size={batch_size}"
    if not needs:
        tried = f"{sizes[0]} does not fit either" if sizes else "there is no smaller one"
        return OutOfMemoryError(
            f"{rule} {received}; {tried}. Make the model or its windows smaller."
        )
    safe = max(int(_SAFE * max(needs)), 1)
    return OutOfMemoryError(
        f"{rule} {received}, {_in_words(needs, batch_size)}. A batch size of {safe} fits: start a "
        f"run with --batch_size={safe} --gradient_checkpointing={_TIERS[-1]}."
    )


def _in_words(needs: dict[int, int], batch_size: int) -> str:
    """Tells what a batch size needs, judged by the measured needs of smaller ones."""
    need = MemoryLine.through(list(needs), list(needs.values())).at(batch_size)
    measured = ", ".join(f"{bytes / _MEGABYTE:,.0f} MB at {size}" for size, bytes in needs.items())
    return f"which needs about {need / _MEGABYTE:,.0f} MB (measured: {measured})"


def try_batch_size(run_path: str, batch_size: int) -> int:
    """Trains two steps of a run, thrown away, with another batch size; returns the peak in bytes.

    It wants a process of its own (`run_apart`).
    """
    from tft_keras.data import prepare_again
    from tft_keras.training import Run, train
    from tft_keras.training.peak_memory import PeakMemory

    run = Run.open(run_path)
    preprocessing = run.preprocessing()
    training = dataclasses.replace(
        run.config.training,
        batch_size=batch_size,
        windows_per_epoch=2 * batch_size,
        epochs=1,
        early_stopping_patience=0,
        qat_calibration_batches=min(run.config.training.qat_calibration_batches, 1),
    )
    config = dataclasses.replace(run.config, training=training, load_model=None)
    with tempfile.TemporaryDirectory() as folder:
        trial = Run.create(folder, config, preprocessing)
        train(trial, prepare_again(run.config.source, preprocessing))
    return PeakMemory().limited_peak()
