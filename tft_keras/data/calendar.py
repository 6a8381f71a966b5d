"""Calendar inputs: where a row's time lies in the hour, day, week, month and year."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from tft_keras.data import public_holidays
from tft_keras.data.steps import DAY, HOUR, WEEK, Step
from tft_keras.errors import InputError

_MINUTE = HOUR // 60
_YEAR = 365 * DAY + DAY // 4
# Training rows must go through a cycle so often, or what it does cannot be told from chance.
_CYCLES = 2


@dataclasses.dataclass(frozen=True)
class _Part:
    """A part of the calendar.

    Attributes:
        cycle: nanoseconds until it begins again.
        count: how many values it has.
        read: from times on the clocks of a zone, datetime64, to whole numbers from 0.
        wave: whether it is given as sine and cosine; else it is a category.
    """

    cycle: int
    count: int
    read: Callable[[np.ndarray], np.ndarray]
    wave: bool = False


def _within(times: np.ndarray, unit: str, whole: str) -> np.ndarray:
    """Returns how many of `unit` have passed in the running `whole`."""
    begin = times.astype(f"datetime64[{whole}]").astype(f"datetime64[{unit}]")
    return (times.astype(f"datetime64[{unit}]") - begin).astype(np.int64)


_PARTS = {
    "minute of hour": _Part(HOUR, 60, lambda t: _within(t, "m", "h")),
    "hour of day": _Part(DAY, 24, lambda t: _within(t, "h", "D")),
    # 1 January 1970 was a Thursday.
    "weekday": _Part(WEEK, 7, lambda t: (t.astype("datetime64[D]").astype(np.int64) + 3) % 7),
    "day of month": _Part(30 * DAY, 31, lambda t: _within(t, "D", "M")),
    "week of year": _Part(_YEAR, 53, lambda t: _within(t, "D", "Y") // 7, wave=True),
    "month": _Part(_YEAR, 12, lambda t: _within(t, "M", "Y")),
    "quarter": _Part(_YEAR, 4, lambda t: _within(t, "M", "Y") // 3),
}
_WAVES = {" (sine)": np.sin, " (cosine)": np.cos}


def calendar_inputs(step: Step, span: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the calendar inputs that suit a table.

    Args:
        step: distance of rows.
        span: nanoseconds from the first to the last training row of the longest series.

    Returns:
        Names of the categorical and of the real-valued ones.
    """
    parts = [_PARTS[name] for name in _names(step)]
    suited = [
        name for name, part in zip(_names(step), parts, strict=True) if span >= _CYCLES * part.cycle
    ]
    categorical = tuple(name for name in suited if not _PARTS[name].wave)
    waves = tuple(name + end for name in suited if _PARTS[name].wave for end in _WAVES)
    return categorical, waves


def holiday_input(step: Step, country: str) -> str:
    """Returns the name of the categorical input that tells holidays.

    Raises:
        InputError: the country is not known, or rows are more than a day apart.
    """
    if step.unit != "nanoseconds" or step.size > DAY:
        raise InputError(
            "Holidays need rows at most a day apart. "
            f"Received: holidays={country!r} with a step of {step}. Leave them out."
        )
    public_holidays.check_country(country)
    return f"{public_holidays.PREFIX}{country}"


def _names(step: Step) -> list[str]:
    if step.unit == "index":
        return []
    if step.unit == "months":
        return {1: ["month"], 2: ["month"], 3: ["quarter"], 4: ["month"], 6: ["month"]}.get(
            step.size, []
        )
    size = step.size
    finer = (("minute of hour", HOUR), ("hour of day", DAY), ("weekday", WEEK))
    names = [name for name, below in finer if size < below]
    if size <= DAY:
        return [*names, "day of month", "month"]
    return [*names, "week of year"] if size < 13 * WEEK else names


def categories(name: str, times: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Returns a categorical calendar input as `Rows.categories` gives one of the table.

    Args:
        name: of one that `calendar_inputs` or `holiday_input` gives.
        times: (rows,) datetime64 on the clocks of the table's zone.
    """
    if name.startswith(public_holidays.PREFIX):
        return public_holidays.holiday_categories(name, times)
    part = _PARTS[name]
    return part.read(times).astype(np.int32), [str(value) for value in range(part.count)]


def wave(name: str, times: np.ndarray) -> np.ndarray:
    """Returns a real-valued calendar input, (rows,) float64 in [-1, 1]; see `categories`."""
    end = next(end for end in _WAVES if name.endswith(end))
    part = _PARTS[name.removesuffix(end)]
    return _WAVES[end](2 * np.pi * part.read(times) / part.count)
