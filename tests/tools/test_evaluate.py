"""`python -m tools.evaluate`: the table and the JSON file."""

from __future__ import annotations

import json

import pytest

from tests import runs
from tft_keras.commands import command
from tft_keras.evaluation import evaluate as measured
from tools import evaluate

tiny_run = runs.tiny_run


def _run(*arguments: str) -> int:
    return command.status(evaluate.main, evaluate.FLAGS, arguments)


def test_table_and_json(tiny_run, tmp_path, capsys):
    path = tmp_path / "measures.json"
    assert _run(f"--run_dir={tiny_run.path}", f"--json_file={path}") == 0
    lines = capsys.readouterr().out.splitlines()
    results = json.loads(path.read_text())
    assert results == measured(tiny_run)
    cells = results["test"]["model"]["cells"]
    assert f"test: {cells} values" in lines
    model = next(line for line in lines if line.split()[:2] == ["all", "model"])
    assert f"{results['validation']['model']['mae']:.4g}" in model.split()
    # All steps together and three steps, three forecasts each, two splits, each with two titles.
    # The linear model has not learned the week: a warning for each split.
    assert len([line for line in lines if line]) == 2 * (4 * 3 + 2) + 1 + 2
    assert lines[-3] == "season: 7 rows, the best on the training split"


def test_without_the_steps(tiny_run, capsys):
    assert _run(f"--run_dir={tiny_run.path}", "--nosteps", "--splits=test") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 3 + 1
    # The linear model has not learned the week.
    assert last == "do not use this model: on the test split the seasonal naive has a lower WQL"


def test_one_origin_a_series(tiny_run, tmp_path):
    path = tmp_path / "measures.json"
    flags = ["--splits=test", "--test_origins=last", "--season=3", f"--json_file={path}"]
    assert _run(f"--run_dir={tiny_run.path}", *flags) == 0
    results = json.loads(path.read_text())["test"]
    assert results["seasonal naive"]["season"] == 3
    # Two series, one window of three steps each, a few targets missing.
    assert results["model"]["cells"] <= 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --run_dir"),
        (["--run_dir=none"], "A run is a folder"),
        (["--run_dir=none", "--batch_size=0"], "batch_size=0"),
    ],
)
def test_wrong_flags(arguments, message, capsys):
    assert _run(*arguments) == 1
    assert message in capsys.readouterr().err
