"""The variables' own networks as tables: what each makes of every code that its input can have.

A real variable on its 8-bit grid has 225 values, a categorical one its categories. What its network
gives for each is computed once, when a quantized model is exported; a device looks the results up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tft_keras.layers.input_embedding import Embedded
from tft_keras.layers.quantized_inputs import LARGEST_CODE, STEP

REAL_ROWS = 2 * LARGEST_CODE + 1


class NetworkTables(NamedTuple):
    """Results of the networks of one variable selection, one below another.

    Attributes:
        real: (real * 225, units); `None` without real variables.
        categorical: (categories of all variables, units); `None` without categorical ones.
        first: (categorical,), row of each categorical variable's code 0.
    """

    real: np.ndarray | None
    categorical: np.ndarray | None
    first: np.ndarray

    def look_up(self, embedded: Embedded) -> dict[str, tf.Tensor]:
        """Returns the results by kind, `real` and `categorical`: (variables, rows, units)."""
        found = {}
        if self.real is not None:
            variables = embedded.real.shape[0]
            first = np.arange(variables, dtype=np.int32)[:, np.newaxis] * REAL_ROWS + LARGEST_CODE
            codes = tf.cast(tf.round(embedded.real * LARGEST_CODE), tf.int32)
            found["real"] = tf.gather(tf.constant(self.real), codes + first)
        if self.categorical is not None:
            rows = embedded.codes + self.first[:, np.newaxis]
            found["categorical"] = tf.gather(tf.constant(self.categorical), rows)
        return found


def all_codes(real: int, categories: tuple[int, ...], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs among which every variable takes each of its values.

    Args:
        real: number of real variables.
        categories: of each categorical one.
        rows: at least `REAL_ROWS` and as many as there are categories of any variable.

    Returns:
        (rows, real) float32, already divided by the variables' sizes, and (rows, categorical)
        int32.
    """
    places = np.arange(rows)[:, np.newaxis]
    codes = np.minimum(places, REAL_ROWS - 1) - LARGEST_CODE
    reals = np.repeat((codes * STEP).astype(np.float32), real, axis=1)
    last = np.asarray(categories, np.int32)[np.newaxis] - 1
    return reals, np.minimum(places, last).astype(np.int32)


def network_tables(outputs: tf.Tensor, real: int, categories: tuple[int, ...]) -> NetworkTables:
    """Makes the tables.

    Args:
        outputs: (variables, rows, units), the networks' results for `all_codes`.
        real, categories: as given to `all_codes`.
    """
    values = np.asarray(outputs)
    tables = [values[:real, :REAL_ROWS].reshape(-1, values.shape[-1])] if real else [None]
    parts = [values[real + place, :count] for place, count in enumerate(categories)]
    first = np.cumsum((0, *categories))[: len(categories)].astype(np.int32)
    return NetworkTables(tables[0], np.concatenate(parts) if parts else None, first)
