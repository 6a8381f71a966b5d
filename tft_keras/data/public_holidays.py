"""Public holidays as a calendar input, by the `holidays` package (extra `holidays`)."""

from __future__ import annotations

import numpy as np

from tft_keras.errors import InputError, nearest

PREFIX = "holiday in "
_KINDS = ("other day", "holiday", "day before", "day after")


def check_country(name: str) -> None:
    """Raises `InputError` unless `DE`, or a part as in `DE-BY`, is known."""
    _dates(name, np.array([2024]))


def holiday_categories(name: str, times: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Returns whether days are holidays, or are before or after one, as `calendar.categories` does.

    Args:
        name: `PREFIX` and the country.
        times: (rows,) datetime64 on the clocks of the table's zone.
    """
    days = times.astype("datetime64[D]")
    years = np.unique(days.astype("datetime64[Y]").astype(int)) + 1970
    # The day after New Year's Eve is in another year.
    holidays = _dates(name.removeprefix(PREFIX), np.arange(years.min() - 1, years.max() + 2))
    codes = np.zeros(len(days), np.int32)
    for kind, shift in ((3, -1), (2, 1), (1, 0)):
        codes[np.isin(days + shift, holidays)] = kind
    return codes, list(_KINDS)


def _dates(country: str, years: np.ndarray) -> np.ndarray:
    try:
        import holidays
    except ImportError:
        raise InputError(
            f"Holidays need the package of that name. Received: holidays={country!r} without it. "
            "Install it: pip install 'tft-keras[holidays]', or pip install holidays."
        ) from None
    name, _, part = country.partition("-")
    known = holidays.list_supported_countries()
    if name not in known or (part and part not in known[name]):
        options = [f"{name}-{each}" for each in known[name]] if name in known else list(known)
        raise InputError(
            "holidays must be the code of a country, such as DE, or of a part of it, such as "
            f"DE-BY. Received: holidays={country!r}.{nearest(country, options)}"
        )
    found = holidays.country_holidays(name, subdiv=part or None, years=[int(y) for y in years])
    return np.array(sorted(found), "datetime64[D]")
