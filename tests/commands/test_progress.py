"""The progress line, on a terminal and in a file."""

from __future__ import annotations

import io

import pytest

from tft_keras.commands import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def _epoch(shown: progress.Progress, clock: list[float], epoch: int) -> None:
    shown.params = {"steps": 4}
    shown.on_epoch_begin(epoch)
    for batch in range(4):
        clock[0] += 10
        shown.on_train_batch_end(batch, {"loss": 0.5})
    shown.on_epoch_end(epoch, {"loss": 0.5, "val_loss": 0.25})


def test_in_a_file_one_line_per_epoch(clock):
    stream = io.StringIO()
    shown = progress.Progress(3, stream)
    _epoch(shown, clock, 0)
    _epoch(shown, clock, 1)
    assert stream.getvalue().splitlines() == [
        "epoch 1/3  loss 0.5000  validation loss 0.2500  0:40, 1:20 left in all",
        "epoch 2/3  loss 0.5000  validation loss 0.2500  0:40, 0:40 left in all",
    ]


def test_on_a_terminal_a_bar_with_loss_and_time_left(clock):
    stream = Terminal()
    shown = progress.Progress(3, stream)
    _epoch(shown, clock, 0)
    lines = stream.getvalue().split("\r\033[K")
    # After one of four steps: three more of ten seconds, and two epochs of four.
    assert "1/4  loss 0.5000  0:30 left, 1:50 in all" in lines[1]
    assert lines[1].count("━") == 5
    assert lines[-1].endswith("1:20 left in all\n")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3675, "1:01:15"), (36000, "10:00:00")]
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text
