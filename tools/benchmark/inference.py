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
from collections.abc import Iterator
from typing import Any

import numpy as np

from tft_keras import process_memory
from tft_keras.commands import command
from tft_keras.errors import InputError
from tools.sizes import TFT_225

MEGABYTE = 2**20

FLAGS = command.Flags(__doc__)
with FLAGS.group("What to run"):
    FLAGS.string("run_dir", None, "A finished run; a float one is quantized after training.")
    FLAGS.integer("encoder_steps", TFT_225.encoder_steps, "Past rows of a window, without a run.")
    FLAGS.integer("horizon", TFT_225.horizon, "Future rows of a window, without a run.")
    FLAGS.integer("hidden_size", TFT_225.hidden_size, "The paper's d_model, without a run.")
    FLAGS.integer("num_heads", TFT_225.num_heads, "Attention heads, without a run.")
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
        for kind, path, seconds, batch_size in _files(
            model, tuple(map(int, flags.batch_sizes)), pathlib.Path(folder)
        ):
            for threads in map(int, flags.threads):
                announced = f"running {kind}, {batch_size} windows, {threads} threads"
                print(announced, file=sys.stderr, flush=True)
                measured.append(_measure(kind, path, seconds, batch_size, threads, flags.repeats))
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
        names = ("encoder_steps", "horizon", "hidden_size", "num_heads")
        sizes = {name: getattr(flags, name) for name in names}
        model = TemporalFusionTransformer(dataclasses.replace(TFT_225, **sizes))
        generator = np.random.default_rng(0)
        for weight in model.trainable_weights:
            # Biases of zero would be left out of the files.
            weight.assign_add(0.02 * generator.standard_normal(weight.shape).astype(np.float32))
    if not model.quantized:
        model = quantization.quantize_model(model)
        quantization.calibrate(model, [random_windows(model.config, 16)])
        model.freeze_observers()
    return model


def _files(
    model: Any, batch_sizes: tuple[int, ...], folder: pathlib.Path
) -> Iterator[tuple[str, pathlib.Path, float, int]]:
    """Makes the files; yields kind, path, seconds of making it and the batch size to run it with.

    A .tflite file is made for each batch size, the others for all.
    """
    from export.saved_model import VERSION, write_saved_model
    from export.tflite import convert_float32, convert_int8

    for kind, convert in (("int8", convert_int8), ("float32", convert_float32)):
        for batch_size in batch_sizes:
            start, path = time.perf_counter(), folder / f"{kind}_{batch_size}.tflite"
            path.write_bytes(convert(model, batch_size))
            yield kind, path, time.perf_counter() - start, batch_size
    saved, whole = folder / "saved_model", folder / "model.keras"
    for kind, path, make in (
        ("SavedModel", saved / VERSION, lambda: write_saved_model(model, None, saved)),
        ("Keras", whole, lambda: model.save(whole)),
    ):
        start = time.perf_counter()
        make()
        seconds = time.perf_counter() - start
        yield from ((kind, path, seconds, batch_size) for batch_size in batch_sizes)


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
    return _timed(interpreter.invoke, repeats), process_memory.in_use()


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

        from tft_keras.training.measuring import random_windows  # registers the class, too

        model = keras.models.load_model(path, compile=False)
        inputs, _ = random_windows(model.config, batch_size)
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

    times = _timed(lambda: tf.nest.map_structure(np.asarray, function()), repeats)
    return times, process_memory.in_use()


def _timed(call: Any, repeats: int) -> list[float]:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


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
