import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from tft_keras.data import Schema, prepare
from tft_keras.data.scaling import Scaler, fit_scaler, unscale_by
from tft_keras.errors import InputError

from .tables import SMALL

VALUES = np.array([1.0, 2, np.nan, 4, 9])
ALL = np.array(-1)


def _unscaled(scaler, values, series):
    return unscale_by(values, *scaler.parameters(series), scaler.log1p)


def test_standard():
    scaler = fit_scaler(VALUES, None, "standard")
    mean, deviation = 4.0, np.sqrt((9 + 4 + 0 + 25) / 4)
    np.testing.assert_allclose((scaler.center, scaler.scale), (mean, deviation), rtol=1e-12)
    np.testing.assert_allclose(scaler.forward(VALUES, ALL), (VALUES - mean) / deviation)


def test_robust():
    scaler = fit_scaler(np.array([0.0, 1, 2, 3, 1000]), None, "robust")
    np.testing.assert_allclose((scaler.center, scaler.scale), (2, 2 / 1.349))


def test_robust_with_more_than_half_alike():
    scaler = fit_scaler(np.array([0.0] * 9 + [10]), None, "robust")
    assert scaler.center == 0
    np.testing.assert_allclose(scaler.scale, 3.0)


def test_none():
    scaler = fit_scaler(VALUES, None, "none")
    np.testing.assert_array_equal(scaler.forward(VALUES, ALL), VALUES)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.0, 1e12, float(np.float32(0.1))])
def test_a_constant_becomes_zero_whatever_comes_later(constant):
    scaler = fit_scaler(np.full(1001, constant), None, "standard")
    assert scaler.scale == 0
    np.testing.assert_array_equal(scaler.forward(np.array([constant, 1e9]), ALL), [0, 0])


def test_a_column_without_values():
    scaler = fit_scaler(np.full(3, np.nan), None, "standard")
    np.testing.assert_array_equal(scaler.forward(np.array([5.0, np.nan]), ALL), [0, np.nan])


def test_each_series_by_itself():
    values = np.array([1.0, 3, 10, 30, 5, 5, np.nan])
    scaler = fit_scaler(values, np.array([0, 2, 4, 6, 7]), "standard")
    overall = np.nanstd(values)
    np.testing.assert_allclose(scaler.series_center, [2, 20, 5, np.nanmean(values)])
    # The third one is constant: its level of 5 times what spread is to level in the others, 1 to 2.
    np.testing.assert_allclose(scaler.series_scale, [1, 10, 2.5, overall])
    np.testing.assert_allclose(
        scaler.forward(np.array([3.0, 30, 5, 5]), np.array([0, 1, 2, -1])),
        [1, 1, 0, (5 - np.nanmean(values)) / overall],
    )


@pytest.mark.parametrize("method", ["standard", "robust", "none"])
@pytest.mark.parametrize("offsets", [None, np.array([0, 2, 5])])
@pytest.mark.parametrize("log1p", [False, True])
def test_inverse_undoes_forward(method, offsets, log1p):
    scaler = fit_scaler(VALUES, offsets, method, log1p)
    scaler = Scaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    series = np.array([0, 0, 1, 1, -1])
    scaled = scaler.forward(VALUES, series)
    np.testing.assert_allclose(_unscaled(scaler, scaled, series), VALUES, rtol=1e-12)


def test_log1p_is_scaled_after_the_logarithm():
    scaler = fit_scaler(np.expm1([0.0, 2.0]), None, "standard", log1p=True)
    np.testing.assert_allclose(scaler.forward(np.expm1([3.0]), ALL), [2.0])
    assert np.isfinite(_unscaled(scaler, np.array([1e6]), ALL)).all()


def test_a_constant_series_is_not_scaled_by_the_size_of_its_neighbours():
    generator = np.random.default_rng(0)
    big = generator.normal(1e6, 1e5, 50)
    values = np.concatenate([np.full(50, 5.0), big, np.zeros(50)])
    scaler = fit_scaler(values, np.array([0, 50, 100, 150]), "standard")
    np.testing.assert_allclose(scaler.series_scale[0], 5.0 * big.std() / big.mean())
    assert scaler.series_scale[2] == 1.0
    logged = fit_scaler(values, np.array([0, 50, 100, 150]), "standard", log1p=True)
    np.testing.assert_allclose(logged.series_scale[0], np.log1p(big).std())
    # Far out in scaled units, a forecast of fives stays near five.
    assert np.abs(_unscaled(scaler, np.array([4.0, -4.0]), np.array([0, 0])) - 5).max() < 3


@pytest.mark.parametrize(
    ("values", "scaling", "message"),
    [
        ([0.0, 1.0, 2.0, 1e30], "none", r"not be larger than 1e\+15.*y=1e\+30 in.*row=29"),
        ([1e8, 1e8 + 1, 1e8 + 2, 1e8 + 3], "none", "digits of float32.*y=1000000"),
    ],
)
def test_what_float32_cannot_hold_is_an_error_with_row_and_way_out(values, scaling, message):
    y = np.tile(values[:3], 10)
    y[-1] = values[3]
    frame = pd.DataFrame({"t": np.arange(30), "y": y})
    config = dataclasses.replace(SMALL, scaling=scaling)
    with pytest.raises(InputError, match=message):
        prepare(frame, Schema("y", "t"), config)
