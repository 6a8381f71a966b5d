"""Sizes that several commands measure."""

from __future__ import annotations

import dataclasses

from tft_keras.config import ModelConfig

TFT_225 = ModelConfig(
    encoder_steps=50, horizon=10, static_real=5, observed_real=210, known_real=10, hidden_size=64
)
TEN_INPUTS = dataclasses.replace(TFT_225, static_real=0, observed_real=5, known_real=5)
