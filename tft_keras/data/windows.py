"""Windows: an index of (series, start) over a store, gathered batch by batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tft_keras.data import batches
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.splits import SPLITS
from tft_keras.data.store import Store

if TYPE_CHECKING:
    import tensorflow as tf

Inputs = dict[str, np.ndarray]


class Skipped(NamedTuple):
    """A series without a window: its group values, its longest run of rows, the rows needed."""

    name: tuple[Any, ...]
    rows: int
    needed: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Windows of `encoder_steps` past and `horizon` future rows, never materialized.

    A window is named by its position, 0 to `len(windows) - 1`, in the order of series and time.
    Memory follows the rows of the table, not the number of windows.

    Args:
        store: the rows.
        preprocessing: of the run; tells the sizes and undoes the target's scaling.
        starts: (runs,) first row of the first window of each run of windows one row apart.
        ends: (runs,) number of windows up to the end of each run.
        skipped: series without a window, where this is asked for.
    """

    store: Store
    preprocessing: Preprocessing
    starts: np.ndarray
    ends: np.ndarray
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __repr__(self) -> str:
        return f"Windows({len(self)} of {self.encoder_steps} + {self.horizon} rows)"

    @property
    def encoder_steps(self) -> int:
        return self.preprocessing.config.encoder_steps

    @property
    def horizon(self) -> int:
        return self.preprocessing.config.horizon

    def gather(self, positions: np.ndarray) -> tuple[Inputs, np.ndarray]:
        """Makes the batch of some windows.

        Args:
            positions: (batch,) ints.

        Returns:
            inputs: dict of arrays, one for each group that has variables. float32 `static_real`
                (batch, variables), `known_real` (batch, encoder_steps + horizon, variables),
                `observed_real` (batch, encoder_steps, variables); int32 `..._categorical` likewise.
            targets: (batch, horizon) float32, scaled, NaN where missing.
        """
        starts = self._first_rows(positions)
        series = self._series(starts)
        store, steps = self.store, self.encoder_steps + self.horizon
        inputs = {
            "static_real": store.series.static_real[series],
            "static_categorical": store.series.static_categorical[series],
            "known_real": self._reals("known", starts, steps),
            "known_categorical": _pieces(store.known_categorical, starts, steps),
            "observed_real": self._reals("observed", starts, self.encoder_steps),
            "observed_categorical": _pieces(store.observed_categorical, starts, self.encoder_steps),
        }
        inputs = {name: array for name, array in inputs.items() if array.shape[-1]}
        return inputs, self._targets(starts, series)

    def targets(self, positions: np.ndarray) -> np.ndarray:
        """Returns the targets that `gather` gives, without making the inputs."""
        starts = self._first_rows(positions)
        return self._targets(starts, self._series(starts))

    def batches(
        self,
        batch_size: int,
        *,
        shuffle_seed: int | None = None,
        epoch: int = 0,
        windows_per_epoch: int = 0,
    ) -> Iterator[tuple[Inputs, np.ndarray]]:
        """Yields the batches of one epoch as NumPy arrays; see `dataset`."""
        order = batches.epoch_order(len(self), shuffle_seed, epoch, windows_per_epoch)
        share = self.preprocessing.config.unknown_share if shuffle_seed is not None else 0.0
        for batch, start in enumerate(range(0, len(order), batch_size)):
            inputs, targets = self.gather(order[start : start + batch_size])
            if share:
                batches.drop_to_unknown(inputs, share, (shuffle_seed, epoch, batch))
            yield inputs, targets

    def dataset(
        self,
        batch_size: int,
        *,
        shuffle_seed: int | None = None,
        first_epoch: int = 0,
        epochs: int | None = 1,
        windows_per_epoch: int = 0,
    ) -> tf.data.Dataset:
        """Makes a dataset of (inputs, targets) batches, prefetched.

        Args:
            batch_size: windows per batch; the last batch of an epoch may have fewer.
            shuffle_seed: shuffles; the order of an epoch depends on this seed and the number of the
                epoch only. A small share of the categories (`unknown_share`) is then replaced by
                the unknown token, to train it. None: in order, for evaluation.
            first_epoch: number of the first epoch.
            epochs: how many epochs the dataset has; None has no end. Iterating over a shuffled
                dataset again goes on with the epochs after these, so that each pass of `fit` has
                an order of its own.
            windows_per_epoch: at most so many windows, drawn anew each epoch (evenly spaced if not
                shuffled); 0 takes all.
        """
        return batches.make_dataset(
            self, batch_size, shuffle_seed, first_epoch, epochs, windows_per_epoch
        )

    def steps_per_epoch(self, batch_size: int, windows_per_epoch: int = 0) -> int:
        """Returns the number of batches of an epoch."""
        windows = min(len(self), windows_per_epoch or len(self))
        return -(-windows // batch_size)

    def actuals(self, positions: np.ndarray) -> np.ndarray:
        """Returns the target over the horizon, own units, (batch, horizon), NaN if missing."""
        return self._future(self.store.target, self._first_rows(positions))

    def lagged(self, positions: np.ndarray, lag: int) -> np.ndarray:
        """Returns the target `lag` rows before each row of the horizon, in its own units.

        Returns:
            (batch, horizon) float64; NaN where that row is missing, beyond a gap, or not yet known
            at the forecast origin.
        """
        origins = self._first_rows(positions)[:, None] + self.encoder_steps
        rows = origins + np.arange(self.horizon) - lag
        return self._past_target(rows, origins)

    def last_value(self, positions: np.ndarray) -> np.ndarray:
        """Returns the last target known at the origin, (batch,) float64; NaN if there is none."""
        past = self.history(positions, self.encoder_steps)
        last = past.shape[1] - 1 - np.argmax(~np.isnan(past[:, ::-1]), axis=1)
        return past[np.arange(len(past)), last]

    def history(self, positions: np.ndarray, steps: int) -> np.ndarray:
        """Returns the past target in its own units, (batch, steps) float64, the latest last.

        NaN where it is missing or beyond the start of the series or a gap.
        """
        origins = self._first_rows(positions)[:, None] + self.encoder_steps
        return self._past_target(origins + np.arange(-steps, 0), origins)

    def unscale(self, positions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Takes scaled values to the target's own units.

        Args:
            positions: (batch,) ints.
            values: (batch, ...), such as the model's (batch, horizon, quantiles).

        Returns:
            float64, the shape of `values`.
        """
        values = np.asarray(values)
        place = self.store.series.scaling[self._series(self._first_rows(positions))]
        place = place.reshape((-1,) + (1,) * (values.ndim - 1))
        return self.preprocessing.target_scaler.inverse(values, place)

    def times(self, positions: np.ndarray) -> np.ndarray:
        """Returns the times of the horizon, (batch, horizon) datetime64 in UTC, or int64."""
        times = self._future(self.store.times, self._first_rows(positions))
        return self.store.series.axis.datetimes(times)

    def history_times(self, positions: np.ndarray, steps: int) -> np.ndarray:
        """Returns the times of `history`, (batch, steps), extrapolated where it has no rows."""
        origins = self._first_rows(positions) + self.encoder_steps
        axis = self.store.series.axis
        first = np.repeat(self.store.times[origins][:, None], steps, axis=1)
        return axis.datetimes(axis.advance(first, np.arange(-steps, 0)))

    def time_column(self, positions: np.ndarray) -> pa.Array:
        """Returns the times of the horizon, flat, in the type of the table's time column."""
        times = self._future(self.store.times, self._first_rows(positions))
        return self.store.series.axis.arrow(times.ravel())

    def series(self, positions: np.ndarray) -> list[tuple[Any, ...]]:
        """Returns the group values of each window's series."""
        names = self.store.series.names
        return [names[place] for place in self._series(self._first_rows(positions))]

    def _targets(self, starts: np.ndarray, series: np.ndarray) -> np.ndarray:
        targets = self._future(self.store.target, starts)
        place = self.store.series.scaling[series][:, None]
        return self.preprocessing.target_scaler.forward(targets, place).astype(np.float32)

    def _reals(self, role: str, starts: np.ndarray, steps: int) -> np.ndarray:
        columns = _pieces(getattr(self.store, f"{role}_real"), starts, steps)
        return self.preprocessing.missing_values(role).expand(columns)

    def _first_rows(self, positions: np.ndarray) -> np.ndarray:
        positions = np.asarray(positions, np.int64)
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(self):
            raise IndexError(
                f"Positions must be in [0, {len(self)}). Received: {positions.min()} to "
                f"{positions.max()}."
            )
        runs = np.searchsorted(self.ends, positions, side="right")
        before = np.append(0, self.ends)[runs]
        return self.starts[runs] + positions - before

    def _series(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.store.series.offsets, rows, side="right") - 1

    def _future(self, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return values[(starts + self.encoder_steps)[:, None] + np.arange(self.horizon)]

    def _past_target(self, rows: np.ndarray, origins: np.ndarray) -> np.ndarray:
        segments = self.store.series.segments
        first = segments[np.searchsorted(segments, origins - 1, side="right") - 1]
        valid = (rows >= first) & (rows < origins)
        return np.where(valid, self.store.target[np.where(valid, rows, 0)], np.nan)


def _pieces(matrix: np.ndarray, starts: np.ndarray, steps: int) -> np.ndarray:
    """Returns (batch, steps, variables): contiguous pieces of a matrix of rows."""
    rows, variables = matrix.shape
    overlapping = np.lib.stride_tricks.as_strided(
        matrix,
        (rows - steps + 1, steps * variables),
        (matrix.strides[0], matrix.itemsize),
        writeable=False,
    )
    return overlapping[starts].reshape(len(starts), steps, variables)


def split_windows(
    store: Store, preprocessing: Preprocessing
) -> tuple[dict[str, Windows], list[Skipped]]:
    """Finds the windows of each split.

    A window is whole (no gap), has a known target among its future rows, and these lie in one
    split. Its past rows may be of earlier splits.

    Returns:
        The windows by split, and the series too short for any.
    """
    config, series = preprocessing.config, store.series
    past, steps = config.encoder_steps, config.encoder_steps + config.horizon
    windows = {}
    starts = store.rows - steps + 1
    whole = np.zeros(0, bool)
    if starts > 0:
        segment = _numbered(series.segments, store.rows)
        known = np.append(np.int32(0), np.cumsum(~np.isnan(store.target), dtype=np.int32))
        split = _numbered(series.validation, store.rows)
        split += _numbered(series.test, store.rows)
        split -= 2 * _numbered(series.offsets[:-1], store.rows)
        split += 2
        whole = segment[:starts] == segment[steps - 1 :]
        whole &= known[steps:] > known[past : past + starts]
        whole &= split[past : past + starts] == split[steps - 1 :]
    for number, name in enumerate(SPLITS):
        chosen = whole & (split[past : past + starts] == number) if starts > 0 else whole
        windows[name] = Windows(store, preprocessing, *_runs(chosen))
    return windows, _skipped(store, steps)


def _numbered(firsts: np.ndarray, rows: int) -> np.ndarray:
    """Returns (rows,) int32: how many of `firsts` are at or before each row."""
    counts = np.bincount(firsts, minlength=rows + 1)[:rows]
    return np.cumsum(counts, dtype=np.int32)


def _runs(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first row of each run of True, and how many there are up to each run's end."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return edges[::2], np.cumsum(edges[1::2] - edges[::2])


def _skipped(store: Store, needed: int) -> list[Skipped]:
    series = store.series
    lengths = np.diff(np.append(series.segments, store.rows))
    first_segment = np.searchsorted(series.segments, series.offsets[:-1])
    longest = np.maximum.reduceat(lengths, first_segment)
    return [
        Skipped(series.names[place], int(longest[place]), needed)
        for place in np.flatnonzero(longest < needed)
    ]
