"""Scaling of one real-valued column, fitted on training rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

# A constant computed in floating point wavers by a few units of its last digit.
_CONSTANT = 4 * np.finfo(np.float64).eps
# Beyond it exp overflows float64.
_LARGEST_LOG = 700.0


def scale_by(values: Any, center: Any, scale: Any, log1p: bool, xp: Any = np) -> Any:
    """Returns `(values - center) / scale`, of their logarithms if `log1p`; 0 where `scale` is 0."""
    values = xp.log1p(values) if log1p else values
    nothing = scale == 0
    factor = xp.where(nothing, 0.0, 1.0 / xp.where(nothing, 1.0, scale))
    scaled = values - center
    scaled *= factor
    return scaled


def unscale_by(values: Any, center: Any, scale: Any, log1p: bool, xp: Any = np) -> Any:
    """Undoes `scale_by`, in float64."""
    result = xp.asarray(values, np.float64) * scale + center
    return xp.expm1(xp.minimum(result, _LARGEST_LOG)) if log1p else result


@dataclasses.dataclass(frozen=True)
class Scaler:
    """Centres and scales a column; undone by `inverse`.

    Forward: `(x - center) / scale`, after `log(1 + x)` if `log1p`. A scale of 0 marks a column
    without information in the training rows: it becomes 0 throughout, whatever comes later.

    The one definition for training, forecasts and exported graphs: both ways take the array
    library that computes, NumPy or one with its names (`tensorflow.experimental.numpy`).

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

    def parameters(self, series: Any, xp: Any = np) -> tuple[Any, Any]:
        """Returns center and scale for series; scalars if all are scaled alike.

        Args:
            series: ints, positions of series trained on; -1 for one never seen, which is scaled
                like all.
        """
        if not self.series_center:
            return np.float64(self.center), np.float64(self.scale)
        ends = (self.series_center, self.center), (self.series_scale, self.scale)
        tables = [np.append(np.asarray(own, np.float64), overall) for own, overall in ends]
        series = xp.where(series < 0, len(self.series_center), series)
        return tuple(xp.take(xp.asarray(table), series) for table in tables)

    def forward(self, values: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Scales values.

        Args:
            values: float64; NaN stays NaN.
            series: of each value, in a shape that broadcasts to `values`.

        Returns:
            float64, the shape of `values`.
        """
        return scale_by(values, *self.parameters(series), self.log1p)

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
            alike. A series without values takes center and scale of all; one without a spread a
            spread in proportion to its own level, see `_spreads_of_constants`.
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
            centers[series], scales[series] = _measure(part, method)
    scales = _spreads_of_constants(centers, scales, scale, log1p)
    return Scaler(center, scale, tuple(centers.tolist()), tuple(scales.tolist()), log1p)


def _spreads_of_constants(
    centers: np.ndarray, scales: np.ndarray, overall: float, log1p: bool
) -> np.ndarray:
    """Returns the scales, with one for each series whose values do not vary.

    It is the level of the series times what the spread of the others is to their level, in the
    middle of them; of logarithms, which measure in proportion already, the spread in the middle. A
    series of zeros, which has no level, takes 1, or the least spread of another one if that is
    less: it must not be forecast by the size of its neighbours.
    """
    constant = scales == 0
    varied = scales[~constant]
    if not constant.any() or not len(varied):
        return scales
    scales = scales.copy()
    zero = constant & (centers == 0)
    if log1p:
        scales[constant] = np.median(varied)
    else:
        levels = np.abs(centers[~constant])
        proportions = varied[levels > 0] / levels[levels > 0]
        typical = min(1.0, float(np.median(proportions))) if len(proportions) else 1.0
        scales[constant] = np.abs(centers[constant]) * typical
    scales[zero] = min(1.0, float(varied.min()))
    return np.where(scales == 0, overall, scales)


def _measure(values: np.ndarray, method: str) -> tuple[float, float]:
    """Returns center and scale of the values there are; a scale of 0 if they do not vary."""
    values = values[~np.isnan(values)]
    if not len(values):
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if is_constant(low, high):
        return float(values[0]), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        spread, center = float(values.std()), float(values.mean())
    if method == "robust":
        low, center, high = (float(q) for q in np.percentile(values, (25, 50, 75)))
        # More than half of the values can be alike: their range says nothing then.
        spread = (high - low) / 1.349 if high > low else spread
    return center, spread


def is_constant(low: float, high: float) -> bool:
    """Whether values between these differ by no more than the rounding of one number."""
    return high - low <= _CONSTANT * max(abs(low), abs(high))
