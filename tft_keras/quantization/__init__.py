"""Quantization-aware training: see `quantize_model`."""

from tft_keras.quantization.control import (
    calibrate,
    freeze_observers,
    listening,
    observer_mode,
    observer_report,
    observers_frozen,
    report_table,
    unfreeze_observers,
)
from tft_keras.quantization.quantize import copy_weights, quantize_model
from tft_keras.quantization.quantizers import FreezableMovingAverageQuantizer

__all__ = [
    "FreezableMovingAverageQuantizer",
    "calibrate",
    "copy_weights",
    "freeze_observers",
    "listening",
    "observer_mode",
    "observer_report",
    "observers_frozen",
    "quantize_model",
    "report_table",
    "unfreeze_observers",
]
