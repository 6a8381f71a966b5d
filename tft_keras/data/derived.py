"""Inputs that no column of the table holds: the calendar, earlier seasons, how the level moved."""

from __future__ import annotations

import dataclasses

import numpy as np

from tft_keras.config import Config

# What the target's center and scale at each row are kept as, beside the columns.
STATISTICS = "target_statistics"
LEVEL_MOVED = "level moved"
SPREAD_MOVED = "spread moved"


def lag_rows(season: int, encoder_steps: int, horizon: int) -> np.ndarray:
    """Returns the row whose target is the lag of each of a window's rows.

    Rows are counted from the forecast origin, the first row of the horizon: a lag is always
    negative. See `Derived.lags`.

    Returns:
        (encoder_steps + horizon,) ints.
    """
    rows = np.arange(-encoder_steps, horizon)
    return rows - season * np.maximum(rows // season + 1, 1)


@dataclasses.dataclass(frozen=True)
class Derived(Config):
    """The derived inputs of a run, by name; they follow the table's own of their role and kind.

    Args:
        calendar: categorical known ones; see `calendar`.
        waves: real-valued known ones of the calendar.
        lags: rows in each season whose naive forecast is a known input: at a row of the horizon the
            target as few whole seasons before as lie before the forecast origin, at a past row
            the target one season before.
        moves: whether two observed ones tell how the target's level and spread moved.
    """

    calendar: tuple[str, ...] = ()
    waves: tuple[str, ...] = ()
    lags: tuple[int, ...] = ()
    moves: bool = False

    def categorical(self, role: str) -> tuple[str, ...]:
        """Returns the names of a role's categorical ones."""
        return self.calendar if role == "known" else ()

    def real(self, role: str) -> tuple[str, ...]:
        """Returns the names of a role's real-valued ones that are computed for each row."""
        if role == "observed":
            return (LEVEL_MOVED, SPREAD_MOVED) if self.moves else ()
        return self.waves if role == "known" else ()

    def lag_names(self, role: str) -> list[str]:
        """Returns the names of a role's real-valued ones that are computed for each window."""
        return [f"{rows} rows before" for rows in self.lags] if role == "known" else []
