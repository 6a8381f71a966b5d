"""Metrics per epoch for TensorBoard."""

from __future__ import annotations

import pathlib

import tensorflow as tf
import tf_keras as keras

from tft_keras.training.state_saver import StateSaver

_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
)


class EventLog(keras.callbacks.Callback):
    """Writes each epoch's metrics as TensorBoard scalars, the validation's beside the training's.

    `keras.callbacks.TensorBoard` needs the tensorboard package to write, and after a resume repeats
    or lacks epochs. This one writes the history that the checkpoint holds anew when training
    begins, so each epoch stands there once.

    Args:
        folder: where to write.
        saver: whose state has the metrics; it must come before this callback.
    """

    def __init__(self, folder: pathlib.Path, saver: StateSaver) -> None:
        super().__init__()
        self._folder = folder
        self._saver = saver

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        for stale in self._folder.glob("*/events.out.tfevents.*"):
            stale.unlink()
        self._writers = {
            name: tf.summary.create_file_writer(str(self._folder / name))
            for name in ("train", "validation")
        }
        for metrics in self._saver.state.history:
            self._write(metrics)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._write(self._saver.state.history[-1])

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        for writer in self._writers.values():
            writer.close()

    def _write(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            of_validation = name.startswith("val_")
            writer = self._writers["validation" if of_validation else "train"]
            with writer.as_default():
                tag = f"epoch_{name.removeprefix('val_')}"
                tf.summary.write(tag, tf.constant(value, tf.float32), metrics["epoch"], _SCALAR)
        for writer in self._writers.values():
            writer.flush()
