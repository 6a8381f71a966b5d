"""`python -m export` and `python -m export.census`."""

from __future__ import annotations

import subprocess
import sys

import export.__main__ as command_module
from tft_keras.commands import command


def _run(*arguments: str) -> int:
    return command.status(command_module.main, command_module.FLAGS, arguments)


def test_a_run_becomes_a_folder(quantized_run, tmp_path, capsys):
    output = tmp_path / "out"
    formats = "--formats=tflite_int8"
    arguments = (f"--run_dir={quantized_run.path}", f"--output_dir={output}", formats)
    assert _run(*arguments, "--verify_windows=5") == 0
    shown = capsys.readouterr()
    assert "converting to tflite_int8" in shown.err
    assert "5 windows of the test split" in shown.out and "within 1 step" in shown.out
    assert {path.name for path in output.iterdir()} == {
        "tflite_int8.tflite",
        "manifest.json",
        "forecast.pyz",
    }
    assert _run(*arguments) == 1
    assert "which is in use" in capsys.readouterr().err


def test_what_is_wrong_is_said_in_one_line(quantized_run, tmp_path, capsys):
    assert _run(f"--run_dir={quantized_run.path}") == 1
    assert "no --output_dir" in capsys.readouterr().err
    assert _run(f"--run_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}") == 1
    assert "A run is a folder" in capsys.readouterr().err
    wrong = ("--formats=tflite_int9", f"--output_dir={tmp_path / 'out'}")
    assert _run(f"--run_dir={quantized_run.path}", *wrong) == 1
    assert "tflite_int9" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_census_command(exported, tmp_path):
    def run(*arguments):
        python = [sys.executable, "-m", "export.census", *arguments]
        return subprocess.run(python, capture_output=True, text=True, check=False)

    result = run(str(exported[0] / "tflite_int8.tflite"))
    assert result.returncode == 0 and "all arithmetic is int8" in result.stdout
    (tmp_path / "no.tflite").write_text("not a model")
    result = run(str(tmp_path / "no.tflite"))
    assert result.returncode == 1 and "which is none" in result.stderr
