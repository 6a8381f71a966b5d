"""Missing values of real-valued columns: zero, and an is-missing indicator beside them."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class MissingValues:
    """Makes variables from scaled columns.

    Tables are kept as columns with NaN; the variables are made for a batch, so that indicators take
    no memory for the whole table.

    Args:
        indicators: for each column whether a variable that is 1 where it is missing, else 0,
            follows it.
    """

    indicators: tuple[bool, ...]

    @property
    def variables(self) -> int:
        """Number of variables made of the columns."""
        return len(self.indicators) + sum(self.indicators)

    def expand(self, columns: np.ndarray) -> np.ndarray:
        """Turns columns into variables.

        Args:
            columns: (..., columns) float32, NaN where missing; changed in place.

        Returns:
            (..., variables) float32 without NaN.
        """
        missing = np.isnan(columns)
        np.copyto(columns, 0, where=missing)
        if self.variables == len(self.indicators):
            return columns
        after = np.cumsum((0, *self.indicators[:-1])) + np.arange(len(self.indicators))
        result = np.empty((*columns.shape[:-1], self.variables), np.float32)
        result[..., after] = columns
        flagged = np.flatnonzero(self.indicators)
        result[..., after[flagged] + 1] = missing[..., flagged]
        return result
