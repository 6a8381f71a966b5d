"""The time axis of a table: positions of rows in steps, later times, split times."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from tft_keras.data import months, weeks, written_dates, zones
from tft_keras.data.steps import DAY, ZONE_OF_TABLE, Step
from tft_keras.data.time_columns import TimeColumn
from tft_keras.errors import InputError

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclasses.dataclass(frozen=True, eq=False)
class TimeAxis:
    """The times of a table as whole numbers, and the step between them.

    Times are counted in UTC. Steps that follow a calendar (`Step.wall_clock`, months, weeks with
    pauses) are counted on the clocks of its zone.

    Args:
        column: how the table writes times.
        step: distance of rows.
        holidays: numbers of rows of a `Step.week` that no series has, rising: they are no steps.
    """

    column: TimeColumn
    step: Step
    holidays: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of_step(cls, column: TimeColumn, step: Step, times: np.ndarray) -> TimeAxis:
        """Makes the axis of a table whose step is that of an earlier one.

        A table whose times are days of the calendar is stepped through on its own clocks: those of
        its zone, whatever the zone of the earlier table, or of none.
        """
        calendar = step.unit == "months" or (step.unit == "nanoseconds" and step.size >= DAY)
        if step.zone == ZONE_OF_TABLE:
            # As it was before zones were kept.
            step = dataclasses.replace(step, zone=column.zone, wall_clock=calendar)
        elif calendar and step.zone is None and column.zone is not None:
            step = dataclasses.replace(step, zone=column.zone, wall_clock=True)
        elif calendar and step.zone is not None and column.zone is None and column.naive:
            days = not (times % (DAY // NANOSECONDS[column.unit])).any()
            step = dataclasses.replace(step, zone=None) if days else step
        return cls(column, step)

    @property
    def unit(self) -> str | None:
        """The unit of the numbers; None for an index."""
        return self.column.unit

    @property
    def zone(self) -> str | None:
        """The zone whose calendar the table follows; None for UTC."""
        return self.step.zone

    @property
    def stride(self) -> int:
        """The step in the numbers of `positions`."""
        if self.step.week:
            return weeks.STRIDE
        if self.step.unit != "nanoseconds":
            return self.step.size
        return max(1, self.step.size // NANOSECONDS[self.unit])

    def positions(self, times: np.ndarray) -> np.ndarray:
        """Returns int64 numbers in which rows one step apart differ by `stride`."""
        if self.step.week:
            return self._week.positions(self._local(times), self.holidays)
        if self.step.unit == "months":
            return months.numbers(self._local(times), self.unit)
        return self._local(times) if self.step.wall_clock else times

    def with_holidays(self, times: np.ndarray) -> TimeAxis:
        """Returns this axis with the rows of its week that none of a table's series has."""
        if not self.step.week:
            return self
        return dataclasses.replace(self, holidays=self._week.holidays(self._local(times)))

    def days(self, times: np.ndarray, offsets: np.ndarray) -> np.ndarray | None:
        """Returns the day of the month that each series keeps to; see `months.days`.

        Args:
            times: (rows,) int64.
            offsets: (series + 1,) first row of each series.

        Returns:
            (series,) ints for `advance`; None if steps are no months.
        """
        if self.step.unit != "months":
            return None
        return months.days(self._local(times), self.unit, offsets)[0]

    def advance(
        self, times: np.ndarray, steps: np.ndarray | int, days: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns the times so many steps later, int64.

        Args:
            times: int64 of any shape.
            steps: in a shape that broadcasts with it; negative ones go back.
            days: of the month, likewise (see `days`); by default that of each time.
        """
        step = self.step
        if step.unit == "months":
            local = months.advance(self._local(times), self.unit, steps * step.size, days)
        elif step.week:
            local = self._week.advance(self._local(times), steps, self.holidays)
        elif step.wall_clock:
            local = self._local(times) + steps * self.stride
        else:
            return times + steps * self.stride
        return zones.to_utc(local, self.unit, step.zone)

    def datetimes(self, times: np.ndarray) -> np.ndarray:
        """Returns times as datetime64 in UTC, or as they are for an integer index."""
        return times if self.unit is None else self._datetimes(times)

    def wall_clock(self, times: np.ndarray) -> np.ndarray:
        """Returns times as datetime64 on the clocks of the table's zone, or as they are."""
        return times if self.unit is None else self._datetimes(self._local(times))

    def arrow(self, times: np.ndarray) -> pa.Array:
        """Returns times as the table's time column has them."""
        return self.column.write(times)

    def text(self, time: int) -> str:
        """Returns one time as it is shown in messages: on the clocks of the table's zone."""
        return str(self.wall_clock(np.int64(time)))

    def parse(self, value: Any, name: str) -> int:
        """Returns the time that a setting gives as ISO text, or as a number for an integer index.

        A date or a time without a zone is meant on the clocks of the table's zone.

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
            form = written_dates.form_of_texts([str(value)], name)
            times, zoned = written_dates.read_texts([str(value)], form, name)
        except InputError as error:
            raise InputError(
                f"{name} must be a share or an ISO date or time. Received: {name}={value!r}. "
                "Write it like 2024-01-31 or 2024-01-31T12:00."
            ) from error
        own = written_dates.unit_of_form(form)
        times = times.astype(f"datetime64[{own}]").astype(f"datetime64[{self.unit}]")
        times = times.astype(np.int64)
        return int((times if zoned else zones.to_utc(times, self.unit, self.zone))[0])

    @property
    def _week(self) -> weeks.Week:
        return weeks.Week.of_step(self.step, NANOSECONDS[self.unit])

    def _datetimes(self, times: np.ndarray) -> np.ndarray:
        return np.asarray(times).astype(f"datetime64[{self.unit}]")

    def _local(self, times: np.ndarray) -> np.ndarray:
        return zones.to_local(times, self.unit, self.step.zone)
