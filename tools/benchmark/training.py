"""Measures training: samples per second, step time, peak memory and time to the first step.

python -m tools.benchmark training
python -m tools.benchmark training --sizes tft_225 --tiers off --precisions float32 \\
    --peer pytorch-forecasting
python -m tools.benchmark training --sizes tft_225 --tiers off --profile /tmp/profile

Every combination trains some steps on random windows in a process of its own. Memory is the peak of
the process above what it had before the model was built, libraries not counted.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any

from tft_keras.commands import command
from tft_keras.config import ModelConfig, TrainingConfig
from tft_keras.errors import InputError, nearest
from tft_keras.tiers import TIERS
from tools.sizes import TEN_INPUTS, TFT_225

SIZES = {"tft_225": TFT_225, "ten_inputs": TEN_INPUTS}
PRECISIONS = ("float32", "mixed_bfloat16")
PEER = "pytorch-forecasting"
MEGABYTE = 2**20

FLAGS = command.Flags(__doc__)
with FLAGS.group("What to train"):
    FLAGS.strings(
        "sizes",
        tuple(SIZES),
        "Of tft_225 (5 static, 210 observed, 10 known inputs) and ten_inputs.",
    )
    FLAGS.strings("tiers", tuple(TIERS), "Of off, aggressive, full.")
    FLAGS.strings("precisions", PRECISIONS, "Of float32, mixed_bfloat16.")
    FLAGS.integer("encoder_steps", TFT_225.encoder_steps, "Past rows of a window.")
    FLAGS.integer("horizon", TFT_225.horizon, "Future rows of a window.")
    FLAGS.integer("hidden_size", TFT_225.hidden_size, "The paper's d_model.")
    FLAGS.integer("num_heads", TFT_225.num_heads, "Attention heads.")
    FLAGS.integer("batch_size", 64, "Windows of a step.")
    FLAGS.integer("steps", 8, "Measured steps, after the first two.")
with FLAGS.group("Comparison"):
    FLAGS.string("peer", None, f"Another library to train the same sizes with: {PEER}.")
    FLAGS.string("peer_python", sys.executable, "Interpreter that has the other library.")
with FLAGS.group("Output"):
    FLAGS.string("json", None, "Write all figures to this JSON file.")
    FLAGS.string("profile", None, "Folder for a TensorBoard profile of two steps of each.")


@dataclasses.dataclass(frozen=True)
class Figures:
    """What was measured of one combination.

    Args:
        sizes, precision, tier: of the combination; the tier is the library's name for a peer.
        batch_size: windows of a step.
        first_step: seconds from before the model is built to the end of its first step.
        seconds: of the fastest step; other work on the machine only adds to it.
        median_seconds: of the median step.
        memory: peak in bytes.
        operations: (name, seconds per step) of the most expensive ones, if profiled.
    """

    sizes: str
    precision: str
    tier: str
    batch_size: int
    first_step: float
    seconds: float
    median_seconds: float
    memory: int
    operations: tuple[tuple[str, float], ...] = ()

    @property
    def samples_per_second(self) -> float:
        return self.batch_size / self.seconds


def main(flags: command.Values) -> None:
    """Measures all combinations, then prints the table, the ratios and the operations."""
    _check(flags)
    if flags.peer:
        from tools.benchmark import peer

        peer.require(flags.peer_python)
    command.import_tensorflow()
    measured = []
    for sizes in flags.sizes:
        for precision in flags.precisions:
            for tier in flags.tiers:
                measured.append(_measure_apart(flags, sizes, precision, tier))
            if flags.peer:
                _announce(sizes, precision, flags.peer)
                measured.append(_measure_peer(flags, sizes, precision))
    print(text(measured))
    if flags.json:
        from tft_keras import atomic

        content = [
            dataclasses.asdict(f) | {"samples_per_second": f.samples_per_second} for f in measured
        ]
        atomic.write_text(flags.json, json.dumps(content, indent=1))


def _check(flags: command.Values) -> None:
    command.require_positive(flags, "batch_size", "steps")
    for name, known in (("sizes", SIZES), ("tiers", TIERS), ("precisions", PRECISIONS)):
        for value in getattr(flags, name):
            if value not in known:
                raise InputError(
                    f"{name} must be among {', '.join(known)}. "
                    f"Received: {name}={value!r}.{nearest(value, known)}"
                )
    if flags.peer not in (None, PEER):
        raise InputError(f"The only peer is {PEER}. Received: peer={flags.peer!r}.")
    _model(flags, flags.sizes[0])


def _model(flags: command.Values, sizes: str) -> ModelConfig:
    names = ("encoder_steps", "horizon", "hidden_size", "num_heads")
    return dataclasses.replace(SIZES[sizes], **{name: getattr(flags, name) for name in names})


def _announce(*names: str) -> None:
    print("measuring", *names, file=sys.stderr, flush=True)


def _measure_apart(flags: command.Values, sizes: str, precision: str, tier: str) -> Figures:
    from tft_keras.apart import run_apart
    from tft_keras.training.measuring import run_on_noise

    _announce(sizes, precision, tier)
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # as in `tools.memory`
    training = TrainingConfig(
        batch_size=flags.batch_size, precision=precision, gradient_checkpointing=tier
    )
    config = run_on_noise(_model(flags, sizes), training)
    folder = None
    if flags.profile:
        folder = str(pathlib.Path(flags.profile) / f"{sizes}_{precision}_{tier}")
    ending = run_apart(measure, config, flags.steps, folder)
    ending.check()
    return Figures(sizes, precision, tier, flags.batch_size, **ending.values[0])


def measure(config: Any, steps: int, profile: str | None = None) -> dict[str, Any]:
    """Trains some steps on random windows; wants a process of its own.

    Args:
        config: the `RunConfig`.
        steps: measured steps; two more warm up before.
        profile: folder for a profile, or `None`.

    Returns:
        The fields of `Figures` that are measured.
    """
    from tft_keras.training.measuring import random_windows, step_function
    from tft_keras.training.model_building import build_model, compile_model
    from tft_keras.training.peak_memory import PeakMemory

    windows = random_windows(config.model, config.training.batch_size)
    memory = PeakMemory()
    at_start = memory.in_use()
    memory.start()
    began = time.perf_counter()
    model = build_model(config)
    compile_model(model, config, steps_per_epoch=1)
    step = step_function(model)
    step(windows).numpy()
    first_step = time.perf_counter() - began
    step(windows).numpy()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step(windows).numpy()
        times.append(time.perf_counter() - began)
    return {
        "first_step": first_step,
        "seconds": min(times),
        "median_seconds": statistics.median(times),
        "memory": max(memory.peak() - at_start, 0),
        "operations": _profile(lambda: step(windows).numpy(), profile) if profile else (),
    }


def _profile(step: Any, folder: str) -> tuple[tuple[str, float], ...]:
    from tools.benchmark import profile

    return profile.most_expensive(step, folder)


def _measure_peer(flags: command.Values, sizes: str, precision: str) -> Figures:
    from tools.benchmark import peer

    model = _model(flags, sizes)
    figures = peer.measure_apart(
        flags.peer_python,
        model=model.to_dict(),
        batch_size=flags.batch_size,
        steps=flags.steps,
        precision=precision,
    )
    return Figures(sizes, precision, flags.peer, flags.batch_size, **figures)


def text(measured: list[Figures]) -> str:
    """Returns the table, with ratios to a peer of the same sizes and precision, and operations."""
    lines = [
        f"{'sizes':<11} {'precision':<15} {'tier':<20} {'samples/s':>9} {'step':>9} {'median':>9} "
        f"{'memory':>9} {'first step':>10}   peer"
    ]
    for figures in measured:
        ratio = ratio_to_peer(figures, measured)
        lines.append(
            f"{figures.sizes:<11} {figures.precision:<15} {figures.tier:<20} "
            f"{figures.samples_per_second:>9.1f} {figures.seconds:>7.3f} s "
            f"{figures.median_seconds:>7.3f} s {figures.memory / MEGABYTE:>6,.0f} MB "
            f"{figures.first_step:>8.1f} s" + (f"   {ratio:.2f}x" if ratio else "")
        )
    for figures in measured:
        if figures.operations:
            lines += ["", f"{figures.sizes}, {figures.precision}, {figures.tier}, per step:"]
            lines += [f"{1000 * s:>9.1f} ms  {name}" for name, s in figures.operations]
    return "\n".join(lines)


def ratio_to_peer(figures: Figures, measured: list[Figures]) -> float | None:
    """Returns how many times as many samples a second as the peer, if one was measured."""
    for other in measured:
        same = (other.sizes, other.precision) == (figures.sizes, figures.precision)
        if same and other.tier not in TIERS and other is not figures:
            return figures.samples_per_second / other.samples_per_second
    return None
