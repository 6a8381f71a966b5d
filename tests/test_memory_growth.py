"""Nothing piles up from step to step, in any tier of gradient checkpointing."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf
import tf_keras as keras

from tests.support import TINY, random_inputs, random_targets
from tft_keras.apart import run_apart
from tft_keras.losses import QuantileLoss
from tft_keras.model import TemporalFusionTransformer
from tft_keras.tiers import TIERS

STEPS = 50
EPOCHS = 10


def resident_sizes() -> dict[str, list[int]]:
    """Trains in each tier and returns the resident size after every 50 steps."""
    windows = (random_inputs(TINY, windows=64), random_targets(TINY, windows=64))
    windows = tf.data.Dataset.from_tensor_slices(windows).repeat().batch(8)
    sizes = {}
    for tier in TIERS:
        model = TemporalFusionTransformer(TINY, gradient_checkpointing=tier, selection_group_size=2)
        model.compile(keras.optimizers.Adam(), QuantileLoss())
        recorder = Recorder()
        model.fit(windows, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=[recorder], verbose=0)
        sizes[tier] = recorder.sizes
    return sizes


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.sizes = []

    def on_epoch_end(self, epoch, logs=None):
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        self.sizes.append(pages)


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs /proc")
def test_resident_size_is_flat_over_500_steps_in_every_tier():
    ending = run_apart(resident_sizes)
    ending.check()
    for tier, sizes in ending.values[0].items():
        assert len(sizes) * STEPS == 500
        assert max(sizes) <= 1.02 * sizes[0], f"{tier}: {sizes}"
