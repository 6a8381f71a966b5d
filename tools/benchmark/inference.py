"""Measures inference: size, conversion, latency and memory of the exported files and of Keras.

python -m tools.benchmark inference
python -m tools.benchmark inference --run_dir runs/mine

Without a run it takes TFT-225 (5 static, 210 observed, 10 known inputs) with random weights. Every
file is run in a process of its own, which for TFLite has no TensorFlow in it. Memory is what that
process has in the end, libraries included.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import numpy as np

from tft_keras.config import ModelConfig
from tft_keras.errors import InputError
from tools import command

TFT_225 = {"static_real": 5, "observed_real": 210, "known_real": 10}
MEGABYTE = 2**20

FLAGS = command.Flags(__doc__)
with FLAGS.group("What to run"):
    FLAGS.string("run_dir", None, "A finished run; a float one is quantized after training.")
    FLAGS.integer("encoder_steps", 50, "Past rows of a window, without a run.")
    FLAGS.integer("horizon", 10, "Future rows of a window, without a run.")
    FLAGS.integer("hidden_size", 64, "The paper's d_model, without a run.")
    FLAGS.integer("num_heads", 4, "Attention heads, without a run.")
with FLAGS.group("Measuring"):
    FLAGS.numbers("batch_sizes", (1, 32), "Windows of a call.")
    FLAGS.numbers("threads", (1, 2), "Threads of a call.")
    FLAGS.integer("repeats", 50, "Measured calls.")
with FLAGS.group("Output"):
    FLAGS.string("json", None, "Write all figures to this JSON file.")


@dataclasses.dataclass(frozen=True)
class Figures:
    """What was measured of one file.

    Args:
        kind: `int8`, `float32`, `SavedModel` or `Keras`.
        batch_size, threads: of a call.
        size: of the file in bytes.
        conversion_seconds: to make it.
        median, percentile_95: of a call's time, in seconds.
        memory: of the process in the end, in bytes.
    """

    kind: str
    batch_size: int
    threads: int
    size: int
    conversion_seconds: float
    median: float
    percentile_95: float
    memory: int


def main(flags: command.Values) -> None:
    """Exports, runs everything apart, and prints the table and the ratio of int8 to float32."""
    command.require_positive(flags, "repeats")
    for name in ("batch_sizes", "threads"):
        if not getattr(flags, name) or min(getattr(flags, name)) < 1:
            raise InputError(f"{name} are whole numbers of at least 1. Received: none, or fewer.")
    command.import_tensorflow()
    model = _model(flags)
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for batch_size in map(int, flags.batch_sizes):
            for kind, path, seconds in _files(model, batch_size, pathlib.Path(folder)):
                for threads in map(int, flags.threads):
                    print(f"running {kind}, {batch_size} windows, {threads} threads",
                          file=sys.stderr, flush=True)  # fmt: skip
                    measured.append(
                        _measure(kind, path, seconds, batch_size, threads, flags.repeats)
                    )
    print(text(measured))
    if flags.json:
        from tft_keras import atomic

        atomic.write_text(flags.json, json.dumps([dataclasses.asdict(f) for f in measured]))


def _model(flags: command.Values) -> Any:
    """Returns a quantized model, its observers frozen."""
    from tft_keras import quantization
    from tft_keras.model import TemporalFusionTransformer
    from tft_keras.training import Run
    from tft_keras.training.measuring import random_windows

    if flags.run_dir:
        model = Run.open(flags.run_dir).model()
    else:
        sizes = {name: getattr(flags, name) for name in ("encoder_steps", "horizon")}
        sizes |= {name: getattr(flags, name) for name in ("hidden_size", "num_heads")}
        model = TemporalFusionTransformer(ModelConfig(**TFT_225, **sizes))
        generator = np.random.default_rng(0)
        for weight in model.trainable_weights:
            # Biases of zero would be left out of the files.
            weight.assign_add(0.02 * generator.standard_normal(weight.shape).astype(np.float32))
    if not model.quantized:
        model = quantization.quantize_model(model)
        quantization.calibrate(model, [random_windows(model.config, 16)])
        model.freeze_observers()
    return model


def _files(model: Any, batch_size: int, folder: pathlib.Path) -> Any:
    """Yields kind, path and seconds of making it, for each file."""
    import tensorflow as tf

    from export.inference import input_signature
    from export.tflite import convert_float32, convert_int8

    def tflite(convert: Any, name: str) -> pathlib.Path:
        path = folder / f"{name}_{batch_size}.tflite"
        path.write_bytes(convert(model, batch_size))
        return path

    def saved_model() -> pathlib.Path:
        path, module = folder / f"saved_{batch_size}", tf.Module()
        module.weights = list(model.weights)
        run = tf.function(lambda **i: {"quantiles": model(i, training=False)}, autograph=False)
        signature = run.get_concrete_function(**input_signature(model, None))
        tf.saved_model.save(module, str(path), signatures=signature)
        return path

    def keras() -> pathlib.Path:
        path = folder / f"model_{batch_size}.keras"
        model.save(path)
        return path

    for kind, make in (
        ("int8", lambda: tflite(convert_int8, "int8")),
        ("float32", lambda: tflite(convert_float32, "float32")),
        ("SavedModel", saved_model),
        ("Keras", keras),
    ):
        start = time.perf_counter()
        path = make()
        yield kind, path, time.perf_counter() - start


def _measure(
    kind: str, path: pathlib.Path, seconds: float, batch_size: int, threads: int, repeats: int
) -> Figures:
    from tft_keras.apart import run_apart

    run = run_tflite if kind in ("int8", "float32") else run_tensorflow
    ending = run_apart(run, str(path), batch_size, threads, repeats)
    ending.check()
    ((times, memory),) = ending.values
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return Figures(
        kind,
        batch_size,
        threads,
        sum(file.stat().st_size for file in files),
        seconds,
        float(np.median(times)),
        float(np.percentile(times, 95)),
        memory,
    )


def run_tflite(path: str, batch_size: int, threads: int, repeats: int) -> tuple[list[float], int]:
    """Returns the seconds of each call of a .tflite file, and the process's memory."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=threads)
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], np.zeros(details["shape"], details["dtype"]))
    return _timed(interpreter.invoke, repeats), _resident()


def run_tensorflow(
    path: str, batch_size: int, threads: int, repeats: int
) -> tuple[list[float], int]:
    """Returns the seconds of each call of a SavedModel or Keras model, and the memory."""
    command.import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if path.endswith(".keras"):
        import tf_keras as keras

        from tft_keras import model as _  # noqa: F401 (registers the class)

        model = keras.models.load_model(path, compile=False)
        inputs = model.example_inputs(batch_size)
        function = tf.function(lambda: model(inputs, training=False), autograph=False)
    else:
        loaded = tf.saved_model.load(path)
        signature = loaded.signatures["serving_default"]
        _, specs = signature.structured_input_signature
        inputs = {
            name: tf.zeros((batch_size, *spec.shape[1:]), spec.dtype)
            for name, spec in specs.items()
        }

        def function():
            return signature(**inputs)

    return _timed(lambda: tf.nest.map_structure(np.asarray, function()), repeats), _resident()


def _timed(call: Any, repeats: int) -> list[float]:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def _resident() -> int:
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def text(measured: list[Figures]) -> str:
    """Returns the figures as a table, and int8 against float32."""
    lines = [
        f"{'':<12}{'batch':>6}{'threads':>9}{'size':>12}{'to make':>10}{'median':>12}"
        f"{'95th':>12}{'memory':>10}"
    ]
    for f in measured:
        lines.append(
            f"{f.kind:<12}{f.batch_size:>6}{f.threads:>9}{f.size / MEGABYTE:>9.2f} MB"
            f"{f.conversion_seconds:>8.1f} s"
            f"{1e3 * f.median:>9.3f} ms{1e3 * f.percentile_95:>9.3f} ms"
            f"{f.memory / MEGABYTE:>7.0f} MB"
        )
    by_case = {(f.kind, f.batch_size, f.threads): f for f in measured}
    for (kind, batch_size, threads), f in by_case.items():
        other = by_case.get(("float32", batch_size, threads))
        if kind == "int8" and other:
            lines.append(
                f"int8 at batch size {batch_size}, {threads} threads: "
                f"{f.median / other.median:.0%} of float32's time, "
                f"{f.size / other.size:.1%} of its size"
            )
    return "\n".join(lines)
