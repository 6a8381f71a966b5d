"""Windows: an index of (series, start) over a store, gathered batch by batch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tft_keras.config import input_name
from tft_keras.data import batches
from tft_keras.data.derived import lag_rows
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.scaling import scale_by, unscale_by
from tft_keras.data.segments import first_of_segment
from tft_keras.data.store import Store
from tft_keras.errors import InputError

if TYPE_CHECKING:
    import tensorflow as tf

Inputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A series without a window.

    Attributes:
        name: its group values.
        rows: of its longest run without a gap.
        needed: rows that a window takes.
        ended: whether it has the past, but lacks rows of the horizon with the known inputs.
    """

    name: tuple[Any, ...]
    rows: int
    needed: int
    ended: bool = False


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
            "known_real": self._known_reals(starts, series),
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
        one_pass = functools.partial(
            self.batches,
            batch_size,
            shuffle_seed=shuffle_seed,
            windows_per_epoch=windows_per_epoch,
        )
        return batches.make_dataset(
            one_pass,
            self.gather(np.zeros(min(1, len(self)), np.int64)),
            self.steps_per_epoch(batch_size, windows_per_epoch),
            first_epoch,
            epochs,
            goes_on=shuffle_seed is not None,
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

    def scale(self, positions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Takes values in the target's own units to scaled ones; undoes `unscale`."""
        return scale_by(np.asarray(values), *self._scaling(positions, np.ndim(values)))

    def unscale(self, positions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Takes scaled values to the target's own units.

        Args:
            positions: (batch,) ints.
            values: (batch, ...), such as the model's (batch, horizon, quantiles).

        Returns:
            float64, the shape of `values`.
        """
        return unscale_by(np.asarray(values), *self._scaling(positions, np.ndim(values)))

    def _scaling(self, positions: np.ndarray, axes: int) -> tuple[np.ndarray, np.ndarray, bool]:
        """Returns center and scale of each window, with so many axes, and whether log1p is used."""
        starts = self._first_rows(positions)
        statistics = self._target_statistics(starts, self._series(starts))
        center, scale = (np.reshape(part, (-1,) + (1,) * (axes - 1)) for part in statistics)
        return center, scale, self.preprocessing.target_scaler.log1p

    def origins(self, which: str) -> np.ndarray:
        """Returns the positions of the windows at some of the forecast origins.

        Args:
            which: `all`; `last`, the last window of each series; `every:N`, every N-th window of
                each series, counted back from its last one.

        Raises:
            InputError: it is none of these.
        """
        kind, _, number = which.partition(":")
        every = int(number) if kind == "every" and number.isdecimal() else 0
        if which not in ("all", "last") and not every:
            raise InputError(
                "Origins are all, last or every:N with a whole number N of at least 1. "
                f"Received: {which!r}."
            )
        positions = np.arange(len(self))
        if which == "all" or not len(self):
            return positions
        series = self._series(self._first_rows(positions))
        last = np.flatnonzero(np.diff(series, append=-1))
        if which == "last":
            return last
        return positions[(last[np.searchsorted(last, positions)] - positions) % every == 0]

    def series_count(self) -> int:
        """Returns how many series have a window."""
        return len(np.unique(self._series(self.starts)))

    def times(self, positions: np.ndarray) -> np.ndarray:
        """Returns the times of the horizon, (batch, horizon) datetime64 in UTC, or int64."""
        times = self._future(self.store.times, self._first_rows(positions))
        return self.store.series.axis.datetimes(times)

    def history_times(self, positions: np.ndarray, steps: int) -> np.ndarray:
        """Returns the times of `history`, (batch, steps), extrapolated where it has no rows."""
        origins = self._first_rows(positions)[:, None] + self.encoder_steps
        rows, axis = origins + np.arange(-steps, 0), self.store.series.axis
        valid = rows >= first_of_segment(self.store.series.segments, origins - 1)
        before = np.repeat(self.store.times[origins], steps, axis=1)
        extrapolated = axis.advance(before, np.arange(-steps, 0))
        return axis.datetimes(np.where(valid, self.store.times[np.maximum(rows, 0)], extrapolated))

    def wall_clock(self, times: np.ndarray) -> np.ndarray:
        """Returns what `times` or `history_times` gave on the clocks of the table's zone."""
        axis = self.store.series.axis
        return axis.wall_clock(np.asarray(times).astype(np.int64)) if axis.unit else times

    def time_column(self, positions: np.ndarray) -> pa.Array:
        """Returns the times of the horizon, flat, in the type of the table's time column."""
        times = self._future(self.store.times, self._first_rows(positions))
        return self.store.series.axis.arrow(times.ravel())

    def series(self, positions: np.ndarray) -> list[tuple[Any, ...]]:
        """Returns the group values of each window's series."""
        names = self.store.series.series.names
        return [names[place] for place in self._series(self._first_rows(positions))]

    def series_places(self, positions: np.ndarray) -> np.ndarray:
        """Returns each window's series by its place in the table, (batch,) ints."""
        return self._series(self._first_rows(positions))

    def group_columns(self, positions: np.ndarray) -> pa.Table:
        """Returns the group columns of the windows' series, in the types that the table has."""
        groups = self.store.series.series.groups
        places = self._series(self._first_rows(positions))
        return groups.take(pa.array(places)) if groups.num_columns else groups

    def _targets(self, starts: np.ndarray, series: np.ndarray) -> np.ndarray:
        center, scale = self._target_statistics(starts, series)
        targets = self._future(self.store.target, starts)
        log1p = self.preprocessing.target_scaler.log1p
        return scale_by(targets, center[:, None], scale[:, None], log1p).astype(np.float32)

    def _target_statistics(
        self, starts: np.ndarray, series: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns center and scale of each window's forecast, (batch,) float64."""
        if self.preprocessing.derived.moves:
            center, scale = self.store.target_statistics[starts + self.encoder_steps - 1].T
            return center, scale
        place = self.store.series.scaling[series]
        center, scale = self.preprocessing.target_scaler.parameters(place)
        return np.broadcast_to(center, place.shape), np.broadcast_to(scale, place.shape)

    def _known_reals(self, starts: np.ndarray, series: np.ndarray) -> np.ndarray:
        columns = self._reals("known", starts, self.encoder_steps + self.horizon)
        if not self.preprocessing.derived.lags:
            return columns
        return np.concatenate([columns, self._lags(starts, series)], axis=2)

    def _lags(self, starts: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Returns the target one season, or more, before each row; see `Derived.lags`.

        Each is scaled as its row is; where nothing is known it is 0, the center.

        Returns:
            (batch, encoder_steps + horizon, lags) float32.
        """
        past, horizon = self.encoder_steps, self.horizon
        origins = (starts + past)[:, None]
        if self.preprocessing.derived.moves:
            rows = np.minimum(np.arange(-past, horizon), -1)
            center, scale = np.moveaxis(self.store.target_statistics[origins + rows], 2, 0)
        else:
            center, scale = (s[:, None] for s in self._target_statistics(starts, series))
        lags = []
        for season in self.preprocessing.derived.lags:
            values = self._past_target(origins + lag_rows(season, past, horizon), origins)
            scaled = scale_by(values, center, scale, self.preprocessing.target_scaler.log1p)
            lags.append(np.nan_to_num(scaled, nan=0.0).astype(np.float32))
        return np.stack(lags, axis=2)

    def _reals(self, role: str, starts: np.ndarray, steps: int) -> np.ndarray:
        columns = _pieces(getattr(self.store, input_name(role, "real")), starts, steps)
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
        first = first_of_segment(self.store.series.segments, origins - 1)
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


def skipped_series(store: Store, needed: int) -> list[Skipped]:
    """Returns the series too short for a window of so many rows."""
    series = store.series
    lengths = np.diff(np.append(series.segments, store.rows))
    first_segment = np.searchsorted(series.segments, series.offsets[:-1])
    longest = np.maximum.reduceat(lengths, first_segment)
    return [
        Skipped(series.series.names[place], int(longest[place]), needed)
        for place in np.flatnonzero(longest < needed)
    ]
