"""The target: a column known at its own bar, so that nothing needs to be shifted."""

from __future__ import annotations

import numpy as np

from tft_keras.data.bars.instrument import Instrument
from tft_keras.data.bars.rolling import shift, total

TARGET = "target"


def target(bars: Instrument, kind: str, steps: int) -> np.ndarray:
    """Computes the target, (rows,) float64.

    A window's future targets are those of the bars after its origin. With `log_return` over k bars,
    the target of the k-th bar after the origin is the whole return since the origin.

    Args:
        bars: of one instrument.
        kind: `log_return`: the sum of the last returns; `realized_volatility`: the square root of
            the sum of their squares; `price`: the log of the close, gaps included.
        steps: how many bars the target looks back on.
    """
    if kind == "price":
        return np.log(bars.close)
    if kind == "realized_volatility":
        return np.sqrt(total(bars.returns**2, steps))
    return bars.returns if steps == 1 else bars.path - shift(bars.path, steps)
