"""A training's progress on the console: a bar per epoch, with loss and time left."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import tf_keras as keras

_BAR = 20
_SECONDS_BETWEEN = 0.1


class Progress(keras.callbacks.Callback):
    """Shows one line per epoch: while it runs a bar, at its end the losses.

        epoch  3/10 ━━━━━━━━────────────  120/300  loss 0.1234  0:12 left, 3:05 in all

    On a terminal the line is redrawn; elsewhere (a file, a pipe) only the end of each epoch is
    written, so that logs stay readable.

    Args:
        epochs: epochs to train in all.
        stream: where to write; the error stream by default.
    """

    def __init__(self, epochs: int, stream: TextIO | None = None) -> None:
        super().__init__()
        self._epochs = epochs
        self._stream = stream or sys.stderr
        self._redraw = self._stream.isatty()
        self._epoch_seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch = epoch + 1
        self._began = self._drawn = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        now = time.monotonic()
        if self._redraw and now - self._drawn >= _SECONDS_BETWEEN:
            self._drawn = now
            self._draw(self._bar(batch + 1, now, (logs or {}).get("loss", float("nan"))))

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        seconds = time.monotonic() - self._began
        self._epoch_seconds.append(seconds)
        losses = [
            f"{title} {logs[name]:.4f}"
            for name, title in (("loss", "loss"), ("val_loss", "validation loss"))
            if name in (logs or {})
        ]
        left = duration(self._mean_epoch() * (self._epochs - self._epoch))
        line = f"{self._title()}  {'  '.join(losses)}  {duration(seconds)}, {left} left in all"
        self._draw(line)
        self._stream.write("\n")
        self._stream.flush()

    def break_off(self) -> None:
        """Ends the line of an epoch that does not end, so that a message can follow."""
        if self._redraw:
            self._stream.write("\n")

    def _bar(self, step: int, now: float, loss: float) -> str:
        steps = self.params.get("steps") or step
        done = round(_BAR * step / steps)
        epoch_left = (now - self._began) * (steps - step) / step
        # The first epoch is predicted from itself, though compiling makes that too long at first.
        whole = self._mean_epoch() or (now - self._began) * steps / step
        in_all = epoch_left + whole * (self._epochs - self._epoch)
        return (
            f"{self._title()} {'━' * done}{'─' * (_BAR - done)} {step:>{len(str(steps))}}/{steps}  "
            f"loss {loss:.4f}  {duration(epoch_left)} left, {duration(in_all)} in all"
        )

    def _title(self) -> str:
        return f"epoch {self._epoch:>{len(str(self._epochs))}}/{self._epochs}"

    def _mean_epoch(self) -> float:
        # The latest epochs only: the first one compiles.
        recent = self._epoch_seconds[-3:]
        return sum(recent) / len(recent) if recent else 0.0

    def _draw(self, line: str) -> None:
        if self._redraw:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\033[K{line[:width]}")
        else:
            self._stream.write(line)
        self._stream.flush()


def duration(seconds: float) -> str:
    """`75` as `1:15`, `3675` as `1:01:15`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
