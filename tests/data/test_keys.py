import dataclasses
import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.keys import key, keys_of
from tft_keras.errors import InputError

from .tables import SMALL


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int8()),
        pa.array([1, 2, 3], pa.uint64()),
        pa.array([1.0, 2.0, 3.0], pa.float32()),
        pa.array([1.0, 2.0, 3.0]),
        pa.array([decimal.Decimal(n) for n in (1, 2, 3)], pa.decimal128(20, 4)),
        pa.array(["1", "2", "3"]),
        pa.array([b"1", b"2", b"3"]),
    ],
    ids=lambda values: str(values.type),
)
def test_a_number_has_one_key_in_every_type(values):
    assert keys_of(values, "x") == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**53, 2**53 + 1),
        (decimal.Decimal("0.1"), decimal.Decimal("0.10000000000000001")),
        (decimal.Decimal(2**53), decimal.Decimal(2**53 + 1)),
        ("1", "01"),
        ("1", "1.0"),
        (1, 1.5),
        (1e300, 2e300),
        (b"\xff", b"\xfe"),
        (True, 1),
    ],
)
def test_no_two_values_fall_together(one, other):
    assert key(one) != key(other)


def test_missing_values_have_no_key():
    assert keys_of(pa.array([None, 1.0, float("nan")]), "x") == [None, "1", None]


def test_times_have_the_key_of_their_moment_whatever_the_unit():
    stamp = datetime.datetime(2024, 1, 31, 12, 30, 0, 250000)
    keys = {keys_of(pa.array([stamp], pa.timestamp(unit)), "x")[0] for unit in ("ms", "us", "ns")}
    assert len(keys) == 1
    spans = {
        keys_of(pa.array([size], pa.duration(unit)), "x")[0]
        for unit, size in (("s", 2), ("ms", 2000), ("ns", 2 * 10**9))
    }
    assert len(spans) == 1


def test_nested_values_are_refused():
    for values in (
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ):
        with pytest.raises(InputError, match="one plain value.*column 'x'"):
            keys_of(values, "x")


LEVELS = {1: 1.0, 3: 1e3, 5: 1e6}


def _table(convert):
    days = np.arange(np.datetime64("2024-01-01", "s"), np.datetime64("2024-02-10", "s"), 86400)
    generator = np.random.default_rng(0)
    values = [level * generator.normal(10, 1, len(days)) for level in LEVELS.values()]
    ids = np.repeat(list(LEVELS), len(days))
    return pa.table(
        {
            "id": convert(pa.array(ids)),
            "t": pa.array(np.tile(days, len(LEVELS))),
            "y": np.concatenate(values),
        }
    )


@pytest.mark.parametrize(
    "type_", [pa.int32(), pa.float64(), pa.string(), pa.decimal128(25, 2)], ids=str
)
def test_ids_of_another_type_keep_their_scaling_and_their_type(type_):
    config = dataclasses.replace(SMALL, scale_per_series=True)
    fitted = prepare(_table(lambda ids: ids), Schema("y", "t", ("id",)), config).preprocessing
    windows = forecast_windows(_table(lambda ids: ids.cast(type_, safe=False)), fitted)
    spread = windows.unscale([0, 1, 2], np.ones(3)) - windows.unscale([0, 1, 2], np.zeros(3))
    np.testing.assert_allclose(sorted(spread), sorted(fitted.target_scaler.series_scale))
    assert windows.group_columns([0])["id"].type == type_


def test_new_series_are_told_once():
    config = dataclasses.replace(SMALL, scale_per_series=True)
    fitted = prepare(_table(lambda ids: ids), Schema("y", "t", ("id",)), config).preprocessing
    other = _table(lambda ids: pa.array(ids.to_numpy() + 2))
    with pytest.warns(UserWarning, match=r"1 of 3 series were not trained.*id=7") as caught:
        forecast_windows(other, fitted)
    assert len(caught) == 1
