"""`python -m tools.forecast`: the parquet file and the picture."""

from __future__ import annotations

import builtins

import pyarrow.parquet as pq
import pytest

from tests import runs
from tft_keras.commands import command
from tft_keras.forecast import forecast as forecasted
from tools import forecast

tiny_run = runs.tiny_run


def _run(*arguments: str) -> int:
    return command.status(forecast.main, forecast.FLAGS, arguments)


@pytest.fixture
def arguments(tiny_run, tmp_path) -> list[str]:
    pq.write_table(runs.future_table(), tmp_path / "new.parquet")
    table, output = (
        f"--parquet_file={tmp_path / 'new.parquet'}",
        f"--output={tmp_path / 'f.parquet'}",
    )
    return [f"--run_dir={tiny_run.path}", table, output]


def test_forecasts_are_written(tiny_run, tmp_path, arguments, capsys):
    assert _run(*arguments) == 0
    assert "6 rows, 2 series" in capsys.readouterr().out
    assert pq.read_table(tmp_path / "f.parquet").equals(forecasted(tiny_run, runs.future_table()))


def test_a_picture_is_drawn(tmp_path, arguments):
    pytest.importorskip("matplotlib")
    assert _run(*arguments, f"--plot={tmp_path / 'f.png'}", "--plot_series=1") == 0
    content = (tmp_path / "f.png").read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 5000


def test_other_quantiles_are_written_and_drawn(tmp_path, arguments):
    pytest.importorskip("matplotlib")
    assert _run(*arguments, "--quantiles=0.25,0.5,0.75", f"--plot={tmp_path / 'g.png'}") == 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    names = pq.read_table(tmp_path / "f.parquet").column_names
    assert names == ["store", "day", "step", "q0.25", "q0.5", "q0.75"]


def test_known_inputs_that_are_missing_leave_no_file(tmp_path, arguments, capsys):
    pq.write_table(runs.future_table().slice(0, 39), tmp_path / "new.parquet")
    assert _run(*arguments) == 1
    message = capsys.readouterr().err
    assert "promotion, weekday" in message and "2024-02-09" in message
    assert not (tmp_path / "f.parquet").exists()


def test_without_matplotlib_the_way_out_is_said_first(tmp_path, arguments, capsys, monkeypatch):
    found = builtins.__import__

    def missing(name, *rest):
        if name == "matplotlib":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert _run(*arguments, f"--plot={tmp_path / 'f.png'}") == 1
    assert "pip install matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "f.parquet").exists()


@pytest.mark.parametrize("name", ["run_dir", "parquet_file", "output"])
def test_all_three_are_needed(arguments, name, capsys):
    kept = [argument for argument in arguments if not argument.startswith(f"--{name}")]
    assert _run(*kept) == 1
    assert f"no --{name}" in capsys.readouterr().err


def test_a_picture_is_a_png(arguments, capsys):
    assert _run(*arguments, "--plot=f.jpg") == 1
    assert "plot must end in .png" in capsys.readouterr().err
