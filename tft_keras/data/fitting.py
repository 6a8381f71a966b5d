"""Fits a preprocessing on the training rows of a table."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from tft_keras.config import DataConfig
from tft_keras.data import columns
from tft_keras.data.layout import Layout, describe_series
from tft_keras.data.preprocessing import Preprocessing, RealVariable
from tft_keras.data.scaling import Scaler, fit_scaler
from tft_keras.data.schema import Schema
from tft_keras.data.table import Table
from tft_keras.data.vocabulary import Vocabulary
from tft_keras.errors import InputError


def fit(
    table: Table,
    layout: Layout,
    validation: np.ndarray,
    target: np.ndarray,
    schema: Schema,
    config: DataConfig,
) -> Preprocessing:
    """Fits scaling and vocabularies, one column at a time.

    Args:
        validation: (series,) first row of each series that is not a training row.
        target: (rows,) float64 target, checked by `read_target`.

    Raises:
        InputError: a value is infinite, no training row has a target, or a static column is not
            constant in a series.
    """
    rows = _TrainingRows(layout, validation)
    scaler = _fit_target(target, rows, schema, config)
    reals = {schema.target: RealVariable(scaler, bool(np.isnan(rows.take(target)).any()))}
    vocabularies = {}
    for column in schema.inputs:
        static = column in schema.static
        if schema.is_categorical(column, table.columns[column]):
            read = read_static_categories if static else read_categories
            codes, keys = read(table, layout, column)
            codes = codes[rows.series] if static else rows.take(codes)
            vocabularies[column] = Vocabulary.fit(codes, keys)
            if vocabularies[column].size < 3:
                _warn(column, "has fewer than two categories")
        else:
            values = (read_static_reals if static else read_reals)(table, layout, column)
            values = values[rows.series] if static else rows.take(values)
            offsets = rows.offsets if config.scale_per_series and not static else None
            reals[column] = _fit_real(column, values, offsets, config)
    series = tuple(layout.names) if config.scale_per_series else ()
    return Preprocessing(schema, config, layout.axis.step, reals, vocabularies, series)


class _TrainingRows:
    """The rows before `validation` of every series.

    Attributes:
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

    def take(self, values: np.ndarray) -> np.ndarray:
        return values[self._mask]


def _fit_target(
    target: np.ndarray, rows: _TrainingRows, schema: Schema, config: DataConfig
) -> Scaler:
    values = rows.take(target)
    if np.isnan(values).all():
        raise InputError(
            "The training rows need values of the target. Received: "
            f"{schema.target!r} missing in all {len(values)} of them. Give another target, or "
            "later starts of the validation and test splits."
        )
    offsets = rows.offsets if config.scale_per_series else None
    scaler = fit_scaler(values, offsets, config.scaling, config.target_log1p)
    if not scaler.scale:
        _warn(schema.target, "is constant")
    # A forecast must be able to leave a constant: the target is never scaled to nothing.
    return dataclasses.replace(
        scaler,
        scale=scaler.scale or 1.0,
        series_scale=tuple(scale or 1.0 for scale in scaler.series_scale),
    )


def _fit_real(
    column: str, values: np.ndarray, offsets: np.ndarray | None, config: DataConfig
) -> RealVariable:
    missing = np.isnan(values)
    if missing.all():
        _warn(column, "is missing throughout")
        return RealVariable(Scaler(scale=0.0))
    if np.nanmin(values) == np.nanmax(values):
        _warn(column, "is constant")
        return RealVariable(Scaler(float(np.nanmin(values)), 0.0), bool(missing.any()))
    return RealVariable(fit_scaler(values, offsets, config.scaling), bool(missing.any()))


def _warn(column: str, what: str) -> None:
    message = f"Column {column!r} {what} in the training rows: the model can learn nothing from it."
    warnings.warn(message, UserWarning, stacklevel=4)


def read_reals(table: Table, layout: Layout, column: str) -> np.ndarray:
    """Reads a real-valued column in the order of the layout.

    Returns:
        (rows,) float64, NaN where missing.

    Raises:
        InputError: a value is infinite.
    """
    values = layout.take(columns.reals(table, column), np.nan)
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise InputError(
            "Values must be finite or missing. Received: "
            f"{column}={values[row]} in {layout.describe(row)}; {int(infinite.sum())} such rows. "
            "Replace infinity by a number or by null."
        )
    return values


def read_target(table: Table, layout: Layout, column: str, log1p: bool) -> np.ndarray:
    """Reads the target; see `read_reals`.

    Raises:
        InputError: a value is infinite, or below zero where its logarithm is asked for.
    """
    target = read_reals(table, layout, column)
    negative = target < 0
    if log1p and negative.any():
        row = int(negative.argmax())
        raise InputError(
            "target_log1p needs a target that is never negative. Received: "
            f"{column}={target[row]} in {layout.describe(row)}. Set target_log1p=False."
        )
    return target


def read_categories(table: Table, layout: Layout, column: str) -> tuple[np.ndarray, list[str]]:
    """Reads a categorical column in the order of the layout.

    Returns:
        (rows,) int32 positions in the keys, -1 where missing; the keys.
    """
    codes, keys, _ = columns.categories(table, column)
    return layout.take(codes, -1), keys


def read_static_reals(table: Table, layout: Layout, column: str) -> np.ndarray:
    """Reads a real-valued column that is constant in each series, missing values apart.

    Returns:
        (series,) float64, NaN where missing in all rows.

    Raises:
        InputError: it is not constant, or infinite.
    """
    values = read_reals(table, layout, column)
    low = np.fmin.reduceat(values, layout.offsets[:-1])
    high = np.fmax.reduceat(values, layout.offsets[:-1])
    _check_static(layout, column, low < high, low, high)
    return low


def read_static_categories(
    table: Table, layout: Layout, column: str
) -> tuple[np.ndarray, list[str]]:
    """Reads a categorical column that is constant in each series, missing values apart.

    Returns:
        (series,) int32 positions in the keys, -1 where missing in all rows; the keys.

    Raises:
        InputError: it is not constant.
    """
    codes, keys = read_categories(table, layout, column)
    high = np.maximum.reduceat(codes, layout.offsets[:-1])
    low = np.minimum.reduceat(np.where(codes < 0, len(keys), codes), layout.offsets[:-1])
    text = np.array([*keys, ""], object)
    _check_static(layout, column, low < high, text[low], text[high])
    return high, keys


def _check_static(
    layout: Layout, column: str, varies: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    if varies.any():
        series = int(varies.argmax())
        raise InputError(
            "A static column must be constant in each series. Received: "
            f"{column}={low[series]!r} and {high[series]!r} in "
            f"{describe_series(layout.group, layout.names[series])}. Name it in `known` or "
            "`observed`, or complete `group`."
        )
