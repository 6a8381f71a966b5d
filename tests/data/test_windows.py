import dataclasses

import numpy as np
import pandas as pd
import pytest

from tft_keras.data import Schema, prepare

from .tables import SCHEMA, SMALL, shop_table


def _counting(rows=40, **columns):
    return pd.DataFrame({"t": np.arange(rows), "y": np.arange(rows, dtype=float)} | columns)


def _all(frame, **settings):
    config = dataclasses.replace(SMALL, validation=0.0, test=0.0, **settings)
    return prepare(frame, Schema("y", "t"), config).train


def test_windows_by_position():
    windows = _all(_counting())
    assert len(windows) == 35
    positions = np.array([0, 34, 7])
    np.testing.assert_array_equal(windows.actuals(positions), [[4, 5], [38, 39], [11, 12]])
    np.testing.assert_array_equal(windows.times(positions), [[4, 5], [38, 39], [11, 12]])
    np.testing.assert_array_equal(windows.last_value(positions), [3, 37, 10])
    np.testing.assert_array_equal(windows.history([7], 6), [[5, 6, 7, 8, 9, 10]])
    np.testing.assert_array_equal(windows.history([0], 6), [[np.nan, np.nan, 0, 1, 2, 3]])
    np.testing.assert_array_equal(windows.history_times([7], 2), [[9, 10]])


def test_inputs_and_targets_fit_together():
    windows = _all(_counting(), scaling="none")
    inputs, targets = windows.gather([3, 20])
    np.testing.assert_array_equal(
        inputs["observed_real"][:, :, 0], [[3, 4, 5, 6], [20, 21, 22, 23]]
    )
    np.testing.assert_array_equal(targets, [[7, 8], [24, 25]])


def test_lagged_never_looks_beyond_the_origin():
    windows = _all(_counting())
    np.testing.assert_array_equal(windows.lagged([10], 7), [[7, 8]])
    np.testing.assert_array_equal(windows.lagged([10], 1), [[13, np.nan]])
    np.testing.assert_array_equal(windows.lagged([0], 5), [[np.nan, 0]])


def test_lagged_and_history_stay_in_the_series_and_before_gaps():
    frame = pd.DataFrame(
        {
            "g": ["a"] * 20 + ["b"] * 30,
            "t": [*range(20), *range(10), *range(11, 31)],
            "y": np.arange(50.0),
        }
    )
    config = dataclasses.replace(SMALL, validation=0.0, test=0.0)
    windows = prepare(frame, Schema("y", "t", group=("g",)), config).train
    assert len(windows) == 15 + 5 + 15
    np.testing.assert_array_equal(windows.actuals([15, 20]), [[24, 25], [34, 35]])
    assert np.isnan(windows.lagged([15, 20], 6)).all()
    np.testing.assert_array_equal(windows.lagged([15, 20], 4), [[20, 21], [30, 31]])
    np.testing.assert_array_equal(
        windows.history([15, 20], 5), [[np.nan, *range(20, 24)], [np.nan, *range(30, 34)]]
    )


def test_last_value_is_the_last_known_one():
    frame = _counting()
    frame.loc[[2, 3, 10, 11, 12, 13], "y"] = np.nan
    windows = _all(frame)
    by_origin = dict(
        zip(
            windows.times(np.arange(len(windows)))[:, 0],
            windows.last_value(np.arange(len(windows))),
            strict=True,
        )
    )
    assert by_origin[4] == 1
    assert by_origin[9] == 8
    assert np.isnan(by_origin[14])


@pytest.mark.parametrize("settings", [{}, {"target_log1p": True}, {"scaling": "robust"}])
@pytest.mark.parametrize("per_series", [False, True])
def test_unscale_undoes_the_scaling_of_targets(settings, per_series):
    config = dataclasses.replace(SMALL, scale_per_series=per_series, **settings)
    windows = prepare(shop_table(), SCHEMA, config).test
    positions = np.arange(len(windows))
    _, targets = windows.gather(positions)
    actuals = windows.actuals(positions)
    np.testing.assert_allclose(windows.unscale(positions, targets), actuals, rtol=1e-5)
    several = windows.unscale(positions, np.stack([targets] * 3, axis=-1))
    np.testing.assert_allclose(several, np.stack([actuals] * 3, axis=-1), rtol=1e-5)


def test_positions_outside_are_refused():
    windows = _all(_counting())
    for position in (-1, 35):
        with pytest.raises(IndexError, match=r"\[0, 35\)"):
            windows.gather([position])


def test_no_positions():
    inputs, targets = _all(_counting()).gather(np.zeros(0, int))
    assert inputs["observed_real"].shape == (0, 4, 1)
    assert targets.shape == (0, 2)


def test_memory_follows_the_rows_not_the_windows():
    windows = _all(_counting(5000), encoder_steps=1000)
    assert len(windows) == 3999
    store = windows.store
    arrays = [store.times, store.target, store.known_real, store.observed_real]
    arrays += [windows.starts, windows.ends]
    assert sum(array.nbytes for array in arrays) < 5000 * 25


def test_series_ids_keep_their_type():
    frame = pd.concat([_counting().assign(g=g) for g in (10, 9)])
    windows = prepare(frame, Schema("y", "t", group=("g",)), SMALL).train
    assert windows.series([0, len(windows) - 1]) == [(9,), (10,)]
