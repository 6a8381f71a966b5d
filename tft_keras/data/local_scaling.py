"""Local scaling: each row by the level and the spread of the rows up to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tft_keras.data.segments import first_of_segment

# Rows whose frames are computed at once: they stay in a processor's cache.
_CHUNK_VALUES = 1 << 16
# Rows looked at to fit the least spreads.
_SAMPLE = 100_000
# Of the least spread in training: below it, nothing varies.
_NOTHING = 0.01


@dataclasses.dataclass(frozen=True)
class LocalScaler:
    """Scales each row by the statistics of the rows up to it, itself included.

    Of the values there are among the last `steps` rows without a gap, the center is the mean and
    the spread the standard deviation (or median and interquartile range). The spread is at least a
    share of the center's size; where it is next to nothing, as in a stretch of zeros, it is that of
    the least varied rows in training. A row's statistics depend on no later row and on no window.

    Args:
        steps: rows whose statistics are taken.
        distance: rows over which `moves` tells how the statistics moved.
        center, scale: of all training rows, for rows without a value up to them.
        least_share: the least spread as a share of the center's size.
        least: the spread where nothing varies.
        robust: median and interquartile range / 1.349 instead of mean and standard deviation.
        log1p: whether the values are taken to the logarithm first.
    """

    steps: int
    distance: int
    center: float
    scale: float
    least_share: float
    least: float
    robust: bool = False
    log1p: bool = False

    @property
    def reach(self) -> int:
        """Rows before a row that its statistics, and how they moved, are made from."""
        return self.steps - 1 + self.distance

    def statistics(self, frames: Any, xp: Any = np) -> tuple[Any, Any]:
        """Returns center and scale of frames of rows, NaN where a frame holds nothing.

        Args:
            frames: (..., steps) float64, the values up to each row, after the logarithm if
                `log1p`; NaN where missing.
            xp: the array library, NumPy or one with its names.

        Returns:
            Two float64 arrays (...).
        """
        there = xp.logical_not(xp.isnan(frames))
        count = xp.sum(xp.where(there, 1.0, 0.0), axis=-1)
        some = xp.maximum(count, 1.0)
        measure = _quartiles if self.robust else _moments
        center, spread = measure(frames, there, some, xp)
        spread = xp.maximum(spread, self.least_share * xp.abs(center))
        spread = xp.where(spread < _NOTHING * self.least, self.least, spread)
        nothing = count == 0
        return xp.where(nothing, np.nan, center), xp.where(nothing, np.nan, spread)

    def filled(self, statistics: tuple[Any, Any], xp: Any = np) -> tuple[Any, Any]:
        """Returns statistics with those of all training rows where a frame held nothing."""
        center, spread = statistics
        nothing = xp.isnan(center)
        return xp.where(nothing, self.center, center), xp.where(nothing, self.scale, spread)

    def moves(self, now: tuple[Any, Any], before: tuple[Any, Any], xp: Any = np) -> tuple[Any, Any]:
        """Returns how center and scale moved.

        Args:
            now, before: center and scale of rows, and of those `distance` rows earlier.

        Returns:
            (center - earlier) / the larger scale, and log(scale / earlier); 0 where one of them is
            not known.
        """
        unknown = xp.logical_or(xp.isnan(now[0]), xp.isnan(before[0]))
        level = (now[0] - before[0]) / xp.maximum(now[1], before[1])
        spread = xp.log(now[1] / before[1])
        return xp.where(unknown, 0.0, level), xp.where(unknown, 0.0, spread)

    def rows(self, values: np.ndarray, segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the center and scale of every row of a column; see `scaling.scale_by`.

        Args:
            values: (rows,) float64, in the column's units; NaN where missing.
            segments: first rows of the runs of rows without a gap, rising.

        Returns:
            Two (rows,) float64 arrays.
        """
        return self._rows(values, segments, np.arange(len(values)))

    def _rows(
        self, values: np.ndarray, segments: np.ndarray, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        values = np.log1p(values) if self.log1p else values
        padded = np.concatenate([np.full(self.steps - 1, np.nan), values])
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.steps)
        first = first_of_segment(segments, chosen)
        # How many of a row's frame lie before its run of rows.
        outside = np.maximum(self.steps - 1 - (chosen - first), 0)
        place = np.arange(self.steps)
        center, spread = np.empty(len(chosen)), np.empty(len(chosen))
        size = max(1, _CHUNK_VALUES // self.steps)
        for start in range(0, len(chosen), size):
            part = slice(start, start + size)
            own = frames[chosen[part]]
            if outside[part].any():
                own[place < outside[part, None]] = np.nan
            with np.errstate(over="ignore", invalid="ignore"):
                center[part], spread[part] = self.statistics(own)
        return center, spread

    def rows_before(
        self, statistics: tuple[np.ndarray, np.ndarray], segments: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the statistics of the rows `distance` earlier, NaN before a run of rows."""
        rows = np.arange(len(statistics[0]))
        first = first_of_segment(segments, rows)
        earlier = rows - self.distance
        there = earlier >= first
        center, spread = (
            np.where(there, s[np.where(there, earlier, 0)], np.nan) for s in statistics
        )
        return center, spread

    def to_dict(self) -> dict[str, Any]:
        """Returns the numbers as plain JSON values."""
        return dataclasses.asdict(self)


def fit_local_scaler(
    values: np.ndarray,
    training: np.ndarray,
    segments: np.ndarray,
    steps: int,
    distance: int,
    robust: bool,
    log1p: bool,
) -> LocalScaler:
    """Fits the least spreads on training rows.

    Args:
        values: (rows,) float64; NaN where missing.
        training: numbers of the training rows, rising.
        segments: first rows of the runs of rows without a gap.
        steps, distance, robust, log1p: see `LocalScaler`.
    """
    own = np.log1p(values[training]) if log1p else values[training]
    own = own[~np.isnan(own)]
    center, spread = (float(own.mean()), float(own.std())) if len(own) else (0.0, 0.0)
    bare = LocalScaler(steps, distance, center, 0.0, 0.0, 0.0, robust, log1p)
    count = min(len(training), _SAMPLE)
    chosen = training[np.arange(count) * len(training) // max(count, 1)]
    centers, spreads = bare._rows(values, segments, chosen)
    varied = spreads[np.isfinite(spreads) & (spreads > 0)]
    least = float(np.quantile(varied, 0.05)) if len(varied) else 1.0
    level = np.abs(centers)
    proportions = (spreads / np.where(level > 0, level, 1.0))[(level > 0) & (spreads > 0)]
    share = 0.1 * float(np.median(proportions)) if len(proportions) and not log1p else 0.0
    return LocalScaler(
        steps, distance, center, spread or least, min(share, 0.1), least, robust, log1p
    )


def _moments(frames: Any, there: Any, count: Any, xp: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of the values there are."""
    center = xp.sum(xp.where(there, frames, 0.0), axis=-1) / count
    distances = xp.where(there, frames - center[..., None], 0.0)
    return center, xp.sqrt(xp.sum(distances * distances, axis=-1) / count)


def _quartiles(frames: Any, there: Any, count: Any, xp: Any) -> tuple[Any, Any]:
    """Median and interquartile range / 1.349; the standard deviation where these are alike."""
    # Missing ones come last, where no weight reaches.
    ordered = xp.sort(xp.where(there, frames, np.finfo(np.float64).max), axis=-1)
    place = xp.asarray(np.arange(ordered.shape[-1], dtype=np.float64))

    def quantile(share: float) -> Any:
        position = share * (count - 1.0)
        weight = xp.maximum(1.0 - xp.abs(place - position[..., None]), 0.0)
        return xp.sum(xp.where(weight > 0, ordered, 0.0) * weight, axis=-1)

    low, center, high = (quantile(share) for share in (0.25, 0.5, 0.75))
    _, deviation = _moments(frames, there, count, xp)
    return center, xp.where(high > low, (high - low) / 1.349, deviation)


def is_local(scaler: object) -> bool:
    """Whether a scaler takes its statistics from each row's own past."""
    return isinstance(scaler, LocalScaler)
