"""Measuring training steps: what is counted, and what the tiers save."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import CONFIG, TINY
from tft_keras.apart import run_apart
from tft_keras.config import DataConfig, ModelConfig, TrainingConfig
from tft_keras.data import Schema
from tft_keras.training import RunConfig, build_model
from tft_keras.training.measuring import measure_steps, random_windows
from tft_keras.training.peak_memory import PeakMemory

MEGABYTE = 2**20


def run_config(model: ModelConfig, **training) -> RunConfig:
    data = DataConfig(encoder_steps=model.encoder_steps, horizon=model.horizon)
    return RunConfig(Schema("target", "time"), data, model, TrainingConfig(**training))


def test_a_peak_is_seen_and_forgotten():
    memory = PeakMemory()
    before = memory.in_use()
    memory.start()
    values = np.ones(50 * MEGABYTE, np.float32)
    held = memory.in_use()
    del values
    after = memory.in_use()
    assert held - before == pytest.approx(200 * MEGABYTE, rel=0.1)
    assert after - before < 20 * MEGABYTE
    assert memory.peak() >= held - MEGABYTE  # the system counts in batches of pages
    memory.start()
    assert memory.peak() < held - 150 * MEGABYTE


def test_the_figures_of_a_small_model():
    config = run_config(TINY)
    small, large = measure_steps(config, "off", [2, 4], steps=1)
    model = build_model(config)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert small.device == PeakMemory().device
    assert (small.batch_size, large.batch_size) == (2, 4)
    assert small.parameters == trainable + 1  # and the count of dropout seeds
    assert small.gradients == 4 * trainable
    # Adam has two values a weight and its average, the count of its steps, the learning rate.
    assert small.state == pytest.approx(4 * small.gradients, abs=32)
    assert large.process > 0 and large.seconds > 0 and large.processor_seconds > 0


def test_random_windows_fit_the_model():
    inputs, targets = random_windows(CONFIG, 3)
    assert build_model(run_config(CONFIG))(inputs).shape == (3, CONFIG.horizon, 3)
    assert targets.shape == (3, CONFIG.horizon)
    codes = inputs["observed_categorical"].numpy()
    assert (codes.max(axis=(0, 1)) < np.array(CONFIG.observed_categorical)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "most"),
    [
        ({"observed_real": 100, "encoder_steps": 40, "horizon": 5, "hidden_size": 48}, 0.35),
        ({"observed_real": 3, "encoder_steps": 300, "horizon": 80, "hidden_size": 32}, 0.55),
    ],
    ids=["many variables", "long windows"],
)
def test_full_saves_memory_in_a_medium_model(sizes, most):
    config = run_config(ModelConfig(known_real=4, **sizes), selection_group_size=4)
    peaks = {}
    for tier in ("off", "full"):
        ending = run_apart(measure_steps, config, tier, [64], 2)
        ending.check()
        peaks[tier] = ending.values[0].activations
    assert peaks["off"] > 300 * MEGABYTE
    assert peaks["full"] <= most * peaks["off"]
