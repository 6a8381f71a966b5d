"""From open, high, low, close, volume bars to a table of 225 inputs; needs the extra `bars`."""

from tft_keras.data.bars.baselines import Har, measure_baselines
from tft_keras.data.bars.observed import WARM_UP
from tft_keras.data.bars.options import TARGETS, BarOptions
from tft_keras.data.bars.prepare import BarFeatures, prepare_bars, read_description

__all__ = [
    "TARGETS",
    "WARM_UP",
    "BarFeatures",
    "BarOptions",
    "Har",
    "measure_baselines",
    "prepare_bars",
    "read_description",
]
