"""Small models and random windows that many tests share."""

from __future__ import annotations

import dataclasses

import numpy as np

from tft_keras.config import ModelConfig

CONFIG = ModelConfig(
    encoder_steps=6,
    horizon=3,
    static_real=2,
    static_categorical=(3,),
    known_real=2,
    known_categorical=(4,),
    observed_real=3,
    observed_categorical=(5, 2),
    hidden_size=8,
    num_heads=2,
    dropout=0.1,
)

# The fewest weights that still have every block: for tests that trace a whole training step.
# (Normalizing the scores of only two variables is nearly a step function, whose gradient is wild.)
TINY = dataclasses.replace(
    CONFIG,
    static_real=4,
    static_categorical=(),
    known_real=4,
    known_categorical=(),
    observed_real=3,
    observed_categorical=(),
)


def random_inputs(config: ModelConfig, windows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns standard normal real variables and uniform codes for each of the model's inputs."""
    generator = np.random.default_rng(seed)
    steps = config.encoder_steps + config.horizon
    inputs = {}
    for role, shape in (
        ("static", (windows,)),
        ("known", (windows, steps)),
        ("observed", (windows, config.encoder_steps)),
    ):
        real, categories = getattr(config, f"{role}_real"), getattr(config, f"{role}_categorical")
        if real:
            inputs[f"{role}_real"] = generator.normal(size=(*shape, real)).astype(np.float32)
        if categories:
            codes = [generator.integers(0, count, shape) for count in categories]
            inputs[f"{role}_categorical"] = np.stack(codes, axis=-1).astype(np.int32)
    return inputs


def random_targets(config: ModelConfig, windows: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(windows, config.horizon)).astype(np.float32)


def randomize(model, seed: int = 2, scale: float = 0.3) -> None:
    """Moves every trainable weight off its initial value, biases and normalizations included."""
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign_add(generator.normal(scale=scale, size=weight.shape).astype(np.float32))


def dense_gradients(gradients) -> list[np.ndarray]:
    """Returns gradients as arrays; those of embedding tables come as indexed slices."""
    import tensorflow as tf

    return [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
