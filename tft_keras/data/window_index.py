"""Which windows a table has: runs of windows one row apart, by split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tft_keras.data.splits import SPLITS


class Runs(NamedTuple):
    """Runs of windows, each one row after the other.

    Attributes:
        starts: (runs,) first row of the first window of each run.
        ends: (runs,) number of windows up to the end of each run.
    """

    starts: np.ndarray
    ends: np.ndarray

    def rows(self, first: int, stop: int, rows: int) -> np.ndarray:
        """Returns (rows,) bool: which rows are at places `first` to `stop - 1` of some window."""
        counts = np.diff(self.ends, prepend=0)
        edges = np.zeros(rows + 1, np.int64)
        np.add.at(edges, np.minimum(self.starts + first, rows), 1)
        np.add.at(edges, np.minimum(self.starts + counts - 1 + stop, rows), -1)
        return np.cumsum(edges[:-1]) > 0


def find_windows(
    offsets: np.ndarray,
    segments: np.ndarray,
    splits: tuple[np.ndarray, np.ndarray],
    known: np.ndarray,
    past: int,
    steps: int,
) -> dict[str, Runs]:
    """Finds the windows of each split.

    A window is whole (no gap), has a known target among its future rows, and these lie in one
    split. Its past rows may be of earlier splits.

    Args:
        offsets: (series + 1,) first row of each series.
        segments: first rows of the runs of rows without a gap.
        splits: (series,) first validation and first test rows.
        known: (rows,) bool, whether the row's target is known.
        past, steps: rows of a window before its origin, and in all.
    """
    rows = len(known)
    starts = rows - steps + 1
    if starts <= 0:
        empty = Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return dict.fromkeys(SPLITS, empty)
    segment = _numbered(segments, rows)
    before = np.append(np.int32(0), np.cumsum(known, dtype=np.int32))
    split = _numbered(splits[0], rows)
    split += _numbered(splits[1], rows)
    split -= 2 * _numbered(offsets[:-1], rows)
    split += 2
    whole = segment[:starts] == segment[steps - 1 :]
    whole &= before[steps:] > before[past : past + starts]
    whole &= split[past : past + starts] == split[steps - 1 :]
    return {
        name: _runs(whole & (split[past : past + starts] == number))
        for number, name in enumerate(SPLITS)
    }


def _numbered(firsts: np.ndarray, rows: int) -> np.ndarray:
    """Returns (rows,) int32: how many of `firsts` are at or before each row."""
    counts = np.bincount(firsts, minlength=rows + 1)[:rows]
    return np.cumsum(counts, dtype=np.int32)


def _runs(chosen: np.ndarray) -> Runs:
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return Runs(edges[::2], np.cumsum(edges[1::2] - edges[::2]))
