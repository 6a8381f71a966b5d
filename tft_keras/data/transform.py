"""Applies a preprocessing to a table: columns to scaled variables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tft_keras.data.fitting import (
    read_categories,
    read_reals,
    read_static_categories,
    read_static_reals,
)
from tft_keras.data.layout import Layout
from tft_keras.data.preprocessing import Preprocessing
from tft_keras.data.table import Table


def matrix_widths(preprocessing: Preprocessing) -> dict[str, int]:
    """Returns the number of columns of each of the row matrices of a `Store`."""
    widths = {}
    for role in ("known", "observed"):
        widths[f"{role}_real"] = len(preprocessing.real_columns(role))
        widths[f"{role}_categorical"] = len(preprocessing.categorical_columns(role))
    return widths


def row_columns(
    table: Table,
    layout: Layout,
    target: np.ndarray,
    preprocessing: Preprocessing,
    scaling: np.ndarray,
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yields the columns of a store's row matrices, one at a time.

    Args:
        target: (rows,) float64.
        scaling: (series,) each series' place among the fitted ones.

    Yields:
        Name of the matrix, column in it, and values (rows,): float32, NaN where missing, or int32.
    """
    place = np.repeat(scaling, np.diff(layout.offsets)) if preprocessing.series else scaling[:1]
    for role in ("observed", "known"):
        for position, column in enumerate(preprocessing.real_columns(role)):
            is_target = column == preprocessing.schema.target
            values = target if is_target else read_reals(table, layout, column)
            scaled = preprocessing.reals[column].scaler.forward(values, place)
            yield f"{role}_real", position, scaled.astype(np.float32)
        for position, column in enumerate(preprocessing.categorical_columns(role)):
            codes, keys = read_categories(table, layout, column)
            encoded = preprocessing.vocabularies[column].encode(codes, keys)
            yield f"{role}_categorical", position, encoded


def static_variables(
    table: Table, layout: Layout, preprocessing: Preprocessing
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the static variables, (series, variables) float32 and int32."""
    real: list[np.ndarray] = []
    categorical: list[np.ndarray] = []
    overall = np.array([-1])
    for column in preprocessing.real_columns("static"):
        values = read_static_reals(table, layout, column)
        real.append(preprocessing.reals[column].scaler.forward(values, overall))
    for column in preprocessing.categorical_columns("static"):
        codes, keys = read_static_categories(table, layout, column)
        categorical.append(preprocessing.vocabularies[column].encode(codes, keys))
    reals = _side_by_side(real, layout, np.float32)
    reals = preprocessing.missing_values("static").expand(reals)
    return reals, _side_by_side(categorical, layout, np.int32)


def _side_by_side(variables: list[np.ndarray], layout: Layout, dtype: type) -> np.ndarray:
    if not variables:
        return np.zeros((len(layout.names), 0), dtype)
    return np.ascontiguousarray(np.stack(variables, axis=1), dtype)
