"""Moments and what clocks show: between UTC and the wall clock of a time zone."""

from __future__ import annotations

import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tft_keras.errors import InputError, nearest

_UTC = ("UTC", "ETC/UTC", "ETC/GMT", "GMT", "Z", "+00:00", "ZULU", "UCT")
# One zone of each rule in use for the change to summer time: enough to tell what a table's local
# midnights are, the most usual ones first.
_SUMMER_TIME_ZONES = (
    *("Europe/Berlin", "America/New_York", "Europe/London", "America/Chicago", "Europe/Athens"),
    *("America/Los_Angeles", "America/Denver", "Australia/Sydney", "America/Halifax"),
    *("America/Sao_Paulo", "America/Santiago", "Pacific/Auckland", "Australia/Adelaide"),
    *("America/St_Johns", "America/Anchorage", "Asia/Jerusalem", "Asia/Beirut", "Asia/Tehran"),
    *("Africa/Casablanca", "Africa/Cairo", "America/Asuncion", "Atlantic/Azores"),
)


def check_zone(zone: str) -> str:
    """Returns the zone's name.

    Raises:
        InputError: there is no such zone.
    """
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except (pa.ArrowException, ValueError) as error:
        known = zoneinfo.available_timezones()
        raise InputError(
            "A time zone is named as in the tz database, like Europe/Berlin. "
            f"Received: time_zone={zone!r} ({error}).{nearest(zone, known)}"
        ) from None
    return zone


def plain_zone(zone: str | None) -> str | None:
    """Returns a zone, None for UTC by any of its names."""
    return None if zone is None or zone.upper() in _UTC else zone


def to_local(times: np.ndarray, unit: str, zone: str | None) -> np.ndarray:
    """Returns what the zone's clocks show at moments.

    Args:
        times: int64 of any shape, counted in `unit` since 1970 in UTC.
    """
    if zone is None:
        return times
    flat = pa.array(np.ravel(times)).cast(pa.timestamp(unit, zone))
    return pc.local_timestamp(flat).cast(pa.int64()).to_numpy().reshape(np.shape(times))


def to_utc(local: np.ndarray, unit: str, zone: str | None, later: bool = False) -> np.ndarray:
    """Returns the moments at which the zone's clocks show something; undoes `to_local`.

    A time that the clocks leave out when summer time begins is the moment of the change; of a time
    that they show twice when it ends, the first moment is meant, or the second one if `later`.
    """
    if zone is None:
        return local
    naive = pa.array(np.ravel(local)).cast(pa.timestamp(unit))
    ambiguous = "latest" if later else "earliest"
    zoned = pc.assume_timezone(naive, zone, ambiguous=ambiguous, nonexistent="latest")
    return zoned.cast(pa.int64()).to_numpy().reshape(np.shape(local))


def zone_of_midnights(times: np.ndarray, unit: str, period: int) -> str | None:
    """Returns a zone in which all moments are whole periods after midnight, if summer time is why.

    Args:
        times: int64, in UTC.
        period: in the same unit; a divisor of a day, or a day.
    """
    for zone in _SUMMER_TIME_ZONES:
        if not (to_local(times, unit, zone) % period).any():
            return zone
    return None
