"""The categories of one column, fitted on training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

UNKNOWN = 0


class Vocabulary:
    """Numbers the categories of a column from 1; 0 is the unknown token.

    A missing value is a category of its own if there are any among the training rows, otherwise it
    is unknown.

    Args:
        keys: texts of the categories (`keys.key`), sorted.
        missing: whether missing is a category; it comes last.
    """

    def __init__(self, keys: list[str], missing: bool) -> None:
        self.keys = list(keys)
        self.missing = missing

    @property
    def size(self) -> int:
        """Number of codes, the unknown token included."""
        return 1 + len(self.keys) + self.missing

    @classmethod
    def fit(cls, codes: np.ndarray, keys: list[str]) -> Vocabulary:
        """Makes the vocabulary of training rows.

        Args:
            codes: ints, positions in `keys` of the training rows; -1 where missing.
            keys: texts of all categories of the table.
        """
        counts = np.bincount(codes.ravel() + 1, minlength=len(keys) + 1)
        seen = [key for key, count in zip(keys, counts[1:], strict=True) if count]
        return cls(sorted(seen), bool(counts[0]))

    def encode(self, codes: np.ndarray, keys: list[str]) -> np.ndarray:
        """Returns int32 codes of this vocabulary for positions in a table's `keys`."""
        own = {key: place for place, key in enumerate(self.keys, start=1)}
        lookup = [own.get(key, UNKNOWN) for key in keys]
        lookup.append(self.size - 1 if self.missing else UNKNOWN)
        return np.asarray(lookup, np.int32)[codes]

    def to_dict(self) -> dict[str, Any]:
        """Returns the categories as plain JSON values."""
        return {"keys": self.keys, "missing": self.missing}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Vocabulary:
        """Makes the vocabulary from `to_dict`'s result."""
        return cls(values["keys"], values["missing"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.to_dict() == other.to_dict()

    __hash__ = None
