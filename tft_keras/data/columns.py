"""Columns of any Arrow type as plain arrays: real values, category codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tft_keras.data.keys import keys_of
from tft_keras.data.table import Table
from tft_keras.errors import InputError

# Of values that are told apart by fewer steps of their floating-point type, no digits are left.
_LEAST_STEPS = 4


class Categories(NamedTuple):
    """A column as categories.

    Attributes:
        codes: (rows,) int32, positions in `keys`; -1 where missing.
        keys: the text that stands for each category; see `keys.keys_of`.
        values: the first value met for each key, as an Arrow array.
    """

    codes: np.ndarray
    keys: list[str]
    values: pa.Array


def _value_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return type_.value_type if types.is_dictionary(type_) else type_


def is_categorical_type(type_: pa.DataType) -> bool:
    """Whether columns of this type are categories without being said to be."""
    plain = _value_type(type_)
    return (
        types.is_dictionary(type_)
        or types.is_boolean(plain)
        or types.is_string(plain)
        or types.is_large_string(plain)
        or types.is_string_view(plain)
        or types.is_binary(plain)
        or types.is_large_binary(plain)
        or types.is_binary_view(plain)
        or types.is_fixed_size_binary(plain)
    )


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
            + (
                "Take it apart into plain columns."
                if types.is_nested(value)
                else "Convert it, or name it in `categorical` if it is an input."
            )
        )


def reals(table: Table, column: str) -> np.ndarray:
    """Reads a column as real numbers.

    Returns:
        (rows,) float64; NaN where the table has null or NaN.

    Raises:
        InputError: the numbers are so large that their differences are lost.
    """
    result = np.empty(table.rows, np.float64)
    low: Any = None
    high: Any = None
    row = 0
    for chunk in table.chunks(column):
        chunk = _storage(chunk)
        check_real_type(chunk.type, column, "a real-valued column")
        result[row : row + len(chunk)] = _real_chunk(chunk)
        row += len(chunk)
        if _is_wide(chunk.type):
            ends = pc.min_max(chunk)
            for end in (ends["min"].as_py(), ends["max"].as_py()):
                low = end if low is None or (end is not None and end < low) else low
                high = end if high is None or (end is not None and end > high) else high
    if low is not None and low != high and float(low) == float(high):
        raise InputError(
            "Numbers must differ by more than their 17th digit. Received: "
            f"{column!r} from {low} to {high}, row 0 the first of them. Subtract a constant, or "
            "convert the column to float."
        )
    return result


def _is_wide(type_: pa.DataType) -> bool:
    return types.is_decimal(type_) or (types.is_integer(type_) and type_.bit_width == 64)


def _real_chunk(chunk: pa.Array) -> np.ndarray:
    if types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    if types.is_null(chunk.type):
        return np.full(len(chunk), np.nan)
    if types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.uint8())
    return chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def categories(table: Table, column: str) -> Categories:
    """Reads a column as categories, matched by value across chunks and number types.

    Raises:
        InputError: the column does not hold plain values.
    """
    result = np.empty(table.rows, np.int32)
    codes: dict[str, int] = {}
    values: list[pa.Array] = []
    row = 0
    for chunk in table.chunks(column):
        encoded = _encoded(_storage(chunk), column)
        lookup = np.full(len(encoded.dictionary) + 1, -1, np.int32)
        new = []
        for position, key in enumerate(keys_of(encoded.dictionary, column)):
            if key is not None:
                known = len(codes)
                lookup[position] = codes.setdefault(key, known)
                if len(codes) > known:
                    new.append(position)
        values.append(encoded.dictionary.take(pa.array(new, pa.int64())))
        indices = encoded.indices.cast(pa.int64()).fill_null(len(lookup) - 1)
        result[row : row + len(chunk)] = lookup[indices.to_numpy(zero_copy_only=False)]
        row += len(chunk)
    return Categories(result, list(codes), _joined(values, list(codes)))


def as_written(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns values that `categories` gave in the type of their column, where they fit into it."""
    try:
        if isinstance(type_, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(type_, values.cast(type_.storage_type))
        if types.is_dictionary(type_):
            return values.dictionary_encode().cast(type_)
        return values.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return values


def _storage(chunk: pa.Array) -> pa.Array:
    return chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk


def _encoded(chunk: pa.Array, column: str) -> pa.DictionaryArray:
    if types.is_dictionary(chunk.type):
        return chunk
    if types.is_null(chunk.type):
        chunk = chunk.cast(pa.string())
    if types.is_float16(chunk.type):
        chunk = chunk.cast(pa.float32())
    if types.is_string_view(chunk.type) or types.is_binary_view(chunk.type):
        plain = pa.large_string() if types.is_string_view(chunk.type) else pa.large_binary()
        chunk = chunk.cast(plain)  # views can neither be sorted nor be taken from
    try:
        return chunk.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise InputError(
            "A category or a series id must be one plain value. "
            f"Received: column {column!r} of type {chunk.type}. Take it apart into plain columns."
        ) from None


def _joined(parts: list[pa.Array], keys: list[str]) -> pa.Array:
    """Returns the values of all chunks in one array; as their keys if types do not go together."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return pa.array(keys, pa.string())
    try:
        tables = [pa.table({"values": part}) for part in parts]
        joined = pa.concat_tables(tables, promote_options="permissive")["values"]
        return joined.combine_chunks() if len(tables) > 1 else parts[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(keys, pa.string())
