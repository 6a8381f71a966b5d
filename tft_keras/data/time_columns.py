"""The time column of a table: how it writes moments, read to whole numbers and written again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
from pyarrow import types

from tft_keras.data import written_dates, zones
from tft_keras.data.table import Table
from tft_keras.errors import InputError

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = tuple(_PER_SECOND)
# Forms of dates without a time of day, which are the same day in every zone.
_DAYS = ("YYYYMM", "YYYYMMDD")


@dataclasses.dataclass(frozen=True)
class TimeColumn:
    """How a table writes its times.

    Args:
        type: of the column.
        form: of dates written as text or digits (see `written_dates`); None for a type of its own.
        is_index: whether it holds plain numbers.
        zone: of the calendar that the table follows: its type's, or the one that a setting names;
            None for UTC.
        naive: whether it shows the clocks of that zone, not moments.
    """

    type: pa.DataType
    form: str | None = None
    is_index: bool = False
    zone: str | None = None
    naive: bool = False

    @property
    def unit(self) -> str | None:
        """The unit in which times are counted; None for an index."""
        if self.is_index:
            return None
        if self.form:
            return written_dates.unit_of_form(self.form)
        return "s" if types.is_date(self.type) else self.type.unit

    def write(self, times: np.ndarray) -> pa.Array:
        """Returns times as the table writes them, in a wider type if they do not fit into its own.

        Args:
            times: (rows,) int64.
        """
        if self.is_index:
            return _narrow(pa.array(times), self.type)
        if self.form in _UNITS:
            return _narrow(pa.array(np.ascontiguousarray(times)), self.type)
        local = zones.to_local(times, self.unit, self.zone if self.naive or self.form else None)
        if self.form and types.is_integer(_plain(self.type)):
            return _narrow(pa.array(written_dates.write_numbers(local, self.form)), self.type)
        if self.form:
            offsets = (local - times) // _PER_SECOND[self.unit]
            texts = written_dates.write_texts(local, offsets, self.form)
            return pa.array(texts).cast(_plain(self.type))
        shown = local if self.naive else times
        return pa.array(np.ascontiguousarray(shown)).cast(pa.timestamp(self.unit)).cast(self.type)


def check_time_type(type_: pa.DataType, column: str) -> None:
    """Raises `InputError` if a column of this type cannot order rows in time."""
    plain = _plain(type_)
    if isinstance(type_, pa.BaseExtensionType) or not (
        types.is_integer(plain)
        or types.is_timestamp(plain)
        or types.is_date(plain)
        or _is_text(plain)
        or types.is_null(plain)
    ):
        raise InputError(
            f"The time column {column!r} must hold timestamps, dates, ISO texts or whole numbers. "
            f"Received: type={type_}. Convert it, for example with `pandas.to_datetime`, or of "
            "periods `.dt.to_timestamp()`."
        )


def read_times(
    table: Table, column: str, time_zone: str | None = None, is_index: bool | None = None
) -> tuple[np.ndarray, TimeColumn]:
    """Reads the time column.

    Args:
        time_zone: whose clocks times without a zone show, and whose calendar the others follow.
        is_index: whether the times of an earlier table were plain numbers; None if there is none.

    Returns:
        times: (rows,) int64; plain numbers of an index, else counts since 1970 in UTC.
        column: how they were written.

    Raises:
        InputError: a time is missing or no date, files differ in the kind of time, or the times are
            of another kind than those of the earlier table.
    """
    found = table.types(column)
    for type_ in found:
        check_time_type(type_, column)
    type_ = _common_type([_plain(type_) for type_ in found], column)
    if types.is_null(type_):
        raise InputError(
            f"Every row needs a time. Received: no {column!r} in any row. Fill the times in."
        )
    if time_zone is not None:
        zones.check_zone(time_zone)
    if _is_text(type_):
        times, read = _read_text(table, column, type_, time_zone)
    elif types.is_integer(type_):
        times, read = _read_numbers(table, column, type_, time_zone, is_index)
    else:
        times, read = _read_timestamps(table, column, type_, time_zone)
    if is_index is not None and read.is_index != is_index:
        raise InputError(
            "The table's times must be of the kind trained on, "
            f"{'whole numbers' if is_index else 'dates'}. Received: {column!r} of type={type_}. "
            "Convert the time column."
        )
    return times, read


def _read_timestamps(
    table: Table, column: str, type_: pa.DataType, time_zone: str | None
) -> tuple[np.ndarray, TimeColumn]:
    own = getattr(type_, "tz", None)
    # A date is the same day in every zone.
    zone = None if types.is_date(type_) else zones.plain_zone(time_zone or own)
    read = TimeColumn(type_, zone=zone, naive=own is None)
    times = _whole_numbers(table, column, pa.timestamp(read.unit, own))
    return zones.to_utc(times, read.unit, zone) if read.naive else times, read


def _read_numbers(
    table: Table, column: str, type_: pa.DataType, time_zone: str | None, is_index: bool | None
) -> tuple[np.ndarray, TimeColumn]:
    values = _whole_numbers(table, column, None)
    form = None if is_index else written_dates.form_of_numbers(values)
    if form is None:
        return values, TimeColumn(type_, is_index=True)
    zone = None if form in _DAYS else zones.plain_zone(time_zone)
    read = TimeColumn(type_, form, zone=zone, naive=form not in _UNITS)
    times = written_dates.read_numbers(values, form, column)
    return zones.to_utc(times, read.unit, zone) if read.naive else times, read


def _read_text(
    table: Table, column: str, type_: pa.DataType, time_zone: str | None
) -> tuple[np.ndarray, TimeColumn]:
    codes = np.empty(table.rows, np.int64)
    places: dict[str, int] = {}
    row = 0
    for chunk in table.chunks(column):
        encoded = _decoded(chunk).cast(pa.string()).dictionary_encode()
        _refuse_missing(encoded, column, row)
        own = [places.setdefault(text, len(places)) for text in encoded.dictionary.to_pylist()]
        codes[row : row + len(chunk)] = np.array(own, np.int64)[encoded.indices.to_numpy()]
        row += len(chunk)
    texts = list(places)
    form = written_dates.form_of_texts(texts, column)
    times, zoned = written_dates.read_texts(texts, form, column)
    dates = len(form) <= len("2024-01-31") and (form in _DAYS or not form.startswith("Y"))
    zone = None if dates else zones.plain_zone(time_zone)
    read = TimeColumn(type_, form, zone=zone, naive=not zoned)
    return (times if zoned else zones.to_utc(times, read.unit, zone))[codes], read


def _whole_numbers(table: Table, column: str, type_: pa.DataType | None) -> np.ndarray:
    """Reads a column as int64, by way of a type if one is given."""
    result = np.empty(table.rows, np.int64)
    row = 0
    for chunk in table.chunks(column):
        chunk = _decoded(chunk)
        _refuse_missing(chunk, column, row)
        try:
            chunk = chunk if type_ is None else chunk.cast(type_)
            result[row : row + len(chunk)] = chunk.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"Times must fit into 64 bits. Received: {column!r} with {error}. Use a coarser "
                "unit or smaller numbers."
            ) from error
        row += len(chunk)
    return result


def _refuse_missing(chunk: pa.Array, column: str, row: int) -> None:
    if chunk.null_count:
        missing = row + int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"Every row needs a time. Received: no {column!r} in row {missing} (counted from "
            "0). Drop such rows or fill the times in."
        )


def _decoded(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_decode() if types.is_dictionary(chunk.type) else chunk


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if types.is_dictionary(type_) else type_


def _is_text(type_: pa.DataType) -> bool:
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


def _kind(type_: pa.DataType) -> str:
    if _is_text(type_) or types.is_integer(type_):
        return "text" if _is_text(type_) else "integer"
    return "time" if getattr(type_, "tz", None) is None else "time in a zone"


def _common_type(found: list[pa.DataType], column: str) -> pa.DataType:
    """Returns the type of all files: the widest, or the one with the finest unit."""
    if len({_kind(type_) for type_ in found}) > 1:
        raise InputError(
            f"The files must agree on the kind of time in {column!r}. Received: "
            f"{', '.join(sorted({str(type_) for type_ in found}))}. Write them with one type."
        )
    if types.is_integer(found[0]):
        return max(found, key=lambda type_: type_.bit_width)
    if types.is_timestamp(found[0]) or types.is_date(found[0]):
        return max(
            found,
            key=lambda t: (types.is_timestamp(t), _UNITS.index(getattr(t, "unit", "s"))),
        )
    return found[0]


def _narrow(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns whole numbers in their column's type, in int64 where they do not fit into it."""
    try:
        return values.cast(_plain(type_))
    except pa.ArrowInvalid:
        return values
