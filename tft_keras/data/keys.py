"""The text that stands for a category or a series id: equal values, and only these, share one."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tft_keras.errors import InputError

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def keys_of(values: pa.Array, column: str) -> list[str | None]:
    """Returns the key of each value; None where it is missing.

    A number has the same key in every type that holds it (`1` for 1, 1.0, decimal 1.00 and the text
    "1"), so that a column written as int in one file and as float, because of nulls, in the next
    one has one set of categories. Numbers are compared digit by digit: no two that differ fall
    together.

    Args:
        values: of any type that is not nested.
        column: its name, for the error.

    Raises:
        InputError: the type is nested: lists, structs, maps, unions.
    """
    type_ = values.type
    if types.is_nested(type_):
        raise InputError(
            "A category or a series id must be one plain value. "
            f"Received: column {column!r} of type {type_}. Take it apart into plain columns."
        )
    if types.is_timestamp(type_):
        return _timestamps(values)
    if types.is_duration(type_) or types.is_time(type_):
        size = _NANOSECONDS[type_.unit]
        counts = values.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist()
        return [None if count is None else f"{count * size} ns" for count in counts]
    return [key(value) for value in values.to_pylist()]


def key(value: Any) -> str | None:
    """Returns the key of one plain Python value; see `keys_of`."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return None if value != value else _number(decimal.Decimal(repr(value)), value)
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else _number(value, value)
    return str(value)


def _number(digits: decimal.Decimal, value: float | decimal.Decimal) -> str:
    if not digits.is_finite():
        return str(value)
    whole = int(value)
    if whole == value:
        return str(whole)
    return f"{digits:f}".rstrip("0")


def _timestamps(values: pa.Array) -> list[str | None]:
    zone = "" if values.type.tz is None else "Z"
    naive = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    texts = pc.replace_substring_regex(naive, r"(\.\d*?)0+$", r"\1").to_pylist()
    return [None if text is None else text.rstrip(".") + zone for text in texts]
