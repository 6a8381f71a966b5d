"""Steps of weeks with pauses: business days, sessions of an exchange, opening hours."""

from __future__ import annotations

import dataclasses

import numpy as np

from tft_keras.data.steps import DAY, WEEK, Step

# Positions of rows differ by this much: what lies between two rows of the week is at an odd number.
STRIDE = 2
# 1970-01-01 was a Thursday.
_MONDAY = -3 * DAY
_RARE = 0.2
# Opening hours have one or two a day; more come of rows that keep to no hours.
_MOST_RUNS = 21
# Longer pauses, or more of them, are gaps.
_LONGEST_HOLIDAY, _MOST_HOLIDAYS = 5, 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Week:
    """The rows that a week has.

    Args:
        places: times of the rows since Monday 0:00, rising, in the unit of the times.
        length: of a week in that unit.
        monday: of some week in that unit.
        daily: whether rows are days, some of which may be holidays.
    """

    places: np.ndarray
    length: int
    monday: int
    daily: bool

    @classmethod
    def of_step(cls, step: Step, nanoseconds: int) -> Week:
        """Makes the week of a step for times in a unit of so many nanoseconds."""
        runs = [first + step.size * np.arange(rows) for first, rows in step.week]
        places = np.concatenate(runs).astype(np.int64) // nanoseconds
        return cls(places, WEEK // nanoseconds, _MONDAY // nanoseconds, step.size >= DAY)

    def positions(self, local: np.ndarray, holidays: np.ndarray) -> np.ndarray:
        """Returns positions of clock times: `STRIDE` apart for rows of the week in a row."""
        number, between = self._numbers(local)
        number = number - np.searchsorted(holidays, number)
        return STRIDE * number + between

    def advance(
        self, local: np.ndarray, steps: np.ndarray | int, holidays: np.ndarray
    ) -> np.ndarray:
        """Returns the clock times so many rows of the week later; holidays are no rows."""
        number, between = self._numbers(local)
        # From a time between two rows on, the next row is one step away.
        number = (
            number
            - np.searchsorted(holidays, number)
            + np.where(between & (np.asarray(steps) < 0), 1, 0)
            + np.asarray(steps)
        )
        workdays = holidays - np.arange(len(holidays))
        number = number + np.searchsorted(workdays, number, side="right")
        week, place = np.divmod(number, len(self.places))
        return self.monday + week * self.length + self.places[place]

    def holidays(self, local: np.ndarray) -> np.ndarray:
        """Returns the numbers of the days of the week that no row is at, within the table.

        Pauses of up to five days in a row, if they are few: an exchange's or a shop's holidays.
        """
        number, between = self._numbers(np.unique(local))
        number = np.unique(number[~between])
        if not self.daily or len(number) < 2:
            return np.zeros(0, np.int64)
        pauses = np.diff(number) - 1
        short = (pauses > 0) & (pauses <= _LONGEST_HOLIDAY)
        if pauses[short].sum() > _MOST_HOLIDAYS * (number[-1] - number[0]):
            return np.zeros(0, np.int64)
        found = [
            first + 1 + np.arange(count)
            for first, count in zip(number[:-1][short], pauses[short], strict=True)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _numbers(self, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of the row of the week at or before, and whether it is before."""
        week, since = np.divmod(np.asarray(local) - self.monday, self.length)
        place = np.searchsorted(self.places, since, side="right") - 1
        number = week * len(self.places) + place
        between = self.places[place] != since
        return number, between


def business_days(local: np.ndarray, day: int) -> tuple[tuple[int, int], ...]:
    """Finds the weekdays that a table of days has.

    Args:
        local: (rows,) clock times, all at one time of day.
        day: length of a day in their unit.

    Returns:
        Runs as in `Step.week`; empty if a table has all days of the week, one, or too few rows.
    """
    date, of_day = np.divmod(np.unique(local), day)
    if len(date) < 8 or (of_day != of_day[0]).any():
        return ()
    counts = np.bincount((date + 3) % 7, minlength=7)
    there = counts > _RARE * counts.max()
    if not 2 <= there.sum() <= 6 or counts[~there].sum() > 0.02 * counts.sum():
        return ()
    first = int(of_day[0]) * (DAY // day)
    return _runs(np.flatnonzero(there) * DAY + first, DAY)


def sessions(local: np.ndarray, nanoseconds: int, step: int) -> tuple[tuple[int, int], ...]:
    """Finds the hours of the week in which a table has rows.

    Args:
        local: (rows,) clock times.
        nanoseconds: of their unit.
        step: distance of rows in nanoseconds, less than a day.

    Returns:
        Runs as in `Step.week`; empty where rows come round the clock, or only in a few weeks.
    """
    moments = np.unique(local)
    week, since = np.divmod(moments - _MONDAY // nanoseconds, WEEK // nanoseconds)
    weeks = len(np.unique(week))
    places, counts = np.unique(since, return_counts=True)
    usual = places[counts > _RARE * weeks] * nanoseconds
    if weeks < 3 or len(usual) < 2 or len(usual) * step > 0.95 * WEEK:
        return ()
    runs = _runs(usual, step)
    return runs if len(runs) <= _MOST_RUNS else ()


def _runs(places: np.ndarray, step: int) -> tuple[tuple[int, int], ...]:
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 2 * step) != step)
    lengths = np.diff(np.append(starts, len(places)))
    return tuple((int(places[s]), int(n)) for s, n in zip(starts, lengths, strict=True))
