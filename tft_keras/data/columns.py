"""Columns of any Arrow type as plain arrays: real values, category codes, times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from tft_keras.data.table import Table
from tft_keras.errors import InputError

_UNITS = ("s", "ms", "us", "ns")


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if types.is_dictionary(type_) else type_


def _is_text(type_: pa.DataType) -> bool:
    return (
        types.is_string(type_)
        or types.is_large_string(type_)
        or types.is_string_view(type_)
        or types.is_binary(type_)
        or types.is_large_binary(type_)
    )


def is_categorical_type(type_: pa.DataType) -> bool:
    """Whether columns of this type are categories without being said to be."""
    return types.is_dictionary(type_) or types.is_boolean(type_) or _is_text(type_)


def check_real_type(type_: pa.DataType, column: str, role: str) -> None:
    """Raises `InputError` if a column of this type cannot be read as real numbers."""
    value = _value_type(type_)
    if not (
        types.is_integer(value)
        or types.is_floating(value)
        or types.is_decimal(value)
        or types.is_boolean(value)
        or types.is_null(value)
    ):
        raise InputError(
            f"Column {column!r} must hold numbers to be {role}. Received: type={type_}. "
            "Convert it, or name it in `categorical` if it is an input."
        )


def check_time_type(type_: pa.DataType, column: str) -> None:
    """Raises `InputError` if a column of this type cannot order rows in time."""
    if not (types.is_integer(type_) or types.is_timestamp(type_) or types.is_date(type_)):
        raise InputError(
            f"The time column {column!r} must hold timestamps, dates or whole numbers. "
            f"Received: type={type_}. Convert it, for example with `pandas.to_datetime`."
        )


def reals(table: Table, column: str) -> np.ndarray:
    """Reads a column as real numbers.

    Returns:
        (rows,) float64; NaN where the table has null or NaN.
    """
    result = np.empty(table.rows, np.float64)
    row = 0
    for chunk in table.chunks(column):
        check_real_type(chunk.type, column, "a real-valued column")
        result[row : row + len(chunk)] = _real_chunk(chunk)
        row += len(chunk)
    return result


def _real_chunk(chunk: pa.Array) -> np.ndarray:
    if types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    if types.is_null(chunk.type):
        return np.full(len(chunk), np.nan)
    if types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.uint8())
    return chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def categories(table: Table, column: str) -> tuple[np.ndarray, list[str], list[Any]]:
    """Reads a column as categories, matched by value across chunks and number types.

    Returns:
        codes: (rows,) int32, positions in `keys`; -1 where missing.
        keys: the text that stands for each category (`1` for 1, 1.0 and decimal 1.00).
        values: the first Python value met for each key.
    """
    result = np.empty(table.rows, np.int32)
    codes: dict[str, int] = {}
    values: list[Any] = []
    row = 0
    for chunk in table.chunks(column):
        if not types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_encode()
        lookup = np.full(len(chunk.dictionary) + 1, -1, np.int32)
        for position, value in enumerate(chunk.dictionary.to_pylist()):
            key = category_key(value)
            if key is not None:
                lookup[position] = codes.setdefault(key, len(codes))
                if len(codes) > len(values):
                    values.append(value.decode() if isinstance(value, bytes) else value)
        indices = chunk.indices.cast(pa.int64()).fill_null(len(lookup) - 1)
        result[row : row + len(chunk)] = lookup[indices.to_numpy(zero_copy_only=False)]
        row += len(chunk)
    return result, list(codes), values


def category_key(value: Any) -> str | None:
    """Returns the text that stands for a category, or None for a missing one.

    Equal numbers get one key whatever their type, so that a column written as int in one file and
    as float, because of nulls, in the next one has one set of categories.
    """
    if value is None or value != value:
        return None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if math.isfinite(number) and number.is_integer() else repr(number)


def times(table: Table, column: str) -> tuple[np.ndarray, pa.DataType]:
    """Reads the time column.

    Returns:
        times: (rows,) int64; of an integer column its values, else counts since 1970 (UTC) in the
            unit of `datetime_unit`.
        type: the column's type; with the finest unit if files differ.

    Raises:
        InputError: a time is missing, or some files have a time zone and others have none.
    """
    type_ = _common_time_type(table.types(column), column)
    unit = datetime_unit(type_)
    result = np.empty(table.rows, np.int64)
    row = 0
    for chunk in table.chunks(column):
        check_time_type(chunk.type, column)
        if chunk.null_count:
            missing = row + int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(
                f"Every row needs a time. Received: no {column!r} in row {missing} (counted from "
                "0). Drop such rows or fill the times in."
            )
        try:
            if unit:
                chunk = chunk.cast(pa.timestamp(unit, getattr(chunk.type, "tz", None)))
            result[row : row + len(chunk)] = chunk.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"Times must fit into 64 bits. Received: {column!r} with {error}. Use a coarser "
                "unit or smaller numbers."
            ) from error
        row += len(chunk)
    return result, type_


def datetime_unit(type_: pa.DataType) -> str | None:
    """Returns the unit in which times of this type are counted; None for an integer index."""
    if types.is_integer(type_):
        return None
    return "s" if types.is_date(type_) else type_.unit


def _common_time_type(found: list[pa.DataType], column: str) -> pa.DataType:
    for type_ in found:
        check_time_type(type_, column)
    kinds = {(types.is_integer(type_), getattr(type_, "tz", None) is None) for type_ in found}
    if len(kinds) > 1:
        raise InputError(
            f"The files must agree on the kind of time in {column!r}. Received: "
            f"{', '.join(sorted({str(type_) for type_ in found}))}. Write them with one type."
        )
    if types.is_integer(found[0]):
        return max(found, key=lambda type_: type_.bit_width)
    return max(
        found, key=lambda type_: (types.is_timestamp(type_), _UNITS.index(datetime_unit(type_)))
    )
