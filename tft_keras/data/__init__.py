"""Tables to windows: roles of columns, checks, scaling, splits, batches."""

from tft_keras.data.future import forecast_windows
from tft_keras.data.prepare import PreparedData, prepare, prepare_again
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.schema import Schema
from tft_keras.data.table import open_table
from tft_keras.data.windows import Skipped, Windows

__all__ = [
    "PreparedData",
    "Preprocessing",
    "Schema",
    "Skipped",
    "Windows",
    "forecast_windows",
    "open_table",
    "prepare",
    "prepare_again",
]
