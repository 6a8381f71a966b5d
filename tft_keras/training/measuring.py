"""Measuring training steps: memory and time at rising batch sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tft_keras import quantization
from tft_keras.config import DataConfig, ModelConfig, TrainingConfig
from tft_keras.data import Schema
from tft_keras.model import TemporalFusionTransformer
from tft_keras.step_memory import StepMemory
from tft_keras.training.model_building import build_model, compile_model
from tft_keras.training.peak_memory import PeakMemory
from tft_keras.training.run_config import RunConfig


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
    if config.training.use_qat:
        quantization.calibrate(model, [random_windows(config.model, 4)])
        if config.training.freeze_qat_observers:
            model.freeze_observers()
    compile_model(model, config, steps_per_epoch=1)
    step = step_function(model)
    # All that does not grow with the batch is there after a step on a single window.
    step(random_windows(config.model, 1))
    at_rest = memory.in_use()
    for batch_size in batch_sizes:
        windows = random_windows(config.model, batch_size)
        # What is compiled for this size is compiled once: that takes memory, but not in each step.
        step(windows)
        memory.in_use()
        memory.start()
        times = [_timed(step, windows) for _ in range(steps)]
        yield StepMemory(
            device=memory.device,
            batch_size=batch_size,
            parameters=model.count_params(),
            state=_size([*model.weights, *model.optimizer.variables]),
            gradients=_size(model.trainable_weights),
            activations=max(memory.peak() - at_rest, 0),
            process=memory.limited_peak(),
            seconds=min(seconds for seconds, _ in times),
            processor_seconds=min(seconds for _, seconds in times),
        )


def run_on_noise(model: ModelConfig, training: TrainingConfig) -> RunConfig:
    """Returns the settings of a run on random windows."""
    data = DataConfig(encoder_steps=model.encoder_steps, horizon=model.horizon)
    return RunConfig(Schema(target="target", time="time"), data, model, training)


def step_function(model: TemporalFusionTransformer) -> Any:
    """Returns the training step of a compiled model for batches of any size, yet to be traced."""
    windows = random_windows(model.config, 1)
    any_batch = tf.nest.map_structure(
        lambda values: tf.TensorSpec((None, *values.shape[1:]), values.dtype), windows
    )

    @tf.function(input_signature=[any_batch], autograph=False)
    def step(windows: Any) -> tf.Tensor:
        return model.train_step(windows)["loss"]

    return step


def _timed(step: Any, windows: Any) -> tuple[float, float]:
    """Returns the time of a step, and what of it the processor's cores spent in all."""
    began, processor_began = time.perf_counter(), time.process_time()
    step(windows).numpy()
    return time.perf_counter() - began, time.process_time() - processor_began


def _size(variables: Sequence[Any]) -> int:
    return sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables)


def random_windows(config: ModelConfig, batch_size: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Returns inputs and targets of windows that hold noise."""
    generator = np.random.default_rng(0)
    inputs = {}
    for part in config.inputs():
        shape = (batch_size, *part.shape)
        if part.is_real:
            values = generator.standard_normal(shape, np.float32)
        else:
            values = generator.integers(0, part.categories, shape, np.int32)
        inputs[part.name] = tf.constant(values)
    targets = generator.standard_normal((batch_size, config.horizon), np.float32)
    return inputs, tf.constant(targets)
