"""Finds the step between the rows of a table, and the calendar that it follows."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from tft_keras.data import months, weeks, zones
from tft_keras.data.steps import DAY, HOUR, Step
from tft_keras.data.time_columns import TimeColumn
from tft_keras.data.times import NANOSECONDS, TimeAxis
from tft_keras.errors import InputError

_SHORTEST_MONTH = 27 * DAY
# Of rows that are at the day of the month that their series keeps to: holidays move some.
_MONTHLY = 0.75
# A series of fewer rows may be regular by chance.
_FEWEST_ROWS = 5
_LIKE_MONTHS = 31 / 28


def infer_axis(
    times: np.ndarray, offsets: np.ndarray, column: TimeColumn, ignores_gaps: bool = False
) -> TimeAxis:
    """Returns the axis on which the most rows are one step after the one before.

    Tried in this order, the first one wins where several are equal: months; days on the clocks of
    the table's zone; the most frequent distance between moments; parts of days on the clocks; the
    weekdays that a table of days has. Where the table names no zone, and its rows are midnights of
    a zone with summer time, written in UTC, that zone's calendar is followed, with a warning.

    Args:
        times: (rows,) int64, rising in each series.
        offsets: (series + 1,) first row of each series.
        column: how the table writes times.
        ignores_gaps: whether windows count rows: pauses within days are then part of the step, too.

    Raises:
        InputError: no series has two rows.
    """
    follows = np.ones(len(times) - 1, bool)
    follows[offsets[1:-1] - 1] = False
    if not follows.any():
        raise InputError(
            f"A series needs two rows or more. Received: {len(times)} rows in as many series. "
            "Check the `group` columns."
        )
    search = _Search(times, offsets, follows, column)
    if column.is_index:
        return TimeAxis(column, Step(search.distance(times), "index"))
    axis, share = search.best(column.zone)
    if share < 1 and column.zone is None:
        axis = search.in_a_zone_of_midnights(share) or axis
    if ignores_gaps and share < 1:
        axis = search.in_sessions(axis) or axis
    return axis


@dataclasses.dataclass(frozen=True, eq=False)
class _Search:
    """The rows of a table, and the steps that they could have."""

    times: np.ndarray
    offsets: np.ndarray
    follows: np.ndarray  # (rows - 1,) whether the next row is of the same series
    column: TimeColumn

    @property
    def nanoseconds(self) -> int:
        return NANOSECONDS[self.column.unit]

    def distance(self, positions: np.ndarray) -> int:
        """Returns the most frequent distance between rows."""
        distances = np.diff(positions)[self.follows]
        values, counts = np.unique(distances[distances > 0], return_counts=True)
        return int(values[counts.argmax()]) if len(values) else 1

    def share(self, axis: TimeAxis) -> float:
        """Returns the share of rows that are one step after the one before."""
        distances = np.diff(axis.positions(self.times))[self.follows]
        return float(np.mean(distances == axis.stride))

    def best(self, zone: str | None) -> tuple[TimeAxis, float]:
        """Returns the axis with the largest share in a zone's calendar, and the share."""
        found: list[tuple[TimeAxis, float]] = []
        for step in self._candidates(zone):
            axis = TimeAxis(self.column, step).with_holidays(self.times)
            found.append((axis, self.share(axis)))
        return max(found, key=lambda pair: pair[1])

    def _candidates(self, zone: str | None) -> list[Step]:
        local = zones.to_local(self.times, self.column.unit, zone)
        between = self.distance(self.times) * self.nanoseconds
        steps = [Step(between, "nanoseconds", zone)]
        if zone and between > HOUR:
            on_clocks = self.distance(local) * self.nanoseconds
            # Where the rows see no change of the clocks, days are days of the calendar.
            place = 0 if on_clocks >= DAY else 1
            steps.insert(place, Step(on_clocks, "nanoseconds", zone, wall_clock=True))
        days_apart = max(step.size for step in steps)
        if between >= _SHORTEST_MONTH and self._are_monthly(local):
            months_apart = self.distance(months.numbers(local, self.column.unit))
            steps.insert(0, Step(months_apart, "months", zone))
        if DAY <= days_apart < _SHORTEST_MONTH:
            days = weeks.business_days(local, DAY // self.nanoseconds)
            if days:
                steps.append(Step(DAY, "nanoseconds", zone, True, days))
        return steps

    def _are_monthly(self, local: np.ndarray) -> bool:
        """Whether no series has two rows in a month, and rows keep to a day of the month."""
        numbers = months.numbers(local, self.column.unit)
        if (np.diff(numbers)[self.follows] == 0).any():
            return False
        return months.days(local, self.column.unit, self.offsets)[1] >= _MONTHLY

    def in_a_zone_of_midnights(self, share: float) -> TimeAxis | None:
        """Returns the axis in the zone whose midnights the rows are, if there is one."""
        between = self.distance(self.times) * self.nanoseconds
        period = min(between, DAY) // self.nanoseconds
        if between <= HOUR or DAY % min(between, DAY) or not (self.times % period).any():
            return None
        zone = zones.zone_of_midnights(np.unique(self.times), self.column.unit, period)
        if zone is None:
            return None
        found, better = self.best(zone)
        if better <= share:
            return None
        warnings.warn(
            f"The times are those of {zone}'s clocks, written in UTC: they are read on that "
            "calendar. Name another zone by time_zone.",
            UserWarning,
            stacklevel=6,
        )
        return found

    def in_sessions(self, axis: TimeAxis) -> TimeAxis | None:
        """Returns the axis whose steps leave out the hours in which the table has no rows."""
        step = axis.step
        if step.unit != "nanoseconds" or step.week or step.size >= DAY:
            return None
        local = zones.to_local(self.times, self.column.unit, step.zone)
        runs = weeks.sessions(local, self.nanoseconds, step.size)
        if not runs:
            return None
        found = Step(step.size, "nanoseconds", step.zone, True, runs)
        found_axis = TimeAxis(self.column, found)
        return found_axis if self.share(found_axis) > self.share(axis) else None


def series_of_another_step(
    axis: TimeAxis, positions: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Returns the series none of whose rows is one step after another, but which are regular.

    Args:
        positions: of the rows on `axis`.
        offsets: (series + 1,) first row of each series.
    """
    distances = np.diff(positions, append=positions[-1:])
    distances[offsets[1:] - 1] = axis.stride + 1
    begin = offsets[:-1]
    never = np.add.reduceat((distances == axis.stride).astype(np.int64), begin) == 0
    found = []
    for place in np.flatnonzero(never & (np.diff(offsets) >= _FEWEST_ROWS)):
        own = distances[offsets[place] : offsets[place + 1] - 1]
        # Months differ in length; other regular steps do not.
        if own.min() > axis.stride and own.max() <= _LIKE_MONTHS * own.min():
            found.append(place)
    return np.array(found, np.int64)
