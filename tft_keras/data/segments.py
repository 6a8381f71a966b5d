"""Runs of rows without a gap, each known by its first row."""

from __future__ import annotations

import numpy as np


def first_of_segment(segments: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the first row of the run of rows without a gap that each row is in.

    Args:
        segments: first rows of the runs, rising.
        rows: ints of any shape.
    """
    return segments[np.searchsorted(segments, rows, side="right") - 1]
