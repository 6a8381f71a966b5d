"""Scaling of one real-valued column, fitted on training rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

# A constant's standard deviation is rounding noise in proportion to its size, not zero.
_CONSTANT = 1e-12


@dataclasses.dataclass(frozen=True)
class Scaler:
    """Centres and scales a column; undone by `inverse`.

    Forward: `(x - center) / scale`, after `log(1 + x)` if `log1p`. A scale of 0 marks a column
    without information in the training rows: it becomes 0 throughout, whatever comes later.

    Args:
        center, scale: of all training rows.
        series_center, series_scale: of each series trained on; empty if not fitted per series.
        log1p: whether the values are taken to the logarithm first.
    """

    center: float = 0.0
    scale: float = 1.0
    series_center: tuple[float, ...] = ()
    series_scale: tuple[float, ...] = ()
    log1p: bool = False

    def parameters(self, series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns center and scale for series; scalars if all are scaled alike.

        Args:
            series: ints, positions of series trained on; -1 for one never seen, which is scaled
                like all.
        """
        if not self.series_center:
            return np.float64(self.center), np.float64(self.scale)
        center = np.append(np.asarray(self.series_center, np.float64), self.center)
        scale = np.append(np.asarray(self.series_scale, np.float64), self.scale)
        return center[series], scale[series]

    def forward(self, values: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Scales values.

        Args:
            values: float64; NaN stays NaN.
            series: of each value, in a shape that broadcasts to `values`.

        Returns:
            float64, the shape of `values`.
        """
        center, scale = self.parameters(series)
        values = np.log1p(values) if self.log1p else values
        factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0)
        scaled = values - center
        scaled *= factor
        return scaled

    def inverse(self, values: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Undoes `forward`, in float64."""
        center, scale = self.parameters(series)
        result = np.asarray(values, np.float64) * scale + center
        return np.expm1(np.minimum(result, 700.0)) if self.log1p else result

    def to_dict(self) -> dict[str, Any]:
        """Returns the numbers as plain JSON values."""
        values = dataclasses.asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Scaler:
        """Makes the scaler from `to_dict`'s result."""
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def fit_scaler(
    values: np.ndarray, offsets: np.ndarray | None, method: str, log1p: bool = False
) -> Scaler:
    """Fits a scaler.

    Args:
        values: (rows,) float64 of training rows in order; NaN is left out.
        offsets: (series + 1,) first row of each series, to scale each by itself; None to scale all
            alike. A series without a spread takes that of all, one without values that of all and
            its center, too.
        method: `standard` (mean, standard deviation), `robust` (median, interquartile range
            divided by 1.349, which is the standard deviation of a normal distribution) or `none`.
        log1p: scale `log(1 + value)`.
    """
    if method == "none":
        return Scaler(log1p=log1p)
    values = np.log1p(values) if log1p else values
    center, scale = _measure(values, method)
    if offsets is None:
        return Scaler(center, scale, log1p=log1p)
    centers = np.full(len(offsets) - 1, center)
    scales = np.full(len(offsets) - 1, scale)
    for series, (start, stop) in enumerate(zip(offsets, offsets[1:], strict=False)):
        part = values[start:stop]
        if np.isfinite(part).any():
            centers[series], own = _measure(part, method)
            scales[series] = own or scale
    return Scaler(center, scale, tuple(centers.tolist()), tuple(scales.tolist()), log1p)


def _measure(values: np.ndarray, method: str) -> tuple[float, float]:
    """Returns center and scale of the values there are; a scale of 0 if they do not vary."""
    values = values[~np.isnan(values)]
    if not len(values):
        return 0.0, 0.0
    spread = float(values.std())
    center = float(values.mean())
    if spread <= _CONSTANT * float(np.abs(values).max()) or values.min() == values.max():
        return float(values[0]), 0.0
    if method == "robust":
        low, center, high = (float(q) for q in np.percentile(values, (25, 50, 75)))
        # More than half of the values can be alike: their range says nothing then.
        spread = (high - low) / 1.349 if high > low else spread
    return center, spread
