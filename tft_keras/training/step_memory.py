"""What a training step takes: memory and time, measured, and predicted for other batch sizes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tft_keras.config import ModelConfig
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.model_building import build_model, compile_model
from tft_keras.training.peak_memory import PeakMemory, limited_peak
from tft_keras.training.run_config import RunConfig


@dataclasses.dataclass(frozen=True)
class StepMemory:
    """A training step's measured memory, in bytes, and time.

    Args:
        device: where it ran, `CPU:0` or a GPU.
        batch_size: windows of the step.
        parameters: number of trainable weights and others.
        state: weights and the optimizer's variables.
        gradients: of all trainable weights together.
        activations: peak of the memory in use during the steps, above that in use between them.
            The gradients come into being during a step and are part of it.
        process: peak of the whole process: interpreter, libraries, data and all of the above.
        seconds: the fastest step's; other work on the machine only adds to it.
    """

    device: str
    batch_size: int
    parameters: int
    state: int
    gradients: int
    activations: int
    process: int
    seconds: float


def measure_steps(
    config: RunConfig,
    recomputed: str | tuple[str, ...],
    batch_sizes: Sequence[int],
    steps: int = 3,
) -> Iterator[StepMemory]:
    """Trains a few steps on random windows at each batch size, and measures them.

    It wants a process of its own (`run_apart`). The batch sizes rise, since TensorFlow keeps the
    memory that it once had. The step is the one that `fit` runs, traced once for all sizes.

    Args:
        config: settings of the run.
        recomputed: tier or names of blocks; takes the place of the tier in `config`.
        batch_sizes: rising.
        steps: measured steps at each size; one more warms up before.

    Yields:
        The figures of each batch size, as soon as they are known.
    """
    memory = PeakMemory()
    model = build_model(config)
    model.gradient_checkpointing = recomputed
    compile_model(model, config, steps_per_epoch=1)
    step = _step(model)
    # All that does not grow with the batch is there after a step on a single window.
    step(random_windows(config.model, 1))
    at_rest = memory.in_use()
    for batch_size in batch_sizes:
        windows = random_windows(config.model, batch_size)
        memory.start()
        seconds = [_timed(step, windows) for _ in range(steps + 1)]
        yield StepMemory(
            device=memory.device,
            batch_size=batch_size,
            parameters=model.count_params(),
            state=_size([*model.weights, *model.optimizer.variables]),
            gradients=_size(model.trainable_weights),
            activations=max(memory.peak() - at_rest, 0),
            process=memory.peak() if memory.on_gpu else limited_peak(),
            seconds=min(seconds[1:]),
        )


def _step(model: TemporalFusionTransformer) -> Any:
    windows = random_windows(model.config, 1)
    any_batch = tf.nest.map_structure(
        lambda values: tf.TensorSpec((None, *values.shape[1:]), values.dtype), windows
    )

    @tf.function(input_signature=[any_batch], autograph=False)
    def step(windows: Any) -> tf.Tensor:
        return model.train_step(windows)["loss"]

    return step


def _timed(step: Any, windows: Any) -> float:
    began = time.perf_counter()
    step(windows).numpy()
    return time.perf_counter() - began


def _size(variables: Sequence[Any]) -> int:
    return sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables)


def random_windows(config: ModelConfig, batch_size: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Returns inputs and targets of windows that hold noise."""
    generator = np.random.default_rng(0)
    steps = config.encoder_steps + config.horizon
    inputs = {}
    for role, shape in (
        ("static", (batch_size,)),
        ("known", (batch_size, steps)),
        ("observed", (batch_size, config.encoder_steps)),
    ):
        real, categories = getattr(config, f"{role}_real"), getattr(config, f"{role}_categorical")
        if real:
            values = generator.standard_normal((*shape, real), np.float32)
            inputs[f"{role}_real"] = tf.constant(values)
        if categories:
            codes = [generator.integers(0, count, shape, np.int32) for count in categories]
            inputs[f"{role}_categorical"] = tf.constant(np.stack(codes, axis=-1))
    targets = generator.standard_normal((batch_size, config.horizon), np.float32)
    return inputs, tf.constant(targets)


@dataclasses.dataclass(frozen=True)
class MemoryLine:
    """Memory as a straight line over the batch size: `constant + per_window * batch_size`."""

    constant: float
    per_window: float

    @classmethod
    def through(cls, batch_sizes: Sequence[int], sizes: Sequence[int]) -> MemoryLine:
        """Returns the line of least squares, with neither part below zero."""
        if len(batch_sizes) == 1:
            return cls(0.0, sizes[0] / batch_sizes[0])
        per_window, constant = np.polyfit(batch_sizes, sizes, 1)
        return cls(max(float(constant), 0.0), max(float(per_window), 1e-9))

    def at(self, batch_size: int) -> int:
        """Returns the bytes that a batch of this size takes."""
        return round(self.constant + self.per_window * batch_size)

    def largest_batch(self, memory: float) -> int:
        """Returns the largest batch size that fits into so many bytes; 0 if none does."""
        return max(int((memory - self.constant) / self.per_window), 0)
