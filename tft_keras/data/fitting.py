"""How each column becomes a variable: fitted on the training rows, or as it was fitted before."""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings

import numpy as np

from tft_keras.config import ROLES, DataConfig
from tft_keras.data.calendar import calendar_inputs, holiday_input
from tft_keras.data.derived import LEVEL_MOVED, SPREAD_MOVED, Derived
from tft_keras.data.layout import Layout
from tft_keras.data.local_scaling import fit_local_scaler
from tft_keras.data.preprocessing import Preprocessing, RealVariable
from tft_keras.data.scaling import Scaler, fit_scaler
from tft_keras.data.schema import Schema
from tft_keras.data.segments import first_of_segment
from tft_keras.data.table import Table
from tft_keras.data.times import NANOSECONDS
from tft_keras.data.vocabulary import Vocabulary
from tft_keras.data.window_index import Runs
from tft_keras.errors import InputError

# Share of the training rows that must have a row one season before, for it to be an input: what
# few seasons hold is learned by heart.
_LAGGED = 0.85


class Fit(abc.ABC):
    """Tells how a column becomes a variable.

    Attributes:
        derived: the inputs that no column holds.
    """

    derived: Derived

    @abc.abstractmethod
    def is_categorical(self, column: str) -> bool:
        """Whether an input column is read as categories."""

    @abc.abstractmethod
    def real(self, column: str, role: str, values: np.ndarray) -> RealVariable:
        """Returns the variable of a real-valued column.

        Args:
            role: `target`, `static`, `known` or `observed`.
            values: (rows,) float64, or (series,) of a static one.
        """

    @abc.abstractmethod
    def vocabulary(self, column: str, role: str, codes: np.ndarray, keys: list[str]) -> Vocabulary:
        """Returns the vocabulary of a categorical column, given as `Rows.categories` does."""


class Fitted(Fit):
    """As fitted before; warns of categories that were not trained.

    Args:
        preprocessing: fitted on another table, or on an earlier state of this one.
    """

    def __init__(self, preprocessing: Preprocessing) -> None:
        self._preprocessing = preprocessing
        self.derived = preprocessing.derived

    def is_categorical(self, column: str) -> bool:
        return column in self._preprocessing.vocabularies

    def real(self, column: str, role: str, values: np.ndarray) -> RealVariable:
        return self._preprocessing.reals[column]

    def vocabulary(self, column: str, role: str, codes: np.ndarray, keys: list[str]) -> Vocabulary:
        vocabulary = self._preprocessing.vocabularies[column]
        known = set(vocabulary.keys)
        new = np.array([key not in known for key in keys] + [False])
        count = int(new[codes].sum())
        if count:
            what = "series" if role == "static" else "rows"
            first = keys[int(codes[new[codes]][0])]
            _warn(
                f"Column {column!r} has categories that were not trained, such as {first!r}, in "
                f"{count} of {len(codes)} {what} ({count / len(codes):.0%}): they count as unknown."
            )
        return vocabulary


class Fitting(Fit):
    """Fits on the training rows, one column at a time.

    Scaling is fitted on all rows before the validation split; vocabularies on those that a training
    window shows to the model, so that no category stands in them whose embedding is never trained.

    Args:
        table, layout: the table.
        validation: (series,) first row of each series that is not a training row.
        windows: the training windows.
        schema, config: roles of the columns and treatment of the data.
    """

    def __init__(
        self,
        table: Table,
        layout: Layout,
        validation: np.ndarray,
        windows: Runs,
        schema: Schema,
        config: DataConfig,
    ) -> None:
        self._table, self._layout, self._schema, self._config = table, layout, schema, config
        self._rows = _TrainingRows(layout, validation)
        self._local = config.scaling == "local" or (
            config.scaling == "auto" and not config.scale_per_series
        )
        self.derived = self._derive()
        past, steps = config.encoder_steps, config.encoder_steps + config.horizon
        self._shown = {
            "known": windows.rows(0, steps, layout.rows),
            "observed": windows.rows(0, past, layout.rows),
        }
        self._shown["static"] = np.logical_or.reduceat(self._shown["known"], layout.offsets[:-1])
        self._reals: dict[str, RealVariable] = {}
        self._vocabularies: dict[str, Vocabulary] = {}

    def is_categorical(self, column: str) -> bool:
        return self._schema.is_categorical(column, self._table.columns[column])

    def real(self, column: str, role: str, values: np.ndarray) -> RealVariable:
        if role == "target":
            fitted = self._target(column, values)
        elif role == "static":
            fitted = _fit_real(column, values[self._rows.series], None, self._config)
        elif role == "observed" and self._local and self._config.local_observed:
            fitted = self._local_variable(column, values)
        else:
            fitted = _fit_real(column, self._rows.take(values), self._offsets, self._config)
        self._reals[column] = fitted
        return fitted

    def vocabulary(self, column: str, role: str, codes: np.ndarray, keys: list[str]) -> Vocabulary:
        shown = self._shown[role]
        # A table too short for a training window is refused later, in words of its own.
        vocabulary = Vocabulary.fit(codes[shown] if shown.any() else codes, keys)
        if vocabulary.size < 3:
            _warn_of_nothing(column, "has fewer than two categories")
        self._vocabularies[column] = vocabulary
        return vocabulary

    def result(self) -> Preprocessing:
        """Returns what was fitted, once every column was."""
        series = tuple(self._layout.series.keys) if self._config.scale_per_series else ()
        derived = {
            name: RealVariable(Scaler()) for role in ROLES for name in self.derived.real(role)
        }
        return Preprocessing(
            self._schema,
            self._config,
            self._layout.axis.step,
            self._reals | derived,
            self._vocabularies,
            series,
            derived=self.derived,
        )

    @property
    def _offsets(self) -> np.ndarray | None:
        return self._rows.offsets if self._config.scale_per_series else None

    def _target(self, column: str, target: np.ndarray) -> RealVariable:
        values = self._rows.take(target)
        missing = np.isnan(values)
        if missing.all():
            raise InputError(
                "The training rows need values of the target. Received: "
                f"{column!r} missing in all {len(values)} of them. Give another target, or "
                "later starts of the validation and test splits."
            )
        config = self._config
        if self._local:
            if np.nanmin(values) == np.nanmax(values):
                _warn_of_nothing(column, "is constant")
            return self._local_variable(column, target, config.target_log1p)
        scaler = fit_scaler(values, self._offsets, _method(config), config.target_log1p)
        if not scaler.scale:
            _warn_of_nothing(column, "is constant")
        # A forecast must be able to leave a constant: the target is never scaled to nothing.
        scaler = dataclasses.replace(
            scaler,
            scale=scaler.scale or 1.0,
            series_scale=tuple(scale or 1.0 for scale in scaler.series_scale),
        )
        return RealVariable(scaler, bool(missing.any()))

    def _local_variable(self, column: str, values: np.ndarray, log1p: bool = False) -> RealVariable:
        config, seasons = self._config, self._layout.axis.step.seasons
        steps = config.local_steps or config.encoder_steps
        scaler = fit_local_scaler(
            values,
            self._rows.numbers,
            self._layout.segments,
            steps,
            distance=seasons[0] if seasons else max(1, steps // 4),
            robust=config.local_statistics == "robust",
            log1p=log1p,
        )
        missing = np.isnan(self._rows.take(values))
        if missing.all():
            _warn_of_nothing(column, "is missing throughout")
        return RealVariable(scaler, bool(missing.any()))

    def _derive(self) -> Derived:
        """Returns the inputs that suit the table and the settings, but for names it has itself."""
        layout, config, rows = self._layout, self._config, self._rows.numbers
        step = layout.axis.step
        own = {self._schema.target, *self._schema.inputs}
        calendar, waves = (), ()
        if config.calendar == "auto" and len(rows) and layout.axis.unit:
            edges = self._rows.offsets
            ends = np.stack([edges[:-1], edges[1:] - 1])[:, self._rows.series]
            first, last = layout.times[rows[ends]]
            span = int((last - first).max()) * NANOSECONDS[layout.axis.unit]
            calendar, waves = (
                tuple(name for name in names if name not in own)
                for names in calendar_inputs(step, span)
            )
        if config.holidays:
            calendar = (*calendar, holiday_input(step, config.holidays))
        lags = ()
        if config.lags == "auto":
            age = rows - first_of_segment(layout.segments, rows)
            lags = tuple(s for s in step.seasons if len(age) and np.mean(age >= s) >= _LAGGED)
        moved = sorted(own & {LEVEL_MOVED, SPREAD_MOVED})
        if self._local and moved:
            raise InputError(
                "A model with local scaling has inputs of its own by the names "
                f"{LEVEL_MOVED!r} and {SPREAD_MOVED!r}. Received: column {moved[0]!r}. Rename it, "
                "or set scaling='standard'."
            )
        return Derived(calendar, waves, lags, self._local)


class _TrainingRows:
    """The rows before `validation` of every series.

    Attributes:
        numbers: of the rows, rising.
        offsets: (series + 1,) first training row of each series among the training rows.
        series: (series,) bool, whether a series has any.
    """

    def __init__(self, layout: Layout, validation: np.ndarray) -> None:
        lengths = validation - layout.offsets[:-1]
        self.offsets = np.append(0, np.cumsum(lengths))
        self.series = lengths > 0
        edges = np.zeros(layout.rows + 1, np.int8)
        np.add.at(edges, layout.offsets[:-1], 1)
        np.add.at(edges, validation, -1)
        self._mask = np.cumsum(edges[:-1], dtype=np.int8).astype(bool)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        return np.flatnonzero(self._mask)

    def take(self, values: np.ndarray) -> np.ndarray:
        return values[self._mask]


def _fit_real(
    column: str, values: np.ndarray, offsets: np.ndarray | None, config: DataConfig
) -> RealVariable:
    missing = np.isnan(values)
    if missing.all():
        _warn_of_nothing(column, "is missing throughout")
        return RealVariable(Scaler(scale=0.0))
    if np.nanmin(values) == np.nanmax(values):
        _warn_of_nothing(column, "is constant")
        return RealVariable(Scaler(float(np.nanmin(values)), 0.0), bool(missing.any()))
    return RealVariable(fit_scaler(values, offsets, _method(config)), bool(missing.any()))


def _method(config: DataConfig) -> str:
    """Returns how columns are scaled by all their training rows."""
    return "standard" if config.scaling in ("auto", "local") else config.scaling


def _warn_of_nothing(column: str, what: str) -> None:
    _warn(f"Column {column!r} {what} in the training rows: the model can learn nothing from it.")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
