"""`python -m tools.benchmark inference` on a model that is built in no time."""

from __future__ import annotations

import dataclasses
import json

from tft_keras.commands import command
from tools.benchmark import inference
from tools.sizes import TFT_225


def test_all_files_are_run(tmp_path, capsys, monkeypatch):
    few = dataclasses.replace(TFT_225, static_real=0, observed_real=2, known_real=2)
    monkeypatch.setattr(inference, "TFT_225", few)
    arguments = [
        *("--encoder_steps=3", "--horizon=2", "--hidden_size=4", "--num_heads=2"),
        *("--batch_sizes=2", "--threads=1", "--repeats=3", f"--json={tmp_path / 'f.json'}"),
    ]
    assert command.status(inference.main, inference.FLAGS, arguments) == 0
    shown = capsys.readouterr().out
    assert "int8 at batch size 2, 1 threads" in shown
    figures = json.loads((tmp_path / "f.json").read_text())
    assert [row["kind"] for row in figures] == ["int8", "float32", "SavedModel", "Keras"]
    for row in figures:
        assert 0 < row["median"] <= row["percentile_95"] and row["size"] > 1000
    # TFLite needs no TensorFlow in its process.
    assert figures[0]["memory"] < figures[2]["memory"] / 2


def test_wrong_sizes_are_said(capsys):
    assert command.status(inference.main, inference.FLAGS, ["--batch_sizes=0"]) == 1
    assert "at least 1" in capsys.readouterr().err
