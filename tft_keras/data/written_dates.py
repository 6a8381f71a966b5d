"""Dates written as text or as the digits of a number: what they mean, and writing them again."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from tft_keras.errors import InputError

_YEARS = (1900, 2099)
_DIGITS = {6: "YYYYMM", 8: "YYYYMMDD", 10: "YYYYMMDDhh", 12: "YYYYMMDDhhmm", 14: "YYYYMMDDhhmmss"}
# Counts since 1970 of moments from 1990 to 2060, as clocks write them.
_COUNTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_COUNTED = (631_152_000, 2_840_140_800)
_TEXT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2})(?P<separator>[T ]?)"
    r"(?P<time>\d{2}:\d{2}(?P<second>:\d{2}(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?)?"
)
_WAY_OUT = "Convert the column, for example with `pandas.to_datetime`."


def form_of_numbers(values: np.ndarray) -> str | None:
    """Returns how whole numbers write dates; None if they are plain numbers.

    `YYYYMM`, `YYYYMMDD` and on to `YYYYMMDDhhmmss` where every number is such a date; `s`, `ms`,
    `us`, `ns` where all are counts of whole minutes since 1970, from 1990 to 2060.

    Args:
        values: (rows,) int64.

    Raises:
        InputError: they look like years and weeks, quarters or days of the year.
    """
    low, high = int(values.min()), int(values.max())
    digits = len(str(low))
    if low <= 0 or digits != len(str(high)):
        return None
    if digits in _DIGITS and _parts(values, digits) is not None:
        return _DIGITS[digits]
    for unit, size in _COUNTS.items():
        inside = _COUNTED[0] * size <= low and high < _COUNTED[1] * size
        if inside and not (values % (60 * size)).any():
            return unit
    _refuse_parts_of_years(values, digits)
    return None


def read_numbers(values: np.ndarray, form: str, column: str) -> np.ndarray:
    """Returns what numbers of a form mean, in the form's unit (see `unit_of_form`) since 1970.

    Raises:
        InputError: a number is no date of that form.
    """
    if form in _COUNTS:
        return values
    times = _parts(values, len(form))
    if times is None:
        raise InputError(
            f"Whole numbers in the time column must all be dates written {form}. Received: "
            f"{column}={_first_wrong(values, len(form))}. {_WAY_OUT}"
        )
    return times


def write_numbers(local: np.ndarray, form: str) -> np.ndarray:
    """Undoes `read_numbers`."""
    text = np.datetime_as_string(local.astype("datetime64[s]"))
    digits = np.char.replace(np.char.replace(np.char.replace(text, "-", ""), "T", ""), ":", "")
    return np.array([int(each[: len(form)]) for each in digits], np.int64)


def unit_of_form(form: str) -> str:
    """Returns the unit in which the times of a form are counted."""
    if form in _COUNTS:
        return form
    match = re.search(r"\.(\d+)", form)
    if not match:
        return "s"
    return next(u for u, size in (("ms", 3), ("us", 6), ("ns", 9)) if len(match[1]) <= size)


def form_of_texts(texts: list[str], column: str) -> str:
    """Returns how texts write dates: the longest form that one of them has, with its own digits.

    Raises:
        InputError: a text is no ISO date.
    """
    longest = ""
    for text in texts:
        match = _TEXT.fullmatch(text)
        if not match or (match["separator"] and not match["time"]):
            if text.isdecimal() and len(text) in _DIGITS:
                return _DIGITS[len(text)]
            raise InputError(
                "Times in text must be ISO dates, like 2024-01-31 or 2024-01-31T12:00. Received: "
                f"{column}={text!r}. {_WAY_OUT}"
            )
        longest = max(longest, text, key=len)
    return longest


def read_texts(texts: list[str], form: str, column: str) -> tuple[np.ndarray, bool]:
    """Returns what texts mean, and whether they name moments (with a zone) or clock times.

    Raises:
        InputError: a text is no date of that form.
    """
    if form in _DIGITS.values():
        if not all(text.isdecimal() for text in texts):
            raise InputError(
                f"Times in text must be written alike. Received: {column} with {form} and other "
                f"forms. {_WAY_OUT}"
            )
        return read_numbers(np.array(texts, np.int64), form, column), False
    zoned = {bool(_TEXT.fullmatch(text)["zone"]) for text in texts}
    if len(zoned) > 1:
        raise InputError(
            "Times in text must all have a time zone, or none. Received: "
            f"{column} with {texts[0]!r} and others. {_WAY_OUT}"
        )
    zoned = zoned.pop()
    whole = pa.array([_whole(text) for text in texts])
    type_ = pa.timestamp(unit_of_form(form), "UTC" if zoned else None)
    try:
        return whole.cast(type_).cast(pa.int64()).to_numpy(), zoned
    except pa.ArrowInvalid as error:
        raise InputError(
            f"Times in text must be dates of the calendar. Received: {column} ({error}). {_WAY_OUT}"
        ) from None


def write_texts(local: np.ndarray, offsets: np.ndarray, form: str) -> list[str]:
    """Writes clock times in a form.

    Args:
        local: int64 in the form's unit.
        offsets: what they are before UTC, in seconds, for forms that name it.
        form: from `form_of_texts`.
    """
    unit = unit_of_form(form)
    if form in _DIGITS.values():
        return [str(number) for number in write_numbers(local, form)]
    match = _TEXT.fullmatch(form)
    length = len(form) - len(match["zone"] or "")
    texts = np.datetime_as_string(local.astype(f"datetime64[{unit}]")).tolist()
    if match["separator"] == " ":
        texts = [text.replace("T", " ") for text in texts]
    return [
        text[:length] + _offset(match["zone"], int(offset))
        for text, offset in zip(texts, offsets, strict=True)
    ]


def _offset(like: str | None, seconds: int) -> str:
    if not like:
        return ""
    if like == "Z" and not seconds:
        return "Z"
    hours, minutes = divmod(abs(seconds) // 60, 60)
    colon = ":" if ":" in like or like == "Z" else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02}{colon}{minutes:02}"


def _whole(text: str) -> str:
    return f"{text}-01-01" if len(text) == 4 else f"{text}-01" if len(text) == 7 else text


def _parts(values: np.ndarray, digits: int) -> np.ndarray | None:
    """Returns the seconds since 1970 of numbers such as 20240131; None if one is no date."""
    rest = np.asarray(values, np.int64)
    seconds = np.zeros(rest.shape, np.int64)
    for _ in range((digits - 8) // 2):  # the smaller parts of the time, from the right
        rest = rest // 100
    clock = values - rest * 10 ** max(0, digits - 8)
    for place in range((digits - 8) // 2):
        part = clock // 10 ** (digits - 10 - 2 * place) % 100
        if (part >= (24 if place == 0 else 60)).any():
            return None
        seconds += part * (3600, 60, 1)[place]
    day = rest % 100 if digits >= 8 else np.ones_like(rest)
    year, month = np.divmod(rest // 100 if digits >= 8 else rest, 100)
    inside = (year >= _YEARS[0]) & (year <= _YEARS[1]) & (month >= 1) & (month <= 12) & (day >= 1)
    if not inside.all():
        return None
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    length = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(int)
    if (day > length).any():
        return None
    days = first.astype("datetime64[D]").astype(np.int64) + day - 1
    return days * 86400 + seconds


def _first_wrong(values: np.ndarray, digits: int) -> int:
    wrong = (_parts(values[i : i + 1], digits) is None for i in range(len(values)))
    return int(values[next(i for i, each in enumerate(wrong) if each)])


def _refuse_parts_of_years(values: np.ndarray, digits: int) -> None:
    """Raises where numbers count weeks, quarters or days in years: the step at the year's end."""
    for name, width, most in (("quarter", 1, 4), ("week", 2, 53), ("day of the year", 3, 366)):
        if digits != 4 + width:
            continue
        year, part = np.divmod(values, 10**width)
        within = (part >= 1) & (part <= most) & (year >= _YEARS[0]) & (year <= _YEARS[1])
        if within.all() and year.min() < year.max():
            raise InputError(
                "A time column of whole numbers must count steps, or be dates such as YYYYMMDD. "
                f"Received: numbers from {int(values.min())} to {int(values.max())}, which look "
                f"like year and {name}. {_WAY_OUT}"
            )
