"""Forecasts from an exported folder, with numpy, pyarrow and ai-edge-litert alone.

  python -m export.runtime --model exported --parquet_file new.parquet --output forecast.parquet

The same module lies in every exported folder, as `forecast.pyz`, for devices without this library:

  python exported/forecast.pyz --parquet_file new.parquet --output forecast.parquet
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from export.options import FLOAT32, INT8
from tft_keras import atomic
from tft_keras.data import Preprocessing, forecast_windows
from tft_keras.data.forecasts import forecast_table
from tft_keras.errors import InputError, nearest

MANIFEST = "manifest.json"


class ExportedModel:
    """A .tflite file of an exported folder.

    Args:
        folder: written by `python -m export`.
        format: `tflite_int8` or `tflite_float32`; by default int8 if it is there.
        threads: that the interpreter may use.

    Raises:
        InputError: the folder holds no such file.
    """

    def __init__(self, folder: str | pathlib.Path, format: str | None = None, threads: int = 1):
        from ai_edge_litert.interpreter import Interpreter

        self.folder = pathlib.Path(folder)
        self.manifest = read_manifest(self.folder)
        files = {name: file for name, file in self.manifest["files"].items() if "tflite" in name}
        chosen = format or next((name for name in (INT8, FLOAT32) if name in files), "")
        if chosen not in files:
            raise InputError(
                f"An exported folder forecasts with one of its .tflite files, {', '.join(files)}. "
                f"Received: format={chosen!r}.{nearest(chosen, files)}"
            )
        self.format = chosen
        self.preprocessing = Preprocessing.from_dict(self.manifest["preprocessing"])
        path = self.folder / files[chosen]["path"]
        self._interpreter = Interpreter(model_path=str(path), num_threads=threads)
        self._run = self._interpreter.get_signature_runner()
        self._inputs = self._run.get_input_details()
        self._output = self._run.get_output_details()["quantiles"]
        shapes = [details["shape_signature"] for details in self._inputs.values()]
        self.batch_size = None if shapes[0][0] < 0 else int(shapes[0][0])

    @property
    def takes_integers(self) -> bool:
        """Whether real inputs are int8 tensors."""
        return all(details["dtype"] != np.float32 for details in self._inputs.values())

    def predict(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Returns scaled quantiles (windows, horizon, quantiles) float32.

        Args:
            inputs: by name, as `Windows.gather` gives them, for any number of windows.
        """
        windows = len(next(iter(inputs.values())))
        size = self.batch_size or windows
        parts = []
        for start in range(0, windows, size):
            part = {name: array[start : start + size] for name, array in inputs.items()}
            there = len(next(iter(part.values())))
            if there < size:
                # A file of a fixed batch size computes the last window several times.
                part = {name: _filled(array, size) for name, array in part.items()}
            parts.append(self.run(part)[:there])
        return np.concatenate(parts)

    def run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the scaled quantiles of one batch of the file's size."""
        sizes = self.manifest["input_sizes"]
        stored = {
            name: quantize(array, self._inputs[name], sizes.get(name))
            for name, array in inputs.items()
        }
        return dequantize(self._run(**stored)["quantiles"], self._output)

    def forecast(
        self, source: Any, batch_size: int = 256, quantiles: tuple[float, ...] = ()
    ) -> pa.Table:
        """Forecasts the horizon after the last target of every series in a table.

        Args:
            source: path of a parquet file, folder or glob, or a table, as for `tools.forecast`.
            batch_size: windows gathered at once.
            quantiles: those wanted, interpolated between those trained, which are the default.

        Raises:
            InputError: the table does not fit the model.
        """
        windows = forecast_windows(source, self.preprocessing)
        trained = self.manifest["quantiles"]
        return forecast_table(self.predict, windows, trained, batch_size, quantiles)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """Repeats the last window up to `size` windows."""
    missing = size - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1), mode="edge")


def quantize(values: np.ndarray, details: dict[str, Any], sizes: Any = None) -> np.ndarray:
    """Returns values as a tensor of a .tflite file stores them.

    Args:
        values: (..., variables), floating point or codes.
        details: of the tensor, as the interpreter gives them.
        sizes: (variables,) by which an int8 tensor's values are divided first.
    """
    if details["dtype"] != np.int8:
        return np.ascontiguousarray(values, details["dtype"])
    scale, zero_point = details["quantization"]
    # In float32 and with halves rounded up, as training does.
    quotients = np.asarray(values, np.float32) / np.asarray(sizes, np.float32)
    codes = np.floor(quotients / np.float32(scale) + np.float32(0.5)) + zero_point
    return np.clip(codes, -128, 127).astype(np.int8)


def dequantize(values: np.ndarray, details: dict[str, Any]) -> np.ndarray:
    """Returns what a tensor of a .tflite file stands for, float32."""
    if values.dtype != np.int8:
        return values
    scale, zero_point = details["quantization"]
    return (values.astype(np.float32) - zero_point) * np.float32(scale)


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Returns an exported folder's manifest.

    Raises:
        InputError: there is none.
    """
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"An exported folder has a {MANIFEST}. Received: model={str(folder)!r} ({error}). "
            "Write one with `python -m export --run_dir ... --output_dir ...`."
        ) from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers by commas. Received: {text!r}.") from None


def main(arguments: list[str] | None = None, folder: str | None = None) -> int:
    """Runs the command and returns its exit status.

    Args:
        arguments: of the command line.
        folder: the default of `--model`.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=folder, required=folder is None, help="Exported folder.")
    parser.add_argument("--parquet_file", required=True, help="Table with the past, and the known.")
    parser.add_argument("--output", required=True, help="Parquet file to write.")
    parser.add_argument("--format", help=f"{INT8} or {FLOAT32}; by default int8 if it is there.")
    parser.add_argument(
        "--quantiles",
        type=_numbers,
        default=(),
        help="Quantiles to write, by commas, interpolated between those trained (the default).",
    )
    parser.add_argument("--threads", type=int, default=1, help="Threads to use.")
    flags = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        try:
            model = ExportedModel(flags.model, flags.format, flags.threads)
            table = model.forecast(flags.parquet_file, quantiles=flags.quantiles)
            with atomic.replacing(flags.output) as temporary:
                pq.write_table(table, temporary)
        except (InputError, OSError) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
    print(f"{flags.output}: {table.num_rows:,} rows, {model.format}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
