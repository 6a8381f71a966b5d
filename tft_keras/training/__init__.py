"""Training: the fit loop, its checkpoints, and the run folder they live in."""

from tft_keras.training.calibration import check_calibration
from tft_keras.training.comparison import compare_accuracy
from tft_keras.training.defaults import suited
from tft_keras.training.finite_loss import NonFiniteLossError
from tft_keras.training.initial_weights import check_load_model, load_model
from tft_keras.training.model_building import build_model, compile_model
from tft_keras.training.run import Run
from tft_keras.training.run_config import RunConfig
from tft_keras.training.state import TrainingState
from tft_keras.training.train import train

__all__ = [
    "NonFiniteLossError",
    "Run",
    "RunConfig",
    "TrainingState",
    "build_model",
    "check_calibration",
    "check_load_model",
    "compare_accuracy",
    "compile_model",
    "load_model",
    "suited",
    "train",
]
