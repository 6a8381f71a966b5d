"""Columns to scaled variables: each is decoded once, fitted if need be, and encoded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tft_keras.config import KINDS, input_name
from tft_keras.data.derived import LEVEL_MOVED, SPREAD_MOVED, STATISTICS
from tft_keras.data.fitting import Fit
from tft_keras.data.local_scaling import LocalScaler, is_local
from tft_keras.data.missing import MissingValues
from tft_keras.data.rows import Rows
from tft_keras.data.scaling import scale_by
from tft_keras.data.schema import Schema
from tft_keras.errors import InputError

# Networks square and sum their inputs, in float32.
_LARGEST = 1e15
# Of float32: differences below this share of a value are lost.
_RESOLUTION = float(np.finfo(np.float32).eps)


def columns_by_matrix(schema: Schema, fit: Fit) -> dict[str, list[str]]:
    """Returns the columns of each matrix of a `Store`, the target first among the observed ones."""
    matrices: dict[str, list[str]] = {}
    for role in ("known", "observed"):
        columns = getattr(schema, role)
        reals = [column for column in columns if not fit.is_categorical(column)]
        reals = [schema.target, *reals] if role == "observed" else reals
        codes = [column for column in columns if fit.is_categorical(column)]
        matrices[input_name(role, "real")] = [*reals, *fit.derived.real(role)]
        matrices[input_name(role, "categorical")] = [*codes, *fit.derived.categorical(role)]
    matrices[STATISTICS] = ["center", "scale"] if fit.derived.moves else []
    return matrices


def encode_columns(
    rows: Rows,
    schema: Schema,
    fit: Fit,
    target: np.ndarray,
    scaling: np.ndarray,
    per_series: bool,
    needed: np.ndarray | None = None,
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yields the columns of a store's row matrices, one at a time.

    Args:
        target: (rows,) float64.
        scaling: (series,) each series' place among the fitted ones.
        per_series: whether scaling is one by series.
        needed: (rows,) bool, the rows in which known inputs must not be missing.

    Yields:
        Name of the matrix, column in it, and values (rows,), NaN where missing.

    Raises:
        InputError: a scaled value does not fit into float32, or a needed value is missing.
    """
    place = np.repeat(scaling, np.diff(rows.layout.offsets)) if per_series else scaling[:1]
    matrices = columns_by_matrix(schema, fit)
    derived = fit.derived
    for role in ("observed", "known"):
        must = needed if role == "known" else None
        real, categorical = (input_name(role, kind) for kind in KINDS)
        for position, column in enumerate(matrices[real]):
            if column in derived.real(role):
                continue
            is_target = column == schema.target
            values = target if is_target else rows.reals(column)
            _check_there(rows, column, np.isnan(values), must)
            variable = fit.real(column, "target" if is_target else role, values)
            scaler = variable.scaler
            local = is_local(scaler)
            if local:
                found = scaler.rows(values, rows.layout.segments)
                statistics = scaler.filled(found)
            else:
                statistics = scaler.parameters(place)
            scaled = scale_by(values, *statistics, scaler.log1p)
            if local or scaler.scale:
                _check_digits(rows, column, scaled)
            yield real, position, _in_float32(rows, column, values, scaled, None)
            if is_target and local:
                yield from _target_statistics(scaler, found, rows, matrices)
        for position, column in enumerate(matrices[categorical]):
            own = column in derived.categorical(role)
            read = rows.calendar_categories if own else rows.categories
            codes, keys = read(column)
            vocabulary = fit.vocabulary(column, role, codes, keys)
            if not vocabulary.missing:  # else missing is one of its categories, as "no holiday"
                _check_there(rows, column, codes < 0, must)
            yield categorical, position, vocabulary.encode(codes, keys)
    waves = input_name("known", "real")
    for column in derived.waves:
        values = rows.calendar_wave(column).astype(np.float32)
        yield waves, matrices[waves].index(column), values


def _target_statistics(
    scaler: LocalScaler,
    statistics: tuple[np.ndarray, np.ndarray],
    rows: Rows,
    matrices: dict[str, list[str]],
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yields the target's statistics, and the inputs that tell how they moved."""
    for position, values in enumerate(scaler.filled(statistics)):
        yield STATISTICS, position, values
    observed = input_name("observed", "real")
    moves = scaler.moves(statistics, scaler.rows_before(statistics, rows.layout.segments))
    for name, values in zip((LEVEL_MOVED, SPREAD_MOVED), moves, strict=True):
        yield observed, matrices[observed].index(name), values.astype(np.float32)


def encode_static(rows: Rows, schema: Schema, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Returns the static variables, (series, variables) float32 and int32."""
    reals: list[np.ndarray] = []
    indicators: list[bool] = []
    categorical: list[np.ndarray] = []
    for column in schema.static:
        if fit.is_categorical(column):
            codes, keys = rows.static_categories(column)
            categorical.append(fit.vocabulary(column, "static", codes, keys).encode(codes, keys))
        else:
            values = rows.static_reals(column)
            variable = fit.real(column, "static", values)
            scaled = variable.scaler.forward(values, np.array([-1]))
            reals.append(_in_float32(rows, column, values, scaled, rows.layout.offsets[:-1]))
            indicators.append(variable.indicator)
    series = len(rows.layout.series)
    variables = _side_by_side(reals, series, np.float32)
    variables = MissingValues(tuple(indicators)).expand(variables)
    return variables, _side_by_side(categorical, series, np.int32)


def _check_digits(rows: Rows, column: str, scaled: np.ndarray) -> None:
    """Raises if what float32 keeps of scaled values are not their differences."""
    low, high = np.fmin.reduce(scaled), np.fmax.reduce(scaled)
    largest = max(abs(low), abs(high))
    if 0 < high - low < 16 * _RESOLUTION * largest:
        row = int(np.nanargmax(np.abs(scaled)))
        raise InputError(
            "Values must differ by more than the digits of float32 after scaling. Received: "
            f"{column}={float(scaled[row]):.9g} after scaling in {rows.layout.describe(row)}, all "
            f"within {float(high - low):.3g}. Set scaling='standard' or 'robust'."
        )


def _in_float32(
    rows: Rows, column: str, values: np.ndarray, scaled: np.ndarray, at: np.ndarray | None
) -> np.ndarray:
    """Returns scaled values in float32; `at` are their rows, by default one after another."""
    fits = np.isnan(values) | (np.abs(scaled) <= _LARGEST)
    if not fits.all():
        place = int(np.argmin(fits))
        row = place if at is None else int(at[place])
        raise InputError(
            f"Scaled values must not be larger than {_LARGEST:.0e}. Received: "
            f"{column}={float(values[place])} in {rows.layout.describe(row)}. Set "
            "scaling='robust', take the logarithm, or correct the value."
        )
    return scaled.astype(np.float32)


def _check_there(rows: Rows, column: str, missing: np.ndarray, needed: np.ndarray | None) -> None:
    if needed is None:
        return
    wrong = missing & needed
    if wrong.any():
        raise InputError(
            "Known inputs must be there over the whole horizon. Received: no "
            f"{column!r} in {rows.layout.describe(int(wrong.argmax()))}. Fill it in."
        )


def _side_by_side(variables: list[np.ndarray], series: int, dtype: type) -> np.ndarray:
    if not variables:
        return np.zeros((series, 0), dtype)
    return np.ascontiguousarray(np.stack(variables, axis=1), dtype)
