"""The distance between two rows of a series, and the seasons that it suggests."""

from __future__ import annotations

import dataclasses
from typing import Any

from tft_keras.data.zones import check_zone

HOUR = 3600 * 10**9
DAY = 24 * HOUR
WEEK = 7 * DAY
# In a preprocessing written before zones were kept: that of the table at hand.
ZONE_OF_TABLE = "*"

_NAMES = {
    1: "nanosecond",
    10**3: "microsecond",
    10**6: "millisecond",
    10**9: "second",
    60 * 10**9: "minute",
    HOUR: "hour",
    DAY: "day",
    WEEK: "week",
}


@dataclasses.dataclass(frozen=True)
class Step:
    """The distance between two rows in a row.

    Args:
        size: how many of the unit; at least 1.
        unit: `nanoseconds`, `months`, or `index` for a time column of plain numbers.
        zone: whose calendar the table follows; None for UTC.
        wall_clock: whether the distance is one on the clocks of the zone, where a day has 24 hours
            even when summer time begins; else it is one between moments.
        week: the rows that a week has, if it does not have all of them: runs of rows one step
            apart, each the nanoseconds from Monday 0:00 to its first row and the number of its
            rows. `((0, 5),)` are business days.
    """

    size: int
    unit: str
    zone: str | None = None
    wall_clock: bool = False
    week: tuple[tuple[int, int], ...] = ()

    @property
    def seasons(self) -> tuple[int, ...]:
        """The seasons that the step suggests, in rows; empty if it suggests none."""
        if self.unit == "months":
            return (12 // self.size,) if self.size < 12 and 12 % self.size == 0 else ()
        if self.unit == "index":
            return ()
        if self.week:
            runs = [rows for _, rows in self.week]
            days = (runs[0],) if self.size < DAY and len(set(runs)) == 1 else ()
            return tuple(season for season in (*days, sum(runs)) if season > 1)
        periods = (DAY, WEEK, 52 * WEEK) if self.size >= DAY else (DAY, WEEK)
        return tuple(p // self.size for p in periods if p % self.size == 0 and p > self.size)

    def __str__(self) -> str:
        if self.unit == "index":
            return f"{self.size} in whole numbers"
        if self.unit == "months":
            return "1 month" if self.size == 1 else f"{self.size} months"
        if self.week and self.size == DAY:
            days = sum(rows for _, rows in self.week)
            return "1 business day" if self.week == ((0, 5),) else f"1 of {days} days a week"
        size, name = max((s, n) for s, n in _NAMES.items() if self.size % s == 0)
        count = self.size // size
        sessions = " in sessions" if self.week else ""
        return f"{count} {name}{'s' if count > 1 else ''}{sessions}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the step as plain JSON values."""
        return dataclasses.asdict(self) | {"week": [list(run) for run in self.week]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Step:
        """Makes the step from `to_dict`'s result, of this version or the one before zones."""
        values = dict(values)
        zone = values.setdefault("zone", ZONE_OF_TABLE)
        if zone not in (None, ZONE_OF_TABLE):
            check_zone(zone)
        week = tuple((int(first), int(rows)) for first, rows in values.pop("week", ()))
        return cls(**values, week=week)
