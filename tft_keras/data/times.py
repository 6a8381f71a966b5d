"""The time axis: the step between rows, gaps, extrapolation, split times."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tft_keras.data.columns import datetime_unit
from tft_keras.errors import InputError

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_HOUR = 3600 * 10**9
_DAY = 24 * _HOUR


@dataclasses.dataclass(frozen=True)
class Step:
    """The distance between two rows in a row.

    Args:
        size: how many of the unit; at least 1.
        unit: `nanoseconds`, `months`, or `index` for an integer time column.
    """

    size: int
    unit: str

    @property
    def season(self) -> int:
        """A guess at the season, in rows.

        A week for steps of a quarter of an hour to a day, a day for shorter ones, a year for weeks,
        months and quarters; 1 where none of these is a whole number of steps.
        """
        if self.unit == "months":
            return 12 // self.size if 12 % self.size == 0 else 1
        if self.unit == "index":
            return 1
        if self.size == 7 * _DAY:
            return 52
        period = 7 * _DAY if self.size >= _HOUR // 4 else _DAY
        return period // self.size if period % self.size == 0 else 1


class TimeAxis:
    """Times of one Arrow type as whole numbers, and the step between them.

    Times are counted in UTC. Steps of a day or longer in a time zone are measured on the local
    calendar, where the days of the change to and from summer time are as long as any other.

    Args:
        type_: type of the time column.
        step: distance of rows; None as long as it is not known.
    """

    def __init__(self, type_: pa.DataType, step: Step | None = None) -> None:
        self.type = type_
        self.unit = datetime_unit(type_)
        self.step = step
        if step and (step.unit == "index") != (self.unit is None):
            raise InputError(
                f"The table's times must be of the kind trained on. Received: type={type_}, step "
                f"in {step.unit}. Convert the time column."
            )

    @property
    def _zone(self) -> str | None:
        zone = getattr(self.type, "tz", None)
        return None if zone is None or zone.upper() in ("UTC", "ETC/UTC", "+00:00") else zone

    def infer_step(self, times: np.ndarray, first: np.ndarray) -> TimeAxis:
        """Returns this axis with the most frequent distance between rows as its step.

        Args:
            times: (rows,) int64, rising in each series.
            first: (rows,) bool, whether a row is the first of its series.

        Raises:
            InputError: no series has two rows.
        """
        distances = np.diff(times)[~first[1:]]
        if not len(distances):
            raise InputError(
                f"A series needs two rows or more. Received: {len(times)} rows in as many series. "
                "Check the `group` columns."
            )
        common = _most_frequent(distances)
        if self.unit is None:
            return TimeAxis(self.type, Step(common, "index"))
        size = common * _NANOSECONDS[self.unit]
        if size >= 27 * _DAY and self._is_monthly(times):
            months = _most_frequent(np.diff(self._months(times))[~first[1:]])
            return TimeAxis(self.type, Step(months, "months"))
        # The most frequent distance on the wall clock is a whole day even if most are not in UTC.
        if size >= 23 * _HOUR and self._zone:
            size = _most_frequent(np.diff(self._local(times))[~first[1:]])
            size *= _NANOSECONDS[self.unit]
        return TimeAxis(self.type, Step(size, "nanoseconds"))

    def positions(self, times: np.ndarray) -> np.ndarray:
        """Returns int64 numbers in which rows one step apart differ by `stride`."""
        if self.step.unit == "months":
            return self._months(times)
        return self._local(times) if self._is_calendar else times

    @property
    def stride(self) -> int:
        """The step in the numbers of `positions`."""
        if self.step.unit != "nanoseconds":
            return self.step.size
        return max(1, self.step.size // _NANOSECONDS[self.unit])

    def advance(self, times: np.ndarray, steps: np.ndarray | int) -> np.ndarray:
        """Returns the times so many steps later, int64."""
        if self.step.unit == "months":
            return self._utc(
                _add_months(self._datetimes(self._local(times)), steps * self.step.size)
            )
        return self._utc(self.positions(times) + steps * self.stride)

    def datetimes(self, times: np.ndarray) -> np.ndarray:
        """Returns times as datetime64 in UTC, or as they are for an integer index."""
        return times if self.unit is None else self._datetimes(times)

    def arrow(self, times: np.ndarray) -> pa.Array:
        """Returns times in the time column's own type."""
        if self.unit is None:
            return pa.array(times).cast(self.type)
        naive = pa.array(np.ascontiguousarray(times)).cast(pa.timestamp(self.unit))
        return naive.cast(self.type)

    def text(self, time: int) -> str:
        """Returns one time as it is shown in messages."""
        return str(time) if self.unit is None else str(self._datetimes(np.int64(time)))

    def parse(self, value: Any, name: str) -> int:
        """Returns the time that a setting gives as ISO text, or as a number for an integer index.

        Raises:
            InputError: it is of the other kind, or not a time.
        """
        if self.unit is None:
            if isinstance(value, int):
                return value
            raise InputError(
                f"{name} must be a share or a whole number, as the times are. Received: "
                f"{name}={value!r}. Give the first value of the time column in that split."
            )
        try:
            moment = datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        except ValueError as error:
            raise InputError(
                f"{name} must be a share or an ISO date or time. Received: {name}={value!r}. "
                "Write it like 2024-01-31 or 2024-01-31T12:00."
            ) from error
        if moment.tzinfo:
            moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return int(np.datetime64(moment).astype(f"datetime64[{self.unit}]").astype(np.int64))

    @property
    def _is_calendar(self) -> bool:
        step = self.step
        return bool(self._zone) and step.unit == "nanoseconds" and step.size >= _DAY

    def _datetimes(self, times: np.ndarray) -> np.ndarray:
        return np.asarray(times).astype(f"datetime64[{self.unit}]")

    def _local(self, times: np.ndarray) -> np.ndarray:
        if not self._zone:
            return times
        local = pc.local_timestamp(pa.array(times).cast(pa.timestamp(self.unit, self._zone)))
        return local.cast(pa.int64()).to_numpy()

    def _utc(self, local: np.ndarray) -> np.ndarray:
        if not (self._zone and (self._is_calendar or self.step.unit == "months")):
            return local
        naive = pa.array(local.ravel()).cast(pa.timestamp(self.unit))
        zoned = pc.assume_timezone(naive, self._zone, ambiguous="earliest", nonexistent="latest")
        return zoned.cast(pa.int64()).to_numpy().reshape(local.shape)

    def _months(self, times: np.ndarray) -> np.ndarray:
        return self._datetimes(self._local(times)).astype("datetime64[M]").astype(np.int64)

    def _is_monthly(self, times: np.ndarray) -> bool:
        """Whether all times are at one moment of the month, or at the start of its last day."""
        local = self._datetimes(self._local(times))
        months = local.astype("datetime64[M]")
        if (local - months == (local - months)[0]).all():
            return True
        until_next = (months + 1).astype(local.dtype) - local
        return bool((until_next == until_next[0]).all())


def _most_frequent(distances: np.ndarray) -> int:
    values, counts = np.unique(distances[distances > 0], return_counts=True)
    return int(values[counts.argmax()]) if len(values) else 1


def _add_months(moments: np.ndarray, months: np.ndarray | int) -> np.ndarray:
    """Adds months to datetimes; the last day of a month stays the last day. Returns int64."""
    dtype = moments.dtype
    month = moments.astype("datetime64[M]")
    day_length = np.timedelta64(1, "D")
    last_day = (month + 1).astype("datetime64[D]") - day_length
    day = moments.astype("datetime64[D]")
    target = month + np.asarray(months)
    target_last = (target + 1).astype("datetime64[D]") - day_length
    shifted = np.minimum(target.astype("datetime64[D]") + (day - month), target_last)
    shifted = np.where(day == last_day, target_last, shifted)
    return (shifted.astype(dtype) + (moments - day)).astype(np.int64)
