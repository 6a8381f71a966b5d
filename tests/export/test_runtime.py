"""Forecasts without TensorFlow, and without this library."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import sysconfig

import numpy as np
import pyarrow.parquet as pq
import pytest

from export.runtime import ExportedModel, main, quantize
from tests import runs
from tft_keras.data import forecast_windows
from tft_keras.errors import InputError
from tft_keras.forecast import forecast

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def new_table(tmp_path_factory):
    path = tmp_path_factory.mktemp("new") / "new.parquet"
    pq.write_table(runs.future_table(), path)
    return path


def test_forecasts_are_those_of_the_run(exported, quantized_run):
    table = runs.future_table()
    expected = forecast(quantized_run, table)
    scale = next(r["scale"] for r in exported[1]["tensors"] if r["name"] == "head/quantiles")
    windows = forecast_windows(table, quantized_run.preprocessing())
    step = np.ptp([windows.unscale([0], np.full((1, 1), v)) for v in (0.0, scale)])
    result = ExportedModel(exported[0]).forecast(table)
    assert result.column_names == expected.column_names
    assert result["day"].equals(expected["day"]) and result["store"].equals(expected["store"])
    for name in ("q0.1", "q0.5", "q0.9"):
        difference = np.abs(result[name].to_numpy() - expected[name].to_numpy())
        assert (difference < 1.5 * step).all()
    plain = ExportedModel(exported[0], "tflite_float32").forecast(table)
    assert np.abs(plain["q0.5"].to_numpy() - expected["q0.5"].to_numpy()).max() < 5


def test_codes_are_rounded_as_training_does():
    details = {"dtype": np.int8, "quantization": (0.5, 3)}
    # halves go up: 0.25 / 0.5 = 0.5 to 1, -0.25 / 0.5 = -0.5 to 0; then the zero point, then clip
    codes = quantize(np.array([[0.5, -0.5, 1000.0]]), details, [2.0, 2.0, 1.0])
    assert codes.tolist() == [[4, 3, 127]]
    whole = quantize(np.array([[7]]), {"dtype": np.int32, "quantization": (0.0, 0)})
    assert whole.dtype == np.int32 and whole.tolist() == [[7]]


def test_the_command_needs_no_tensorflow(exported, new_table, tmp_path):
    code = (
        "import sys; from export.runtime import main; status = main(sys.argv[1:]); "
        "heavy = {'tensorflow', 'tf_keras', 'absl'} & {*sys.modules}; "
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))"
    )
    output = tmp_path / "f.parquet"
    arguments = [f"--model={exported[0]}", f"--parquet_file={new_table}", f"--output={output}"]
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, check=True)
    assert pq.read_table(output).num_rows == 6


def test_other_quantiles_by_the_command(exported, new_table, tmp_path, capsys):
    arguments = [f"--model={exported[0]}", f"--parquet_file={new_table}"]
    output = tmp_path / "f.parquet"
    assert main([*arguments, f"--output={output}", "--quantiles=0.3,0.5"]) == 0
    assert pq.read_table(output).column_names == ["store", "day", "step", "q0.3", "q0.5"]
    assert main([*arguments, f"--output={tmp_path / 'g'}", "--quantiles=0.01"]) == 1
    assert "between those trained, 0.1 and 0.9. Received: 0.01." in capsys.readouterr().err
    assert not (tmp_path / "g").exists()


def test_the_folder_forecasts_where_this_library_is_not(exported, new_table, tmp_path):
    """An environment that sees the runtime's packages, and what they need, but nothing else."""
    packages = tmp_path / "packages"
    packages.mkdir()
    installed = pathlib.Path(sysconfig.get_paths()["purelib"])
    needed = "numpy numpy.libs pyarrow ai_edge_litert flatbuffers google tqdm ml_dtypes backports"
    for name in [*needed.split(), "typing_extensions.py"]:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    code = (
        "from importlib.util import find_spec as f; assert not (f('tft_keras') or f('tensorflow'))"
    )
    python = [sys.executable, "-S"]
    settings = {"cwd": tmp_path, "check": True, "env": {"PYTHONPATH": str(packages)}}
    subprocess.run([*python, "-c", code], **settings)
    output = tmp_path / "f.parquet"
    command = [str(exported[0] / "forecast.pyz"), f"--parquet_file={new_table}"]
    subprocess.run([*python, *command, f"--output={output}"], **settings)
    expected = ExportedModel(exported[0]).forecast(str(new_table))
    assert pq.read_table(output).equals(expected)


def test_errors_are_one_line(exported, new_table, tmp_path, capsys):
    output = f"--output={tmp_path / 'f.parquet'}"
    assert main([f"--model={tmp_path}", f"--parquet_file={new_table}", output]) == 1
    assert "has a manifest.json" in capsys.readouterr().err
    assert main([f"--model={exported[0]}", "--parquet_file=none.parquet", output]) == 1
    assert "none.parquet" in capsys.readouterr().err
    assert not (tmp_path / "f.parquet").exists()
    with pytest.raises(InputError, match="format='tflite_int9'"):
        ExportedModel(exported[0], "tflite_int9")
