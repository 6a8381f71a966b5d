"""Calibration: quantiles moved to hold what they say on the validation split."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

# So many windows that do not overlap count half of what they say.
_DOUBT = 10


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What is added to a model's scaled quantiles.

    Args:
        offsets: (horizon, quantiles), in scaled units.
    """

    offsets: tuple[tuple[float, ...], ...]

    def apply(self, quantiles: Any, xp: Any = np) -> Any:
        """Returns scaled quantiles (..., horizon, quantiles) calibrated, rising as they were.

        Args:
            xp: the array library, NumPy or one with its names.
        """
        offsets = xp.asarray(np.array(self.offsets, quantiles.dtype.name))
        return xp.sort(quantiles + offsets, axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Returns the offsets as plain JSON values."""
        return {"offsets": [list(step) for step in self.offsets]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Makes the calibration from `to_dict`'s result."""
        return cls(tuple(tuple(step) for step in values["offsets"]))


def fit_calibration(
    quantiles: tuple[float, ...], forecasts: np.ndarray, targets: np.ndarray, independent: float
) -> Calibration:
    """Fits the offsets of each step and quantile.

    Of the differences of a step's targets from the forecast of quantile q, the offset is their
    q-quantile, as in split conformal prediction. Few windows prove little, and windows that overlap
    are not many: offsets are taken by the share n / (n + 10), n windows that do not overlap.

    Args:
        quantiles: (quantiles,) rising.
        forecasts: (windows, horizon, quantiles), scaled.
        targets: (windows, horizon), scaled, NaN where missing.
        independent: how many of the windows do not overlap.
    """
    offsets = np.zeros(forecasts.shape[1:])
    for step in range(forecasts.shape[1]):
        there = ~np.isnan(targets[:, step])
        if not there.any():
            continue
        differences = targets[there, step, None].astype(np.float64) - forecasts[there, step]
        for place, quantile in enumerate(quantiles):
            offsets[step, place] = np.quantile(differences[:, place], quantile)
    offsets *= 1 / (1 + _DOUBT / independent)
    return Calibration(tuple(tuple(map(float, step)) for step in offsets))
