"""Small tables for the tests of the data layer."""

import numpy as np
import pandas as pd

from tft_keras.config import DataConfig
from tft_keras.data import Schema

SCHEMA = Schema(
    target="sales",
    time="time",
    group=("store",),
    static=("size", "kind"),
    known=("price", "promotion"),
    observed=("visitors", "weather"),
)
# Without derived inputs, and one scale for all rows: what the tests count and compute by hand.
PLAIN = {"scaling": "standard", "calendar": "none", "lags": "none"}
SMALL = DataConfig(encoder_steps=4, horizon=2, validation=0.2, test=0.2, **PLAIN)


def shop_table(stores: int = 3, rows: int = 30, seed: int = 0) -> pd.DataFrame:
    """Daily rows of some stores, sorted, every role and both kinds of input."""
    generator = np.random.default_rng(seed)
    frames = []
    for store in range(stores):
        frame = pd.DataFrame(
            {
                "store": f"s{store}",
                "time": pd.date_range("2024-01-01", periods=rows, freq="D", unit="us"),
                "sales": generator.normal(10 * (store + 1), 2, rows),
                "size": float(store),
                "kind": ["small", "large"][store % 2],
                "price": generator.normal(5, 1, rows),
                "promotion": generator.integers(0, 2, rows).astype(bool),
                "visitors": generator.integers(0, 100, rows),
                "weather": generator.choice(["sun", "rain"], rows),
            }
        )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def all_windows(windows):
    """Inputs and targets of all windows."""
    return windows.gather(np.arange(len(windows)))


def assert_same_windows(left, right):
    """Both hold the same windows, bit by bit."""
    assert len(left) == len(right)
    (left_inputs, left_targets), (right_inputs, right_targets) = map(all_windows, (left, right))
    assert left_inputs.keys() == right_inputs.keys()
    for name, array in left_inputs.items():
        np.testing.assert_array_equal(array, right_inputs[name], err_msg=name)
    np.testing.assert_array_equal(left_targets, right_targets)
    positions = np.arange(len(left))
    np.testing.assert_array_equal(left.times(positions), right.times(positions))
    assert left.series(positions) == right.series(positions)
