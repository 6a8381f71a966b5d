"""Temporal Fusion Transformer in Keras: see README.md."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_MODULES = {
    "InputError": "errors",
    "DataConfig": "config",
    "ModelConfig": "config",
    "TrainingConfig": "config",
    "Schema": "data",
    "prepare": "data",
    "forecast_windows": "data",
    "QuantileLoss": "losses",
    "TemporalFusionTransformer": "model",
    "recompute": "recompute",
    "once": "recompute",
    "is_recomputing": "recompute",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str):
    # TensorFlow takes seconds to import; the data layer and `--help` do without it.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__():
    return sorted(__all__)
